# SPDX-License-Identifier: BSD-3-Clause
"""Mixtures of experts: tokens go to the PEs of their experts, and weighted sums come back."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch

from .._core import errors
from ..host import runtime
from ..host.teams import Team
from ..interop.torch.staging import capturing
from ..triton import context
from ..triton.chosen import INTERPRETED
from . import experts_kernels as kernels
from .all_to_all import new_out
from .arguments import check_tensor, on_tensors
from .slots import (
    PROGRAMS,
    WARPS,
    Slots,
    gather_numbers,
    number_of,
    refuse_grad,
    refuse_many,
    slots,
)
from .workspace import Workspace, workspace

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_INDICES = (torch.int32, torch.int64)
GROUP = 128  # elements of a token that have one scale
_LISTERS = min(8, PROGRAMS)  # programs that send lists
_BLOCK = 128 if INTERPRETED else 2048  # cells of a list that one of them sends at a time
_TILE = 2048  # cells that are laid out at a time
_COLUMNS = 8192  # most elements of a token in registers; of sums half of that


@dataclasses.dataclass(frozen=True, eq=False)
class ExpertHandle:
    """What ``expert_dispatch`` knows of the tokens that it brought, for grouped GEMMs and the way back.

    Attributes:
        rows: (pairs,) int32: of each pair of a token and an expert of the caller's the row of the token,
            sorted by expert, then by token. In decode mode there is room for all pairs that there could
            be, and those that there are not name row 0.
        offsets: (experts of the caller's + 1,) int32: the pairs of its expert e are ``offsets[e]`` to
            ``offsets[e + 1]``. ``rows`` and ``offsets`` are on the caller's device.
        scales: (rows, hidden / 128) float32, if the tokens are FP8: a token is its bytes times these.
        mode: "throughput" or "decode".
        first_expert: number of the caller's first expert.
    """

    rows: torch.Tensor
    offsets: torch.Tensor
    scales: torch.Tensor | None
    mode: str
    first_expert: int
    team: Team | None
    topk_ids: torch.Tensor
    pairs: torch.Tensor
    most: int

    @property
    def counts(self) -> torch.Tensor:
        """(experts,) int32: how many pairs each of the caller's experts has; on its device."""
        return self.offsets[1:] - self.offsets[:-1]

    def by_expert(self, tokens: torch.Tensor) -> torch.Tensor:
        """(pairs, hidden): a token for each pair, sorted by expert, for a GEMM that looks nothing up.

        FP8 tokens come as float32, multiplied by their scales.
        """
        if self.scales is not None:
            groups = tokens.float().unflatten(-1, (-1, GROUP)) * self.scales.unsqueeze(-1)
            tokens = groups.flatten(-2)
        return tokens.index_select(0, self.rows)


class _Lists(NamedTuple):
    """The block of ``experts_lists``: as int64, where its data starts, and cells of a list."""

    block: torch.Tensor
    head: int
    cells: int


def _lists(space: Workspace, cells: int) -> _Lists:
    """The team's lists, of at least ``cells`` cells, which is the same on all PEs."""

    def head_of(n_pes: int) -> int:
        return 2 * PROGRAMS + _LISTERS * n_pes + 31 & -32

    world = runtime.n_pes()
    wanted = 8 * head_of(world) + 2 * world * 4 * (cells + 15 & -16)
    block = space.block("lists", 1 << (wanted - 1).bit_length(), zeroed=True)
    head = head_of(space.n_pes)
    room = (block.numel() - 8 * head) // (8 * space.n_pes) & -16
    return _Lists(block.view(torch.int64), head, room)


def _power(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


class _Chunks(NamedTuple):
    """How tokens travel: how many chunks, tokens of one, bytes from token to token in a slot."""

    chunks: int
    rows: int
    pitch: int


def _chunks(space: Workspace, most: int, nbytes: int) -> tuple[Slots, _Chunks]:
    """``most`` tokens of ``nbytes`` bytes from each member, in chunks enough for all programs."""
    pitch = nbytes + 15 & -16
    room = slots(space, pitch)
    rows = max(1, min(room.nbytes // pitch, -(-most // PROGRAMS)))
    return room, _Chunks(-(-most // rows), rows, pitch)


def _check_dispatch(
    x: Any, ids: Any, n_experts: int, quantize: str | None, mode: str, most: int | None,
    space: Workspace,
) -> None:  # fmt: skip
    refuse_grad("expert_dispatch", x)
    check_tensor("x", x, FLOATS, 2)
    check_tensor("topk_ids", ids, _INDICES, 2)
    refuse_many(space, "expert_dispatch", 63)
    if ids.shape[0] != x.shape[0] or not ids.shape[1] or not x.shape[1]:
        raise ValueError(
            f"topk_ids has size {tuple(ids.shape)} and x {tuple(x.shape)}; they have one row a token, "
            "and one or more columns"
        )
    if n_experts < 1 or n_experts % space.n_pes:
        raise ValueError(f"{n_experts} experts cannot be spread evenly over {space.n_pes} PEs")
    if mode not in ("throughput", "decode"):
        raise ValueError(f"mode is {mode!r}; it can be 'throughput' or 'decode'")
    if quantize not in (None, "fp8"):
        raise ValueError(f"quantize is {quantize!r}; it can be 'fp8' or None")
    if quantize and x.shape[1] % GROUP:
        raise ValueError(f"hidden size {x.shape[1]} is no multiple of {GROUP}, as FP8 needs it")
    if quantize and x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 9):
        raise errors.UnsupportedError("this GPU has no FP8: quantize needs compute capability 8.9")
    if mode == "decode" and most is None:
        raise ValueError("decode mode needs max_tokens, the most that a PE has in any call")
    if most is not None and x.shape[0] > most:
        raise ValueError(f"{x.shape[0]} tokens are more than max_tokens, {most}")


@on_tensors
def expert_dispatch(
    x: Any, topk_ids: Any, n_experts: int, *, quantize: str | None = None, mode: str | None = None,
    max_tokens: int | None = None, team: Team | None = None,
) -> Any:  # fmt: skip
    """Send each token to the PEs that have one of its experts, once each.

    Experts are spread evenly: member p has those from ``p * n_experts / n_pes`` on.

    Args:
        x: (tokens, hidden) bfloat16, float16 or float32, contiguous; each PE may have another number of
            tokens, 0 too.
        topk_ids: (tokens, k) int32 or int64: each token's experts; -1 stands for none.
        quantize: "fp8": tokens travel, and are returned, as float8_e4m3fn with a float32 scale for each
            128 elements; ``hidden`` is a multiple of 128.
        mode: "throughput": the result has as many rows as tokens have come, so the host waits once for
            their number, and no capture is possible. "decode": one kernel, no wait of the host, for CUDA
            graphs; there are ``n_pes * max_tokens`` rows: token t of member p has row
            ``p * max_tokens + t`` if it has an expert here, and the other rows are not written. Default:
            "decode" if ``max_tokens`` is given.
        max_tokens: the most tokens that a PE has; the same on all members. Decode mode needs it.
        team: default ``TEAM_WORLD``.

    Returns: the tokens (rows, hidden), in the order of their PEs and of their rows there, and an
        ``ExpertHandle``: the experts' rows, scales, and what ``expert_combine`` needs.
    Completes: in the order of the current stream. Collective.
    Raises: ValueError (sizes; an expert that there is not, in throughput mode on all members before any
        token has moved; in decode mode the kernel ends the job and says so), TypeError, UnsupportedError
        (FP8 on a GPU without it; more than 63 PEs), RuntimeError (a tensor requires grad; throughput
        mode in a capture); in checking mode MismatchError.
    Extension.
    """
    space = workspace(team)
    taken = mode or ("throughput" if max_tokens is None else "decode")
    _check_dispatch(x, topk_ids, n_experts, quantize, taken, max_tokens, space)
    space.agree(
        "expert_dispatch", x.dtype, x.shape[1], topk_ids.shape[1], n_experts, quantize, taken, max_tokens
    )  # fmt: skip
    call = _Dispatch(space, team, x, topk_ids, n_experts // space.n_pes, quantize is not None)
    if taken == "decode":
        assert max_tokens is not None
        return call.in_one_kernel(max_tokens)
    return call.by_counts()


class _Dispatch:
    """One call of ``expert_dispatch``."""

    def __init__(
        self, space: Workspace, team: Team | None, x: torch.Tensor, ids: torch.Tensor, experts: int,
        fp8: bool,
    ) -> None:  # fmt: skip
        self.space, self.team, self.x, self.ids = space, team, x, ids
        self.experts, self.fp8 = experts, fp8
        self.tokens, self.hidden = x.shape
        self.k = ids.shape[1]
        self.number = number_of(space)

    def _ints(self, *size: int) -> torch.Tensor:
        return self.x.new_empty(size, dtype=torch.int32)

    def _outputs(self, rows: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Tokens and scales."""
        if not self.fp8:
            return self.x.new_empty((rows, self.hidden)), None
        return (
            self.x.new_empty((rows, self.hidden), dtype=torch.float8_e4m3fn),
            self.x.new_empty((rows, self.hidden // GROUP), dtype=torch.float32),
        )

    def _given(self, most: int) -> tuple[tuple[Any, ...], int]:
        """What kernels need to know of the slots; elements of a tile."""
        scales = 4 * (self.hidden // GROUP)
        nbytes = self.hidden + scales if self.fp8 else self.hidden * self.x.itemsize
        room, travel = _chunks(self.space, most, nbytes)
        given = room.block, room.head, room.words, *travel, self.hidden, context()
        return given, min(_COLUMNS, _power(self.hidden))

    def _laid_out(self, most: int) -> dict[str, Any]:
        """Constants of the layout."""
        width = _power(self.k)
        return {
            "TEAM": self.number, "K": self.k, "KP": width, "PROGRAMS": PROGRAMS, "LISTERS": _LISTERS,
            "BLOCK": _BLOCK, "TB": max(1, _TILE // width), "num_warps": WARPS,
        }  # fmt: skip

    def _segments(self, most: int) -> int:
        return max(1, min(8, self.space.n_pes * most // 2048))

    def _handle(self, mode: str, most: int, scales: Any, laid: dict[str, Any]) -> ExpertHandle:
        first = self.space.me * self.experts
        rows, offsets, pairs = laid["rows"], laid["offsets"], laid["pairs"]
        return ExpertHandle(rows, offsets, scales, mode, first, self.team, self.ids, pairs, most)

    def in_one_kernel(self, most: int) -> tuple[torch.Tensor, ExpertHandle]:
        n, k, experts = self.space.n_pes, self.k, self.experts
        lists = _lists(self.space, most * k)
        given, columns = self._given(most)
        out, scales = self._outputs(n * most)
        rows, pairs, positions = (
            self._ints(n * most * k),
            self._ints(n, most, k),
            self._ints(n, most),
        )
        offsets = self._ints(experts + 3)
        if most:
            kernels.dispatch_decode[(2 * PROGRAMS,)](
                out.view(torch.uint8) if self.fp8 else out, scales if self.fp8 else out, rows, pairs,
                positions, offsets, self.x, self.ids, self.tokens, most, experts, *lists,
                self._segments(most), *given, FP8=self.fp8, TC=columns, **self._laid_out(most),
            )  # fmt: skip
        else:
            offsets.zero_()
        laid = {"rows": rows, "offsets": offsets[: experts + 1], "pairs": pairs}
        return out, self._handle("decode", most, scales, laid)

    def by_counts(self) -> tuple[torch.Tensor, ExpertHandle]:
        if capturing():
            raise RuntimeError(
                "expert_dispatch waits for the number of rows, which a captured stream cannot: "
                "mode='decode' with max_tokens does not"
            )
        n, k, experts = self.space.n_pes, self.k, self.experts
        most = int(gather_numbers(self.space, self.tokens).max())
        rows, pairs, positions = (
            self._ints(n * most * k),
            self._ints(n, most, k),
            self._ints(n, most),
        )
        found = torch.zeros(experts + 3, dtype=torch.int32, device=self.x.device)
        if most:
            kernels.lay_out_experts[(2 * PROGRAMS,)](
                rows, pairs, positions, found, self.ids, self.tokens * k, *_lists(self.space, most * k),
                most, experts, self._segments(most), context(), **self._laid_out(most),
            )  # fmt: skip
        *offsets, count, wrong = found.tolist()  # the one wait of the host
        if wrong:
            last = n * experts - 1
            raise ValueError(
                f"topk_ids of the members have {wrong} experts that there are not; they are 0 to "
                f"{last}, or -1 for none"
            )
        out, scales = self._outputs(count)
        if most:
            given, columns = self._given(most)
            kernels.dispatch_tokens[(2 * PROGRAMS,)](
                out.view(torch.uint8) if self.fp8 else out, scales if self.fp8 else out, positions,
                self.x, self.ids, self.tokens, most, experts, *given, TEAM=self.number, FP8=self.fp8,
                K=k, PROGRAMS=PROGRAMS, TC=columns, num_warps=WARPS,
            )  # fmt: skip
        compact = positions.view(-1).index_select(0, rows[: offsets[-1]])
        laid = {"rows": compact, "offsets": found[: experts + 1], "pairs": pairs}
        return out, self._handle("throughput", most, scales, laid)


@on_tensors
def expert_combine(y: Any, handle: ExpertHandle, topk_weights: Any, *, out: Any = None) -> Any:
    """Send back what experts made of tokens, weighted and summed.

    A member adds what its experts made of a token before it sends one row; the token's PE adds the
    members' rows in PE order. Both add in float32, so results are the same from run to run, bit by bit;
    a row travels in the dtype of ``y``.

    Args:
        y: (pairs, hidden) bfloat16, float16 or float32, contiguous: a row for each of ``handle.rows``;
            ``hidden`` and dtype are the same on all members.
        handle: what ``expert_dispatch`` returned; it may be used again.
        topk_weights: (tokens, k) bfloat16, float16 or float32: weights of the caller's tokens' experts.
        out: where the result goes; default: a new tensor.

    Returns: (tokens, hidden): for each token the weighted sum over its experts, 0 if it has none.
    Completes: in the order of the current stream; one kernel, without a wait of the host. Collective.
    Raises: ValueError (sizes, layout), TypeError, RuntimeError (a tensor requires grad); in checking
        mode MismatchError.
    Extension.
    """
    if not isinstance(handle, ExpertHandle):
        raise TypeError(f"handle is {type(handle).__name__}; give what expert_dispatch returned")
    refuse_grad("expert_combine", y, topk_weights)
    check_tensor("y", y, FLOATS, 2)
    check_tensor("topk_weights", topk_weights, FLOATS, 2)
    ids, space = handle.topk_ids, workspace(handle.team)
    if y.shape[0] != handle.rows.shape[0]:
        raise ValueError(f"y has {y.shape[0]} rows; the handle has {handle.rows.shape[0]} pairs")
    if topk_weights.shape != ids.shape:
        raise ValueError(
            f"topk_weights has size {tuple(topk_weights.shape)}; topk_ids had {tuple(ids.shape)}"
        )
    tokens, k = ids.shape
    hidden, most = y.shape[1], handle.most
    space.agree("expert_combine", y.dtype, hidden, k, most)
    result = new_out(out, y, (tokens, hidden))
    if not most or not hidden:
        return result
    experts = handle.offsets.shape[0] - 1
    room, travel = _chunks(space, most, hidden * y.itemsize)
    kernels.combine_tokens[(2 * PROGRAMS,)](
        result, y, handle.pairs, topk_weights, ids, tokens, most, experts, *_lists(space, most * k),
        room.block, room.head, room.words, *travel, hidden, context(), TEAM=number_of(space), K=k,
        PROGRAMS=PROGRAMS, LISTERS=_LISTERS, BLOCK=_BLOCK, TC=min(_COLUMNS // 2, _power(hidden)),
        num_warps=WARPS,
    )  # fmt: skip
    return result
