# SPDX-License-Identifier: BSD-3-Clause
"""Tiles of matrix products in Triton: their extents, their launches, and a product of one PE alone."""

from __future__ import annotations

import torch

from . import kernels
from .arguments import FP8, Problem


def config(p: Problem) -> tuple[kernels.Tile, dict[str, int]]:
    """How a program computes a tile, and options of the launch: by dtype and number of tiles.

    Batch invariant, the number does not count: 64 rows are the least of Hopper's wide products.
    """
    precision = _float32_precision()
    if not p.x.is_cuda:
        sizes, launch = (16, 16, 16), {}
    elif p.x.dtype == torch.float32:
        sizes = (128, 128, 32) if precision == "tf32" else (64, 64, 32)
        launch = {"num_warps": 8 if precision == "tf32" else 4, "num_stages": 3}
    else:
        rows, columns = 64, 128
        if not p.invariant:
            rows, columns = _extents(max(p.rows), p.n, p.space.n_pes)
        launch = {"num_warps": 8 if rows * columns > 128 * 64 else 4, "num_stages": 3}
        sizes = (rows, columns, 128 // p.x.dtype.itemsize)
    rows, columns, depth = sizes
    tile = kernels.Tile(
        rows, columns, depth, 8, p.transposed, p.k % depth == 0, precision,
        depth if p.x.dtype == FP8 else None,
    )  # fmt: skip
    return tile, launch


def linear_config(x: torch.Tensor, n: int, k: int) -> tuple[kernels.Tile, dict[str, int]]:
    """The same of a product by weights (n, k) on one PE, for all numbers of rows.

    Low tiles, for who asks for these bits decodes: of 16 rows and less they were the fastest on an H100.
    """
    precision = _float32_precision()
    if not x.is_cuda:
        sizes, launch = (16, 16, 16), {}
    elif x.dtype == torch.float32:
        sizes, launch = (64, 64, 32), {"num_warps": 4, "num_stages": 3}
    else:
        sizes = (16, 32, 256) if n < 6144 else (16, 64, 128)
        launch = {"num_warps": 4, "num_stages": 4}
    return kernels.Tile(*sizes, 8, True, k % sizes[2] == 0, precision, None), launch


def _float32_precision() -> str:
    """How torch multiplies float32: programs set that by one of two interfaces, not both."""
    try:
        return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
    except RuntimeError:
        return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"


def _extents(rows: int, columns: int, n_pes: int) -> tuple[int, int]:
    """The largest tiles that give each multiprocessor one; few rows need no high ones."""
    for height, width in ((128, 256), (128, 128), (64, 128)):
        tiles = n_pes * -(-rows // height) * -(-columns // width)
        if rows > height // 2 and tiles >= 128:
            return height, width
    return (64, 128) if rows > 16 else (64, 64)


def n_programs(p: Problem, tiles: int) -> int:
    """Of a persistent kernel: no more than the GPU has multiprocessors, so that all are resident."""
    if not p.x.is_cuda:
        return min(tiles, 3)
    return min(tiles, torch.cuda.get_device_properties(p.x.device).multi_processor_count)


def end_of(p: Problem, *, to_all: bool = False, whole: bool = True) -> kernels.End:
    """What becomes of the sums; not ``whole``: of a product that others are added to."""
    bias, activation = (p.bias, p.activation) if whole else (None, None)
    return kernels.End(
        p.scale_x is not None, int(p.by_row), int(p.scale_w is not None and p.scale_w.numel() > 1),
        bias is not None, activation or "", to_all,
    )  # fmt: skip


def multiply_by_tiles(
    p: Problem, out: torch.Tensor, x: torch.Tensor, scale_x: torch.Tensor | None, *, whole: bool
) -> None:
    """``x @ w`` into ``out`` by the tiles of the persistent kernels, so with their bits.

    ``whole``: the result, with bias and activation, and not one of a sum.
    """
    tile, options = config(p)
    tiles = -(-x.shape[0] // tile.BM) * -(-p.n // tile.BN)
    scales = x if scale_x is None else scale_x, p.w if p.scale_w is None else p.scale_w
    kernels.product_kernel[(n_programs(p, tiles),)](
        out, x, p.w, *scales, out if p.bias is None else p.bias, x.shape[0], p.n, p.k, TILE=tile,
        END=end_of(p, whole=whole), **options,
    )  # fmt: skip
