# SPDX-License-Identifier: BSD-3-Clause
"""Mixtures of experts in tensor parallel: every PE has a share of each expert's inner columns.

The way up gathers the tokens, the way down adds up the PEs' partial results, as ``all_gather_matmul``
and ``matmul_reduce_scatter`` do; products are grouped by expert.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ..._torch.arguments import as_bytes
from ..._torch.launches import current_stream
from ...host.teams.team import TEAM_WORLD, Team
from ...triton.primitives.backend import INTERPRETED
from .._shared.algorithm import NEVER, choose
from .._shared.arguments import check_tensor, on_tensors, refuse_grad, result
from .._shared.copy_engine import CopyChannel, SideStream, settle, side_stream
from .._shared.powers import power_of_2
from .._shared.workspace import Workspace, device_heap_is_p2p, workspace
from ..matmul.local import finish
from ..matmul.unfused import all_gather_bytes, sum_rows
from . import sharded_layout_kernels as layout_kernels
from .api import multiply_groups
from .sharded_layout import GroupRouting, gather_choices, route

_FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_DEFAULT = ((1 << 20, "unfused"), (NEVER, "copy_engine"))
_GATHER, _REDUCE = "all_gather_group_matmul", "group_matmul_reduce_scatter"


def _algorithm(space: Workspace, operation: str, nbytes: int, algorithm: str | None) -> str:
    why = None
    if not device_heap_is_p2p():
        why = "copies and words of a stream do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    return choose(
        space, operation, nbytes, {"copy_engine": why, "unfused": None}, _DEFAULT, algorithm
    )


def _agree(
    space: Workspace, counts: Any, x: torch.Tensor, w: torch.Tensor, ids: torch.Tensor,
    algorithm: str | None,
) -> None:  # fmt: skip
    """What is alike on all members of a gathering product."""
    experts, hidden, _ = w.shape
    space.agree_on_rows(
        _GATHER, counts, dtype=x.dtype, hidden=hidden, n_experts=experts, k=ids.shape[1],
        algorithm=algorithm,
    )  # fmt: skip


def _check_weights(w: Any, x: torch.Tensor, what: str) -> None:
    check_tensor("w", w, (x.dtype,), 3, of=what)
    if not w.numel():
        raise ValueError(f"w {tuple(w.shape)} has no elements")
    if w.shape[1] != x.shape[1]:
        raise ValueError(f"{what} {tuple(x.shape)} has {x.shape[1]} columns, w is {tuple(w.shape)}")


def _member_rows(space: Workspace, mine: int, rows: Sequence[int] | None) -> tuple[int, ...]:
    given = (mine,) * space.n_pes if rows is None else tuple(int(count) for count in rows)
    if len(given) != space.n_pes or any(count < 0 for count in given):
        raise ValueError(f"rows is {given}; it has a number of rows for each of {space.n_pes} PEs")
    if given[space.me] != mine:
        raise ValueError(f"x has {mine} rows, but rows says {given[space.me]} for PE {space.me}")
    return given


# ---- up --------------------------------------------------------------------------------------------


@on_tensors
def all_gather_group_matmul(
    x_shard: Any, w: Any, topk_ids: Any, *, rows: Sequence[int] | None = None, gather_out: Any = None,
    out: Any = None, team: Team = TEAM_WORLD, algorithm: str | None = None,
) -> Any:  # fmt: skip
    """The tokens of all members, each times the caller's columns of its experts. Collective.

    Args:
        x_shard: (m, k), the caller's tokens, bfloat16, float16 or float32, contiguous.
        w: (experts, k, n), contiguous, of the same dtype: the caller's columns of each expert.
        topk_ids: (m, top) int32 or int64: the experts of the caller's tokens; -1 stands for none.
        rows: how many tokens each member has; default: as many as the caller.
        gather_out: (M, k) tensor for the gathered tokens, M the sum of ``rows``; default: not kept.
        out: (M * top, n) tensor for the result; default: a new one.
        team: default ``TEAM_WORLD``.
        algorithm: "copy_engine" (what is here is multiplied while copy engines bring the rest) or
            "unfused"; default by the table, by bytes that arrive.

    Returns: (M * top, n): a row for each pair of a token and an expert, sorted as the ``GroupRouting``
        says that comes with it. Sums are in float32. Rows of pairs without an expert are not written.
    Completes: in the order of the current stream, without a wait of the host. It may be captured.
    Raises: TypeError (dtypes), ValueError (extents, layout, rows, algorithm), RuntimeError (a tensor
        requires grad; a workspace would grow inside a capture), HeapExhausted; MismatchError (members
        differ). An expert that there is not ends the job: the kernel aborts with its number and its
        token's.
    Extension.
    """
    refuse_grad(_GATHER, x_shard, w)
    check_tensor("x_shard", x_shard, _FLOATS, 2)
    check_tensor("topk_ids", topk_ids, (torch.int32, torch.int64), 2)
    _check_weights(w, x_shard, "x_shard")
    if topk_ids.shape[0] != x_shard.shape[0] or not topk_ids.shape[1]:
        raise ValueError(
            f"topk_ids has size {tuple(topk_ids.shape)} and x_shard {tuple(x_shard.shape)}; they have "
            "one row a token, and one or more columns"
        )
    space = workspace(team)
    counts = _member_rows(space, x_shard.shape[0], rows)
    experts, k, n = w.shape
    total, width = sum(counts), k * x_shard.itemsize
    read: tuple[tuple[str, Any], ...] = ("x_shard", x_shard), ("w", w), ("topk_ids", topk_ids)
    size = total * topk_ids.shape[1], n
    product = result("out", out, size, x_shard.dtype, x_shard, read)
    gathered, read = None, (*read, ("out", out))
    if gather_out is not None:
        gathered = result("gather_out", gather_out, (total, k), x_shard.dtype, x_shard, read)
    _agree(space, counts, x_shard, w, topk_ids, algorithm)
    taken = _algorithm(space, _GATHER, (total - min(counts)) * width, algorithm)
    engine = taken == "copy_engine" and space.n_pes > 1 and total > 0
    channel = _send_tokens(space, x_shard, counts) if engine else None
    try:
        routing = route(space, topk_ids, counts, experts, team)
    except Exception as error:
        if channel is not None:
            settle(error, functools.partial(_end_tokens, space, channel, x_shard, 1))
        raise
    if channel is not None:
        _up_by_engine(space, channel, product, x_shard, w, routing, gathered)
    elif total:
        _up_plainly(space, product, x_shard, w, routing, gathered)
    return product, routing


def _send_tokens(space: Workspace, x: torch.Tensor, counts: tuple[int, ...]) -> CopyChannel:
    """The caller's tokens on their way to all members; who waits for them first gets them first."""
    me, n = space.me, space.n_pes
    channel = CopyChannel(space, "matmul shards", max(counts) * x.shape[1] * x.itemsize)
    side = side_stream(x.device)
    side.fork(current_stream())
    for j in range(1, n):
        channel.claim((me - j) % n, side.handle)
        channel.send((me - j) % n, 0, x.data_ptr(), x.nbytes, 0, side.handle)
    return channel


