# SPDX-License-Identifier: BSD-3-Clause
"""What stands between dispatch and combine: each expert's rows times its weights."""

from __future__ import annotations

from typing import Any

import torch

from ..._core.errors import UnsupportedError
from ...triton.primitives.backend import INTERPRETED
from .._shared.arguments import check_tensor, needs_operator, on_tensors, refuse_grad, result
from .._shared.powers import power_of_2
from .._shared.stage_marks import staged
from ..moe.api import FLOATS
from ..moe.handle import GROUP, ExpertHandle
from . import kernels


def _blocks(pairs: int, experts: int, batch_invariant: bool) -> tuple[int, int, int]:
    """Rows and columns of a tile, and how many of k it adds at a time."""
    if INTERPRETED:
        return 16, 32, 32
    if batch_invariant:
        return 64, 128, 64
    average = max(1, pairs // experts)
    return min(128, power_of_2(average, 16)), 128, 64


def multiply_groups(
    out: torch.Tensor, tokens: torch.Tensor, rows: torch.Tensor | None, offsets: torch.Tensor,
    weights: torch.Tensor, pairs: int, scales: torch.Tensor | None = None, *, based: bool = False,
    turned: bool = False, batch_invariant: bool = False,
) -> None:  # fmt: skip
    """Rows of pairs, ``offsets`` apart, times their group's weights, or their transpose: ``turned``.

    Args:
        out: (pairs, n); with ``based`` it begins with the pair ``offsets[0]``.
        tokens: (rows, k); ``rows`` says which one a pair has, None: it has its own.
        pairs: how many there are at most, for the size of tiles.
        scales: of FP8 tokens.
        batch_invariant: tiles do not depend on ``pairs``.
    """
    experts, k, n = weights.mT.shape if turned else weights.shape
    if not pairs or not n:
        return
    high, wide, deep = _blocks(pairs, experts, batch_invariant)
    programs = 2
    if not INTERPRETED:
        programs = torch.cuda.get_device_properties(tokens.device).multi_processor_count
    scaled = scales is not None
    given = tokens.view(torch.uint8) if scaled else tokens
    tile = kernels.Tile(scaled, turned, high, wide, GROUP if scaled else deep)
    with staged("multiply groups"):
        kernels.group_matmul_tiles[(programs,)](
            out, given, scales if scaled else tokens, rows, offsets, weights, experts, n, k, BASED=based,
            TILE=tile, num_warps=8,
            num_stages=2 if weights.dtype == torch.float32 or scaled else 3,
        )  # fmt: skip


def _scaled(handle: ExpertHandle, by_pair: bool) -> bool:
    """Whether the kernel multiplies tokens by scales.

    Raises: UnsupportedError (they are in blocks).
    """
    if by_pair or handle.scales is None:
        return False
    if handle.block_format is not None:
        raise UnsupportedError(
            f"group_matmul multiplies no {handle.block_format.upper()}: give "
            "handle.by_expert(tokens).to(weights.dtype) with by_pair=True, or another grouped GEMM"
        )
    return True


def _check_rows(tokens: Any, handle: ExpertHandle, by_pair: bool) -> None:
    pairs = handle.rows.shape[0]
    if by_pair and tokens.shape[0] != pairs:
        raise ValueError(
            f"tokens has {tokens.shape[0]} rows; the handle has {pairs} pairs, and by_pair=True takes a "
            "row for each: leave it out for the tokens that expert_dispatch returned"
        )
    if not by_pair and tokens.shape[0] != handle.n_rows:
        raise ValueError(
            f"tokens has {tokens.shape[0]} rows; those of the handle have {handle.n_rows}: give what "
            "expert_dispatch returned, or by_pair=True for a row a pair, as group_matmul returns them"
        )


@on_tensors
def group_matmul(
    tokens: Any, weights: Any, handle: ExpertHandle, *, by_pair: bool = False, out: Any = None,
    batch_invariant: bool = False,
) -> Any:  # fmt: skip
    """Multiply each expert's tokens by its weights, in one kernel that reads the experts' sizes itself.

    Args:
        tokens: what ``expert_dispatch`` returned, (rows, k), of the dtype of ``weights`` or FP8; or with
            ``by_pair``, (pairs, k), what an earlier ``group_matmul`` returned.
        weights: (experts of the caller's, k, n) bfloat16, float16 or float32, contiguous.
        handle: that of the tokens.
        by_pair: ``tokens`` has a row for each pair, as the result has, and none is looked up.
        out: where the result goes; default: a new tensor.
        batch_invariant: the bits of a pair's row do not depend on other pairs; derivatives as without.

    Returns: (pairs, n), in the order of ``handle.rows``, as ``expert_combine`` takes it; in decode mode
        rows past ``handle.offsets[-1]`` are not written. Sums are in float32. It has derivatives for
        both, unless ``out`` is given or tokens are FP8.
    Completes: in the order of the current stream, without a wait of the host. Not collective.
    Raises: ValueError (sizes, layout), TypeError, RuntimeError (a tensor requires grad, and there is no
        derivative), UnsupportedError (tokens in MXFP8 or NVFP4).
    Extension.
    """
    if not isinstance(handle, ExpertHandle):
        raise TypeError(f"handle is {type(handle).__name__}; give what expert_dispatch returned")
    if out is not None or handle.scales is not None:
        refuse_grad("group_matmul of FP8 or with out=", tokens, weights)
    check_tensor("weights", weights, FLOATS, 3)
    scaled = _scaled(handle, by_pair)
    kind = torch.float8_e4m3fn if scaled else weights.dtype
    check_tensor("tokens", tokens, (kind,), 2, of="the dispatch" if scaled else "weights")
    (experts, k, n), pairs = weights.shape, handle.rows.shape[0]
    if experts != handle.offsets.shape[0] - 1 or tokens.shape[1] != k:
        raise ValueError(
            f"weights has size {tuple(weights.shape)}; for this PE's experts and these tokens it has "
            f"({handle.offsets.shape[0] - 1}, {tokens.shape[1]}, n)"
        )
    _check_rows(tokens, handle, by_pair)
    rows = None if by_pair else handle.rows
    if out is None and not scaled and needs_operator(tokens, weights):
        return torch.ops.pyshmem.group_matmul(
            tokens, weights, rows, handle.offsets, pairs, bool(batch_invariant)
        )
    of_handle = ("handle.offsets", handle.offsets), ("handle.scales", handle.scales)
    read = ("tokens", tokens), ("weights", weights), ("handle.rows", rows), *of_handle
    dest = result("out", out, (pairs, n), weights.dtype, weights, read)
    if pairs and n:
        multiply_groups(
            dest, tokens, rows, handle.offsets, weights, pairs, handle.scales if scaled else None,
            batch_invariant=batch_invariant,
        )  # fmt: skip
    return dest
