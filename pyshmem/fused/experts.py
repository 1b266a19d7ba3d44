# SPDX-License-Identifier: BSD-3-Clause
"""Mixtures of experts: tokens go to the PEs of their experts, and weighted sums come back."""

from __future__ import annotations

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
from .experts_calls import combine_by_operator, dispatch_by_operator, needs_operator
from .experts_combine_kernels import combine_tokens
from .experts_handle import GROUP, ExpertHandle, Numbers
from .slots import (
    LAUNCH,
    Slots,
    gather_numbers,
    number_of,
    programs,
    refuse_grad,
    refuse_many,
    slots,
)
from .workspace import Workspace, workspace

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_INDICES = (torch.int32, torch.int64)
_LISTERS = 2 if INTERPRETED else 32  # programs that send lists
_BLOCK = 128 if INTERPRETED else 2048  # cells of a list that one of them sends at a time
_FEW_PES = 4  # so many that most tokens go to all of them
_FEW_CELLS = 16 if INTERPRETED else 8192  # of lists that programs lay out without a wait
_CELLS = 8192  # of pairs times experts, laid out at a time
_COLUMNS = 8192  # most elements of a token in registers; of sums half of that
_ROWS = 2  # most tokens in registers; one is made FP8 at a time, and four of them are taken


class _Lists(NamedTuple):
    """The block of ``experts_lists``: as int64, where its data starts, and cells of a list."""

    block: torch.Tensor
    head: int
    cells: int