def _end_tokens(space: Workspace, channel: CopyChannel, x: torch.Tensor, first: int) -> None:
    """The end of what ``_send_tokens`` began.

    ``first``: from that member behind the caller on, what they send is taken and not used.
    """
    stream, others = current_stream(), range(1, space.n_pes)
    for j in others[first - 1 :]:
        channel.arrived((space.me + j) % space.n_pes, 0, stream)
    for j in others:
        channel.release((space.me + j) % space.n_pes, stream)
    side_stream(x.device).join(stream)


def _up_by_engine(
    space: Workspace, channel: CopyChannel, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor,
    routing: GroupRouting, gathered: torch.Tensor | None,
) -> None:  # fmt: skip
    me, n, stream, taken = space.me, space.n_pes, current_stream(), 1
    try:
        for j in range(n):
            member = (me + j) % n
            shard = x
            if member != me:
                channel.arrived(member, 0, stream)
                taken = j + 1
                shard = channel.view(
                    member, slice(0, routing.member_rows[member]), x.shape[1], x.dtype
                )
            pairs = routing.member_rows[member] * routing.k
            multiply_groups(out, shard, routing.local, routing.groups(member), w, pairs)
            if gathered is not None:
                first = routing.first(member)
                gathered[first : first + routing.member_rows[member]].copy_(shard)
    except Exception as error:
        settle(error, functools.partial(_end_tokens, space, channel, x, taken))
        raise
    _end_tokens(space, channel, x, n)


