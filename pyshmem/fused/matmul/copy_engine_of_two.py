# SPDX-License-Identifier: BSD-3-Clause
"""Sums of two members' products: cuBLAS adds the own product to what has come.

Each multiplies the other's rows first, into its own slot, from which the other fetches them to where
its sum will be. So nothing is added twice or copied on the way, but for an ``out`` of
``matmul_all_reduce`` that peers do not reach, which is neither on the heap nor registered: its sums are
made in a slot, and copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._core.library import device_state, lib
from ..._torch.launches import current_stream
from ..._torch.tensors import heap_of
from ...host.memory.registered import place_in_registered
from .._shared.copy_engine import CopyChannel, SideStream, settle, side_stream
from .arguments import FP8, Problem
from .local import add_product, chunks_of, cuts, multiply, sent_chunks


def adds_in_place(p: Problem) -> bool:
    """Whether cuBLAS adds: to what one member sends, not of FP8, in chunks that come one by one."""
    if p.space.n_pes != 2 or p.x.dtype == FP8:
        return False
    return p.operation == "matmul_all_reduce" or len(chunks_of(p)) > 2


class _Chunk(NamedTuple):
    """Rows that are multiplied together.

    Attributes:
        number: of the chunk.
        at, nbytes: where they are in a slot, and in the owner's rows.
        rows: of the owner's rows.
    """

    number: int
    at: int
    nbytes: int
    rows: slice


class _Pair(NamedTuple):
    """What all calls of a shape do.

    Attributes:
        parts: for products of the other's rows, and sums that are made in a slot.
        results: words about sums.
        leaving: chunks of the other's rows; ``products`` are their places, in the own slot.
        coming: chunks of the own rows as the other sends them.
        own: the same as they are added; ``awaited``: for which of ``coming`` each waits, if for one.
        theirs: chunks of the other's rows as it adds them.
        sums: places of ``own`` in the other's slot here.
        sizes: of all chunks that are multiplied, in the order of rows of x; ``first``: where those that
            leave and the own ones begin among them.
    """

    parts: CopyChannel
    results: CopyChannel | None
    other: int
    leaving: tuple[_Chunk, ...]
    products: tuple[torch.Tensor, ...]
    coming: tuple[_Chunk, ...]
    own: tuple[_Chunk, ...]
    awaited: tuple[int | None, ...]
    theirs: tuple[_Chunk, ...]
    sums: tuple[torch.Tensor, ...]
    sizes: list[int]
    first: tuple[int, int]


def _plan(p: Problem) -> _Pair:
    me, width = p.space.me, p.n * p.out_dtype.itemsize
    other, bounds = 1 - me, chunks_of(p)
    sent = sent_chunks(p, bounds)
    parts = CopyChannel(p.space, "matmul parts", max(p.rows) * width)
    results = (
        CopyChannel(p.space, "matmul results", 0) if p.operation == "matmul_all_reduce" else None
    )

    def chunks(owner: int, of: Sequence[int]) -> tuple[_Chunk, ...]:
        return tuple(
            _Chunk(number, begin * width, (end - begin) * width, slice(begin, end))
            for number, (begin, end) in enumerate(cuts(p.rows[owner], of))
        )

    leaving, own = chunks(other, sent), chunks(me, bounds)
    sizes = [[each.rows.stop - each.rows.start for each in found] for found in (leaving, own)]
    first = (0, len(leaving)) if other < me else (len(own), 0)
    return _Pair(
        parts, results, other, leaving,
        tuple(parts.view(me, each.rows, p.n, p.out_dtype) for each in leaving),
        chunks(me, sent), own,
        tuple(sent.index(begin) if begin in sent else None for begin in bounds[:-1]),
        chunks(other, bounds),
        tuple(parts.view(other, each.rows, p.n, p.out_dtype) for each in own),
        sizes[0] + sizes[1] if other < me else sizes[1] + sizes[0], first,
    )  # fmt: skip


class _Call:
    """Where a call has its own rows, and how far it has come.

    Attributes:
        reached: whether the other member stores its sums into ``out``.
        in_slot: whether the own sums are made in the other's slot here.
        places: of the chunks of the own rows; ``to``: the address of the first.
        products, sums: chunks that were exchanged.
        released: whether the other member may claim the slot again.
    """

    def __init__(self, p: Problem, plan: _Pair, out: torch.Tensor) -> None:
        self.reached = plan.results is not None and _is_reached(p, plan, out)
        self.in_slot = plan.results is not None and not self.reached
        mine = out if plan.results is None else out[p.rows_of(p.space.me)]
        self.places = plan.sums if self.in_slot else tuple(mine[each.rows] for each in plan.own)
        self.to = plan.parts.address_of(plan.other) if self.in_slot else mine.data_ptr()
        self.products = self.sums = 0
        self.released = False


def scatter_by_pair(p: Problem, out: torch.Tensor) -> None:
    """matmul_reduce_scatter or matmul_all_reduce of two members into ``out``."""
    plan: _Pair = p.plan("scatter by pair", lambda: _plan(p))
    stream, side = current_stream(), side_stream(p.x.device)
    call, xs = _Call(p, plan, out), p.x.split(plan.sizes)
    plan.parts.claim(plan.other, stream)
    try:
        _exchange_products(p, plan, call, xs, stream)
        if not call.in_slot:  # nobody uses slots from here on
            plan.parts.release(plan.other, side.handle)
            call.released = True
        _add_products(p, plan, call, out, xs, stream)
    except Exception as error:
        settle(error, lambda: _settle(plan, call, stream, side))
        raise
    if call.reached:
        _await_sums(plan, side)
    if call.in_slot:
        side.fork(stream)  # behind the last copy
        plan.parts.release(plan.other, side.handle)
    side.join(stream)


def _exchange_products(
    p: Problem, plan: _Pair, call: _Call, xs: Sequence[torch.Tensor], stream: int | None
) -> None:
    """The products of the other's rows; those of the own ones come to their places, with a mark."""
    side, parts, other = side_stream(p.x.device), plan.parts, plan.other
    for each, product, came in zip(plan.leaving, plan.products, plan.coming, strict=True):
        multiply(p, product, xs[plan.first[0] + each.number], None, whole=False)
        side.fork(stream)
        parts.announce(other, each.number, side.handle)
        parts.arrived(other, each.number, side.handle)
        call.products += 1
        parts.fetch(other, other, came.at, call.to + came.at, came.nbytes, side.handle)
        side.mark(each.number)