def _lists(space: Workspace, cells: int) -> _Lists:
    """The team's lists, of at least ``cells`` cells, which is the same on all PEs."""

    def head_of(n_pes: int) -> int:
        return 4 * programs() + _LISTERS * n_pes + 31 & -32

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
    rows = max(1, min(room.nbytes // pitch, -(-most // programs())))
    return room, _Chunks(-(-most // rows), rows, pitch)


def _check_dispatch(
    x: Any, ids: Any, n_experts: int, quantize: str | None, mode: str, most: int | None,
    space: Workspace,
) -> None:  # fmt: skip
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
            their number, while they move, and no capture is possible; its memory has room for all
            members' tokens unless they are more than twice ``k``. "decode": one kernel, no wait, for
            CUDA graphs; there are ``n_pes * max_tokens`` rows: token t of member p has row
            ``p * max_tokens + t`` if it has an expert here, and the other rows are not written. Default:
            "decode" if ``max_tokens`` is given.
        max_tokens: the most tokens that a PE has; the same on all members. Decode mode needs it.
        team: default ``TEAM_WORLD``.

    Returns: the tokens (rows, hidden), in the order of their PEs and of their rows there, and an
        ``ExpertHandle``: the experts' rows, scales, and what ``expert_combine`` needs. Without FP8 it
        has a derivative, which is collective: what all members' rows owe to a token, in PE order.
    Completes: in the order of the current stream. Collective.
    Raises: ValueError (sizes; an expert that there is not, in throughput mode on all members before any
        token has moved; in decode mode the kernel ends the job and says so), TypeError, UnsupportedError
        (FP8 on a GPU without it; more than 63 PEs), RuntimeError (FP8 of a tensor that requires grad;
        throughput mode in a capture); in checking mode MismatchError.
    Extension.
    """
    taken = mode or ("throughput" if max_tokens is None else "decode")
    if needs_operator(x):
        if quantize:
            refuse_grad("expert_dispatch of FP8", x)
        return dispatch_by_operator(x, topk_ids, n_experts, quantize, taken, max_tokens, team)
    return dispatch(x, topk_ids, n_experts, quantize, taken, max_tokens, team)


def dispatch(
    x: Any, ids: Any, n_experts: int, quantize: str | None, mode: str, most: int | None,
    team: Team | None, *, zeroed: bool = False,
) -> tuple[torch.Tensor, ExpertHandle]:  # fmt: skip
    """The body of ``expert_dispatch``. ``zeroed``: rows that decode mode does not write are 0."""
    space = workspace(team)
    _check_dispatch(x, ids, n_experts, quantize, mode, most, space)
    space.agree(
        "expert_dispatch", x.dtype, x.shape[1], ids.shape[1], n_experts, quantize, mode, most
    )  # fmt: skip
    call = _Dispatch(space, team, x, ids, n_experts // space.n_pes, quantize is not None, zeroed)
    if mode == "decode":
        assert most is not None
        return call.in_one_kernel(most)
    return call.by_counts()


class _Dispatch:
    """One call of ``expert_dispatch``."""

    def __init__(
        self, space: Workspace, team: Team | None, x: torch.Tensor, ids: torch.Tensor, experts: int,
        fp8: bool, zeroed: bool = False,
    ) -> None:  # fmt: skip
        self.space, self.team, self.x, self.ids = space, team, x, ids
        self.experts, self.fp8, self.zeroed = experts, fp8, zeroed
        self.tokens, self.hidden = x.shape
        self.k = ids.shape[1]
        self.number = number_of(space)

    def _ints(self, *size: int) -> torch.Tensor:
        return self.x.new_empty(size, dtype=torch.int32)

    def _outputs(self, rows: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Tokens and scales."""
        if not self.fp8:
            make = self.x.new_zeros if self.zeroed else self.x.new_empty
            return make((rows, self.hidden)), None
        return (
            self.x.new_empty((rows, self.hidden), dtype=torch.float8_e4m3fn),
            self.x.new_empty((rows, self.hidden // GROUP), dtype=torch.float32),
        )

    def _given(self, most: int) -> tuple[tuple[Any, ...], dict[str, int]]:
        """What kernels need to know of the slots; the size of a tile."""
        scales = 4 * (self.hidden // GROUP)
        nbytes = self.hidden + scales if self.fp8 else self.hidden * self.x.itemsize
        room, travel = _chunks(self.space, most, nbytes)
        given = room.block, room.head, room.words, *travel, self.hidden, context()
        most_rows = _power(travel.rows)
        return given, {
            "TR": 1 if self.fp8 else min(_ROWS, most_rows),
            "TT": min(2 * _ROWS if self.fp8 else _ROWS, most_rows),
            "TC": min(_COLUMNS, _power(self.hidden)),
            "ALL": self.space.n_pes <= _FEW_PES,
        }

    def _laid_out(self) -> dict[str, Any]:
        """Constants of the layout."""
        width, experts = _power(self.k), _power(self.experts + 2)
        return {
            "KP": width, "LISTERS": _LISTERS, "BLOCK": _BLOCK, "EP": experts,
            "TB": max(1, _CELLS // (width * experts)),
        }  # fmt: skip

    def _fixed(self) -> dict[str, Any]:
        """Constants of all kernels."""
        return {"TEAM": self.number, "K": self.k, "PROGRAMS": programs(), **LAUNCH}

    def _lists_of(self, most: int) -> tuple[torch.Tensor, ...]:
        """Where the layout goes: rows, pairs, positions, offsets, and what programs count."""
        n, k, experts = self.space.n_pes, self.k, self.experts
        return (
            self._ints(n * most * k), self._ints(n, most, k), self._ints(n, most),
            self._ints(experts + 3), self._ints(2 * programs(), _power(experts + 2)),
        )  # fmt: skip

    def _handle(
        self, mode: str, scales: Any, rows: torch.Tensor, pairs: torch.Tensor, offsets: torch.Tensor
    ) -> ExpertHandle:
        return ExpertHandle(rows, offsets, scales, mode, self.team, self.ids, pairs)

    def in_one_kernel(self, most: int) -> tuple[torch.Tensor, ExpertHandle]:
        lists = _lists(self.space, most * self.k)
        given, tile = self._given(most)
        out, scales = self._outputs(self.space.n_pes * most)
        made = rows, pairs, _, offsets, _ = self._lists_of(most)
        laid = {**self._laid_out(), "TO": 0}
        if self.space.n_pes * most * self.k <= _FEW_CELLS:
            own = _power(-(-self.space.n_pes * most // programs()))
            laid["TO"] = own
            laid["TB"] = max(1, _CELLS // (own * laid["KP"] ** 2))
        if most:
            kernels.dispatch_decode[(2 * programs(),)](
                *self._places(out, scales), *made, self.x, self.ids, self.tokens, most, self.experts,
                *lists, *given, FP8=self.fp8, **tile, **laid, **self._fixed(),
            )  # fmt: skip
        else:
            offsets.zero_()
        offsets = offsets[: self.experts + 1]
        return out, self._handle("decode", scales, rows, pairs, offsets)

    def _places(self, out: torch.Tensor, scales: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """As kernels see them."""
        return (out.view(torch.uint8), scales) if self.fp8 else (out, out)

    def again(self, positions: torch.Tensor, rows: int) -> torch.Tensor:
        """Rows of ``x`` to where ``positions``, (members, most), says; others are 0."""
        most = positions.shape[1]
        out = self.x.new_zeros((rows, self.hidden))
        if most:
            given, tile = self._given(most)
            right = positions.new_zeros(self.experts + 3)  # no expert is wrong
            kernels.dispatch_tokens[(2 * programs(),)](
                out, out, positions, right, self.x, self.ids, self.tokens, most, self.experts, *given,
                FP8=False, **tile, **self._fixed(),
            )  # fmt: skip
        return out

    def by_counts(self) -> tuple[torch.Tensor, ExpertHandle]:
        if capturing():
            raise RuntimeError(
                "expert_dispatch waits for the number of rows, which a captured stream cannot: "
                "mode='decode' with max_tokens does not"
            )
        n, experts = self.space.n_pes, self.experts
        most = int(gather_numbers(self.space, self.tokens).max())
        made = rows, pairs, positions, found, _ = self._lists_of(most)
        if most:
            kernels.lay_out_experts[(2 * programs(),)](
                *made, self.ids, self.tokens * self.k, *_lists(self.space, most * self.k), most, experts,
                context(), **self._laid_out(), **self._fixed(),
            )  # fmt: skip
        else:
            found.zero_()
        numbers = Numbers(found)
        # Where most of the room would be used it is taken at once, and tokens move while the host waits.
        early = n <= 2 * self.k
        out, scales = self._outputs(n * most if early else self._counted(numbers)[1])
        if most:
            given, tile = self._given(most)
            kernels.dispatch_tokens[(2 * programs(),)](
                *self._places(out, scales), positions, found, self.x, self.ids, self.tokens, most,
                experts, *given, FP8=self.fp8, **tile, **self._fixed(),
            )  # fmt: skip
        total, count = self._counted(numbers)
        scales = None if scales is None else scales[:count]
        handle = self._handle("throughput", scales, rows[:total], pairs, found[: experts + 1])
        return out[:count], handle

    def _counted(self, numbers: Numbers) -> tuple[int, int]:
        """How many pairs and rows there are here."""
        total, count, wrong = numbers.wait()[self.experts :]
        if wrong:
            last = self.space.n_pes * self.experts - 1
            raise ValueError(
                f"topk_ids of the members have {wrong} experts that there are not; they are 0 to "
                f"{last}, or -1 for none"
            )
        return total, count


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

    Returns: (tokens, hidden): for each token the weighted sum over its experts, 0 if it has none. It has
        derivatives, which are collective, for ``y`` and ``topk_weights``, unless ``out`` is given.
    Completes: in the order of the current stream; one kernel, without a wait of the host. Collective.
    Raises: ValueError (sizes, layout), TypeError, RuntimeError (``out`` where a tensor requires grad);
        in checking mode MismatchError.
    Extension.
    """
    if not isinstance(handle, ExpertHandle):
        raise TypeError(f"handle is {type(handle).__name__}; give what expert_dispatch returned")
    if needs_operator(y, topk_weights):
        if out is not None:
            refuse_grad("expert_combine with out=", y, topk_weights)
        result = combine_by_operator(y, handle, topk_weights)
        return result if out is None else out.copy_(result)
    experts = handle.offsets.shape[0] - 1
    return combine(
        y, handle.rows, handle.pairs, handle.topk_ids, topk_weights, experts, handle.team, out
    )


def combine(
    y: Any, rows: torch.Tensor, pairs: torch.Tensor, ids: torch.Tensor, topk_weights: Any, experts: int,
    team: Team | None, out: Any = None,
) -> torch.Tensor:  # fmt: skip
    """The body of ``expert_combine``; ``pairs`` has the row of ``y`` of each pair of a token."""
    check_tensor("y", y, FLOATS, 2)
    check_tensor("topk_weights", topk_weights, FLOATS, 2)
    space = workspace(team)
    if y.shape[0] != rows.shape[0]:
        raise ValueError(f"y has {y.shape[0]} rows; the handle has {rows.shape[0]} pairs")
    if topk_weights.shape != ids.shape:
        raise ValueError(
            f"topk_weights has size {tuple(topk_weights.shape)}; topk_ids had {tuple(ids.shape)}"
        )
    tokens, k = ids.shape
    hidden, most = y.shape[1], pairs.shape[1]
    space.agree("expert_combine", y.dtype, hidden, k, most)
    result = new_out(out, y, (tokens, hidden))
    if not most or not hidden:
        return result
    room, travel = _chunks(space, most, hidden * y.itemsize)
    combine_tokens[(2 * programs(),)](
        result, y, pairs, topk_weights, ids, tokens, most, experts, *_lists(space, most * k),
        room.block, room.head, room.words, *travel, hidden, context(), TEAM=number_of(space), K=k,
        PROGRAMS=programs(), LISTERS=_LISTERS, BLOCK=_BLOCK, TC=min(_COLUMNS // 2, _power(hidden)),
        PAIR=space.n_pes == 2, EARLY=travel.chunks > programs(),
        **LAUNCH,
    )  # fmt: skip
    return result


def dispatch_again(
    x: torch.Tensor, ids: torch.Tensor, positions: torch.Tensor, rows: int, experts: int,
    team: Team | None,
) -> torch.Tensor:  # fmt: skip
    """Other rows by the way of a dispatch, of which ``positions`` are known: (rows, hidden)."""
    return _Dispatch(workspace(team), team, x, ids, experts, False).again(positions, rows)