def _up_plainly(
    space: Workspace, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, routing: GroupRouting,
    gathered: torch.Tensor | None,
) -> None:  # fmt: skip
    counts, width = routing.member_rows, x.shape[1] * x.itemsize
    tokens = x
    if space.n_pes > 1:
        every = all_gather_bytes(space, as_bytes(x), max(max(counts) * width, 1))
        parts = [every[p][: count * width] for p, count in enumerate(counts)]
        flat = every.view(-1) if min(counts) == max(counts) else torch.cat(parts)
        tokens = flat.view(x.dtype).view(sum(counts), x.shape[1])
    for member, count in enumerate(counts):
        pairs = count * routing.k
        multiply_groups(out, tokens, routing.rows, routing.groups(member), w, pairs)
    if gathered is not None:
        gathered.copy_(tokens)


# ---- down ------------------------------------------------------------------------------------------


@on_tensors
def group_matmul_reduce_scatter(
    x: Any,
    w: Any,
    routing: GroupRouting,
    topk_weights: Any,
    *,
    out: Any = None,
    algorithm: str | None = None,
) -> Any:
    """Each pair's row times its expert, weighted and summed over choices and members. Collective.

    Args:
        x: (pairs, k), the caller's inner columns, as ``all_gather_group_matmul`` returned them.
        w: (experts, k, n), contiguous, of the dtype of ``x``: the caller's rows of each expert.
        routing: what came with ``x``; it may be used again.
        topk_weights: (m, top) bfloat16, float16 or float32: of the choices of the caller's tokens.
        out: (m, n) tensor for the result; default: a new one.
        algorithm: "copy_engine" (a member's sums leave while the next one's are made) or "unfused".

    Returns: (m, n): for the caller's tokens the weighted sums over their experts, 0 without one. A PE's
        sum over choices is float32 in their order, rounded to the dtype of ``x``; these are added in
        float32 in PE order.
    Completes: in the order of the current stream, without a wait of the host. It may be captured.
    Raises: as ``all_gather_group_matmul``.
    Extension.
    """
    space = _space_for_down(x, w, routing, topk_weights)
    counts, n = routing.member_rows, w.shape[2]
    read = ("x", x), ("w", w), ("topk_weights", topk_weights), *routing.read()
    dest = result("out", out, (counts[space.me], n), x.dtype, x, read)
    space.agree(
        _REDUCE, dtype=x.dtype, x_rows=counts, n=n, n_experts=routing.experts, algorithm=algorithm
    )
    if not sum(counts):
        return dest
    taken = _algorithm(space, _REDUCE, max(counts) * (space.n_pes - 1) * n * x.itemsize, algorithm)
    weights = gather_choices(space, topk_weights.float(), counts, 0.0)
    call = _Down(space, x, w, routing, weights)
    if space.n_pes == 1:
        call.sums_of(0, dest)
    elif taken == "copy_engine":
        call.by_engine(dest)
    else:
        product = x.new_empty(sum(counts), n)
        for member, count in enumerate(counts):
            call.sums_of(member, product[routing.first(member) :][:count])
        sum_rows(space, product, counts, dest)
    return dest


