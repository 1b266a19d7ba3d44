# SPDX-License-Identifier: BSD-3-Clause
"""What a PE does by itself for matrix products that communicate: products, sums, the shapes of chunks.

Partial products have the result's dtype and are added in float32, in PE order, and rounded once, by
whichever algorithm.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._foreign.torch import scaled_mm
from ..._torch.launches import Launch
from .._shared.stage_marks import staged
from . import kernels
from .arguments import FP8, Problem
from .tiles import multiply_by_tiles

#: What chunks are shaped for: multiprocessors, and extents of the tiles of cuBLAS. The same on all PEs
#: whatever they have. The simulator's are small, so that small products have as many chunks.
MULTIPROCESSORS, TILE = 132, (128, 256)
_SIMULATED, _SIMULATED_TILE = 5, (4, 8)


def finish(
    dest: torch.Tensor, parts: torch.Tensor, n_parts: int = 1, step: int = 0, *, second: Any = None,
    scales: tuple[torch.Tensor, torch.Tensor] | None = None, bias: torch.Tensor | None = None,
    activation: str | None = None,
    own: torch.Tensor | None = None, me: int = -1, stream: int | None = None,
) -> None:  # fmt: skip
    """Sum of parts ``step`` elements apart, scaled, plus bias, activated: ``dest`` and ``second``.

    ``own`` stands for part ``me``. ``stream``: a handle; default torch's current one.
    """
    nelems = dest.numel()
    if not nelems:
        return
    scale_x, scale_w = scales or (dest, dest)
    tensors = (
        dest, dest if second is None else second, parts, dest if own is None else own, scale_x,
        scale_w, dest if bias is None else bias,
    )  # fmt: skip
    facts = (
        nelems, dest.shape[1], step, n_parts, me, activation, second is None, scales is None,
        bias is None, scale_x.numel() > 1, scale_w.numel() > 1, dest.is_cuda,
    )  # fmt: skip
    key = (*facts, dest.device, *[one.dtype for one in tensors])
    launch = _launches.get(key)
    if launch is None:
        if len(_launches) >= _MOST_LAUNCHES:
            _launches.clear()
        launch = _launches[key] = _finish_launch(*facts)
    with staged("add up", stream):
        launch(tensors, (), stream)


_launches: dict[Any, Launch] = {}  # of finish, by all that a launch depends on
_MOST_LAUNCHES = 1024


def _finish_launch(
    nelems: int, columns: int, step: int, n_parts: int, me: int, activation: str | None, alone: bool,
    unscaled: bool, unbiased: bool, by_row: bool, by_column: bool, on_gpu: bool,
) -> Launch:  # fmt: skip
    block = 2048 if on_gpu else 1024
    programs = min(-(-nelems // block), 16 * MULTIPROCESSORS if on_gpu else 2)
    constants = {
        "SUM": kernels.Sum(n_parts, me, not alone, block),
        "END": kernels.End(
            not unscaled, int(by_row), int(by_column), not unbiased, activation or ""
        ),
    }
    return Launch(kernels.finish_kernel, programs, (nelems, columns, step), constants)


_IN_PLACE: dict[str, Any] = {
    "relu": torch.relu_, "gelu": torch.ops.aten.gelu_, "silu": torch.ops.aten.silu_,
}  # fmt: skip


def multiply(
    p: Problem, out: torch.Tensor, x: torch.Tensor, scale_x: torch.Tensor | None, *,
    whole: bool,
) -> None:  # fmt: skip
    """``x @ w`` into ``out``; ``whole``: the result, with bias and activation, and not one of a sum."""
    if x.shape[0]:
        with staged("multiply"):
            if p.invariant:
                multiply_by_tiles(p, out, x, scale_x, whole=whole)
            else:
                _multiply(p, out, x, scale_x, whole)


def _multiply(
    p: Problem, out: torch.Tensor, x: torch.Tensor, scale_x: torch.Tensor | None, whole: bool
) -> None:
    bias, activation = (p.bias, p.activation) if whole else (None, None)
    if p.blocks is not None:
        product = p.blocks.product(x, scale_x)
        finish(out, product, scales=p.blocks.scales(), bias=bias, activation=activation)
        return
    if p.x.dtype != FP8:
        if bias is None:
            torch.mm(x, p.w, out=out)
        else:
            torch.addmm(bias, x, p.w, out=out)
        if activation:
            _IN_PLACE[activation](out)
        return
    assert scale_x is not None
    assert p.scale_w is not None
    if _scaled_at_once(x, p.w, scale_x, p.scale_w, out):
        if bias is not None or activation:
            finish(out, out, bias=bias, activation=activation)
        return
    one = torch.ones((), dtype=torch.float32, device=x.device)
    product = scaled_mm(x, p.w, one, one, out_dtype=torch.float32)
    finish(out, product, scales=(scale_x, p.scale_w), bias=bias, activation=activation)


#: Sizes and dtypes of results for which cuBLAS has no product.
_without: set[tuple[Any, ...]] = set()


def _scaled_at_once(
    x: torch.Tensor, w: torch.Tensor, scale_x: torch.Tensor, scale_w: torch.Tensor,
    out: torch.Tensor,
) -> bool:  # fmt: skip
    """The scaled product, if cuBLAS has one with these scales, sizes and results."""
    by_row = scale_x.numel() > 1 or scale_w.numel() > 1
    if by_row and not (out.dtype == torch.bfloat16 and x.is_cuda):
        return False
    kind = (*x.shape, w.shape[1], out.dtype, by_row)
    if kind in _without:
        return False
    if by_row:
        scale_x = scale_x.expand(x.shape[0]).contiguous().view(-1, 1)
        scale_w = scale_w.expand(w.shape[1]).contiguous().view(1, -1)
    try:
        scaled_mm(x, w, scale_x, scale_w, out_dtype=out.dtype, out=out)
    except RuntimeError as error:  # few rows, of 16-bit results
        if "CUBLAS_STATUS_NOT_SUPPORTED" not in str(error):
            raise
        _without.add(kind)
        return False
    return True


def add_product(p: Problem, total: torch.Tensor, x: torch.Tensor) -> None:
    """``total += x @ w``, rounded once, and then bias and activation; not of FP8."""
    if not x.shape[0]:
        return
    with staged("multiply"):
        total.addmm_(x, p.w)
    if p.bias is not None or p.activation:
        finish(total, total, bias=p.bias, activation=p.activation)


def rows_of_scale(p: Problem, rows: slice) -> torch.Tensor | None:
    """The scales of some rows of ``x``; a single one is that of all."""
    return p.scale_x[rows] if p.by_row and p.scale_x is not None else p.scale_x


def layout_of(p: Problem) -> str | None:
    """Why cuBLAS cannot multiply the FP8 tensors of a call, or None."""
    if p.x.dtype != FP8 or not p.x.is_cuda:
        return None
    if not p.transposed or p.k % 16 or p.n % 16:
        return (
            "cuBLAS multiplies float8_e4m3fn where w is the transpose of a contiguous (n, k) tensor "
            "and k and n are multiples of 16"
        )
    return None


# ---- the shapes of chunks --------------------------------------------------------------------------


def _shape(p: Problem) -> tuple[int, int, int]:
    """Multiprocessors, and a tile's extents."""
    return (MULTIPROCESSORS, *TILE) if p.x.is_cuda else (_SIMULATED, *_SIMULATED_TILE)