def _add_products(
    p: Problem, plan: _Pair, call: _Call, out: torch.Tensor, xs: Sequence[torch.Tensor],
    stream: int | None,
) -> None:  # fmt: skip
    """The products of the own rows, added to what has come; ``matmul_all_reduce`` sends the sums."""
    side = side_stream(p.x.device)
    for each, place, awaited in zip(plan.own, call.places, plan.awaited, strict=True):
        if awaited is not None:
            side.await_mark(awaited, stream)
        add_product(p, place, xs[plan.first[1] + each.number])
        if plan.results is None:
            continue
        side.fork(stream)
        call.sums += 1
        if call.reached:
            plan.results.send_to(
                plan.other, place.data_ptr(), each.nbytes, each.number, side.handle
            )
        else:
            # The caller's stream has nothing else to do behind the last product.
            copies = stream if each is plan.own[-1] else side.handle
            _exchange_sums(p, plan, out, each, side, copies)


def _settle(plan: _Pair, call: _Call, stream: int | None, side: SideStream) -> None:
    """After an error: NaN for products and sums that are not made, and what comes is not used."""
    parts, results, other = plan.parts, plan.results, plan.other
    if call.products < len(plan.leaving):
        side.fork(stream)
        parts.fill_with_nan(side.handle)
    for each in plan.leaving[call.products :]:
        parts.announce(other, each.number, side.handle)
    for each in plan.leaving[call.products :]:
        parts.arrived(other, each.number, side.handle)
    if results is not None:
        side.join(stream)
        for place in call.places[call.sums :]:
            place.fill_(torch.nan)
        side.fork(stream)
        for each, place in list(zip(plan.own, call.places, strict=True))[call.sums :]:
            if call.reached:
                results.send_to(other, place.data_ptr(), each.nbytes, each.number, side.handle)
            else:
                results.announce(other, each.number, side.handle)
        for each in plan.theirs[0 if call.reached else call.sums :]:
            results.arrived(other, each.number, side.handle)
    if not call.released:
        parts.release(other, side.handle)
    side.join(stream)


def _exchange_sums(
    p: Problem, plan: _Pair, out: torch.Tensor, each: _Chunk, side: SideStream, stream: int | None
) -> None:
    """A chunk of the own rows was added up in a slot: to ``out`` by ``stream``, as is the other's."""
    parts, results, other, me = plan.parts, plan.results, plan.other, p.space.me
    assert results is not None
    width, at = p.n * p.out_dtype.itemsize, out.data_ptr()
    here, there = (at + p.rows_of(member).start * width for member in (me, other))
    results.announce(other, each.number, side.handle)
    parts.fetch(me, other, each.at, here + each.at, each.nbytes, stream)
    results.arrived(other, each.number, side.handle)
    theirs = plan.theirs[each.number]
    parts.fetch(other, me, theirs.at, there + theirs.at, theirs.nbytes, side.handle)


def _await_sums(plan: _Pair, side: SideStream) -> None:
    """The other's sums have come to ``out``."""
    assert plan.results is not None
    for each in plan.theirs:
        plan.results.arrived(plan.other, each.number, side.handle)


def _is_reached(p: Problem, plan: _Pair, out: torch.Tensor) -> bool:
    """Whether the other member may store into ``out``: on the device heap or registered, at one place.

    The same on both: what is registered with a team that has this member has the other.
    """
    at = out.data_ptr()
    on_heap = heap_of(out) == "device"
    registered = not on_heap and bool(
        lib.ishmemx_is_registered(at, out.nbytes)
        and lib.ishmemx_addr_accessible(at, plan.parts.pes[plan.other])
    )
    if p.space.checking:
        where: tuple[Any, ...] = ("any",)
        if on_heap:
            where = (at - device_state()[lib.ISHMEMX_STATE_HEAP_BASE],)
        elif registered:
            where = ("registered", *place_in_registered(at))
        p.space.agree("place of matmul_all_reduce", out=where)
    return on_heap or registered