def _space_for_down(x: Any, w: Any, routing: Any, topk_weights: Any) -> Workspace:
    """The workspace of the routing's team, when the arguments of ``group_matmul_reduce_scatter`` fit."""
    if not isinstance(routing, GroupRouting):
        raise TypeError(
            f"routing is {type(routing).__name__}; give what all_gather_group_matmul returned"
        )
    refuse_grad(_REDUCE, x, w, topk_weights)
    check_tensor("x", x, _FLOATS, 2)
    check_tensor("topk_weights", topk_weights, _FLOATS, 2)
    _check_weights(w, x, "x")
    space = workspace(routing.team)
    if x.shape[0] != routing.rows.shape[0] or w.shape[0] != routing.experts:
        raise ValueError(
            f"x has size {tuple(x.shape)} and w {tuple(w.shape)}; the routing has "
            f"{routing.rows.shape[0]} pairs of {routing.experts} experts"
        )
    choices = routing.member_rows[space.me], routing.k
    if tuple(topk_weights.shape) != choices:
        raise ValueError(
            f"topk_weights has size {tuple(topk_weights.shape)}; the caller's topk_ids had {choices}"
        )
    return space


class _Down:
    """One call of ``group_matmul_reduce_scatter``."""

    def __init__(
        self, space: Workspace, x: torch.Tensor, w: torch.Tensor, routing: GroupRouting,
        weights: torch.Tensor,
    ) -> None:  # fmt: skip
        self.space, self.x, self.w, self.routing, self.weights = space, x, w, routing, weights
        self.n = int(w.shape[2])
        self._rows = x.new_empty(max(routing.member_rows) * routing.k, self.n)

    def sums_of(self, member: int, dest: torch.Tensor) -> None:
        """The caller's part of the sums of a member's tokens: what pairs have, weighted and added."""
        routing, groups = self.routing, self.routing.groups(member)
        count = routing.member_rows[member]
        if not count:
            return
        multiply_groups(self._rows, self.x, None, groups, self.w, count * routing.k, based=True)
        block = min(power_of_2(self.n), 64 if INTERPRETED else 2048)
        layout_kernels.sum_of_choices[(min(count, 2 if INTERPRETED else 1024),)](
            dest, self._rows, routing.pairs, self.weights, groups, routing.first(member), count, self.n,
            K=routing.k, B=block, BASED=True,
        )  # fmt: skip

    def by_engine(self, out: torch.Tensor) -> None:
        """The others' sums first, which copy engines take away while the next ones are made."""
        space, counts = self.space, self.routing.member_rows
        me, n_pes, width = space.me, space.n_pes, self.n * self.x.itemsize
        parts = CopyChannel(space, "matmul parts", max(counts) * width)
        others = [(me + j) % n_pes for j in range(1, n_pes)]
        stream, side = current_stream(), side_stream(self.x.device)
        sent, came = 0, False
        try:
            product = self.x.new_empty(sum(counts), self.n)
            for owner in (*others, me):
                mine = product[self.routing.first(owner) :][: counts[owner]]
                self.sums_of(owner, mine)
                if owner != me:
                    side.fork(stream)
                    parts.claim(owner, side.handle)
                    parts.send(owner, 0, mine.data_ptr(), mine.nbytes, 0, side.handle)
                    sent += 1
            for member in others:
                parts.arrived(member, 0, stream)
            came = True
            first = parts.view(0, slice(0, counts[me]), self.n, self.x.dtype)
            step = parts.slot // self.x.itemsize
            own = product[self.routing.first(me) :][: counts[me]]
            finish(out, first, n_pes, step, own=own, me=me)
        except Exception as error:
            left = others[sent:], [] if came else others
            settle(error, lambda: _settle_sums(parts, *left, side, stream))
            raise
        for member in others:
            parts.release(member, stream)
        side.join(stream)


def _settle_sums(
    parts: CopyChannel, unsent: list[int], awaited: list[int], side: SideStream, stream: int | None
) -> None:
    """``unsent`` members get NaN, what ``awaited`` ones send is not used."""
    side.fork(stream)
    parts.fill_with_nan(side.handle)
    for member in unsent:
        parts.claim(member, side.handle)
        parts.spoil(member, [0], side.handle)
    side.join(stream)
    for member in awaited:
        parts.arrived(member, 0, stream)
    for k in range(1, parts.n_pes):
        parts.release((parts.me + k) % parts.n_pes, stream)