def chunks_of(p: Problem) -> tuple[int, ...]:
    """Where the chunks of an owner's rows begin, and the end of the last, for the owner of most rows.

    The same on all members; who owns fewer rows has its last chunks shorter, or empty. What is exposed
    at the end of matmul_all_reduce is the last one's way. Of matmul_reduce_scatter it is nothing where
    two members add to what has come, and they need two chunks, of which one comes beside the other.
    """
    most = max(p.rows)
    if p.operation == "matmul_all_reduce":
        return _chunks(most, p.n, *_shape(p))
    pair = p.space.n_pes == 2 and p.x.dtype != FP8
    return _chunks(most, p.n, *_shape(p), most=2) if pair else (0, most)


def cuts(rows: int, bounds: Sequence[int]) -> list[tuple[int, int]]:
    """Begin and end of the chunks of an owner's rows; they may be empty."""
    return [(min(begin, rows), min(end, rows)) for begin, end in itertools.pairwise(bounds)]


def sent_chunks(p: Problem, bounds: tuple[int, ...]) -> tuple[int, ...]:
    """The chunks of the rows that go away first, some of ``bounds``: two, where four have a wave each.

    Nobody waits for these rows while the own ones are multiplied, and each product costs some time.
    """
    processors, height, width = _shape(p)
    one_wave = -(-bounds[1] // height) * -(-p.n // width) <= processors
    return bounds[::2] if len(bounds) == 5 and one_wave else bounds


@functools.lru_cache(1024)
def _chunks(
    rows: int, n: int, processors: int, height: int, width: int, most: int = 4
) -> tuple[int, ...]:
    """Up to ``most`` chunks, the largest first, together of no more waves of tiles than the whole."""
    columns, blocks = -(-n // width), -(-rows // height)
    waves = -(-blocks * columns // processors)
    for chunks in range(most, 1, -1):
        bounds, left = [0], waves
        for chunk in range(chunks - 1):
            own = -(-left // (chunks - chunk))
            bounds.append(bounds[-1] + own * processors // columns)
            left -= own
        rest = blocks - bounds[-1]
        if left > 0 and len(set(bounds)) == chunks and 0 < rest <= left * processors // columns:
            return (*(height * bound for bound in bounds), rows)
    return (0, rows)


class Loan(NamedTuple):
    """Own rows that are multiplied together with a member's, beside which they lie."""

    member: int
    rest: slice  # own rows that are not, as rows of the whole
    joint: slice  # the member's and those


def loan(p: Problem, member: int) -> Loan:
    """How many rows to give along so that fewer waves of tiles do it all; often none.

    A product in two chunks has two last waves that are not full.
    """
    own, theirs = p.rows_of(p.space.me), p.rows_of(member)
    given = _lent(p.rows[p.space.me], p.rows[member], p.n, *_shape(p))
    if member > p.space.me:
        rest, joint = slice(own.start, own.stop - given), slice(theirs.start - given, theirs.stop)
    else:
        rest, joint = slice(own.start + given, own.stop), slice(theirs.start, theirs.stop + given)
    return Loan(member, rest, joint)


@functools.lru_cache(1024)
def _lent(own: int, theirs: int, n: int, processors: int, height: int, width: int) -> int:
    def waves(rows: int) -> int:
        return -(-(-(-rows // height) * -(-n // width)) // processors)

    return min(
        range(0, own // 2 + 1, height),
        key=lambda given: (waves(own - given) + waves(theirs + given), given),
    )
