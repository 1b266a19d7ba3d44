# SPDX-License-Identifier: BSD-3-Clause
"""Strided put and get from kernels: every so many elements, or blocks of them.

Strides count elements and are at least 1, and at least the block. Threads of a group share the elements.
"""

from __future__ import annotations

from typing import Any

from . import _backend
from ._backend import (
    address_of,
    copy_narrow,
    device_function,
    in_global,
    narrow,
    pull_narrow,
    same_dtype,
    scopes,
)
from ._faults import FAULT_NELEMS, FAULT_STRIDE, OP, record_fault
from ._groups import Scope
from ._peers import BY_STORES, NOWHERE, reach
from ._ring import IGET, IPUT, RELEASE, ask
from ._state import DELTA
from ._teams import on_context
from ._transport import ring_get, ring_put

__all__ = [
    "ibget", "ibget_warp", "ibget_work_group", "ibput", "ibput_warp", "ibput_work_group", "iget",
    "iget_warp", "iget_work_group", "iput", "iput_warp", "iput_work_group",
]  # fmt: skip

state = _backend.state


def _make_copy(piece_copy: Any) -> Any:
    @device_function
    def copy_blocks(
        dest: int, source: int, dst: int, sst: int, bsize: int, nblocks: int, itemsize: int,
        rank: int, size: int,
    ) -> int:  # fmt: skip
        """Lanes stand side by side in a block, and on so many blocks as that leaves lanes for."""
        lanes = narrow(min(bsize, size))
        rows, row = narrow(size) // lanes, narrow(rank) // lanes
        piece = min(8, itemsize)
        block = row + nblocks * 0
        while row < rows and block < nblocks:
            at = narrow(rank) - row * lanes + bsize * 0
            while at < bsize:
                to = dest + (block * dst + at) * itemsize
                begin = source + (block * sst + at) * itemsize
                done = 0
                while done < itemsize:
                    piece_copy(to + done, begin + done, piece, piece)
                    done += 8
                at += lanes
            block += rows
        return 0

    return copy_blocks


push_blocks, _pull_blocks = _make_copy(copy_narrow), _make_copy(pull_narrow)


@device_function
def _right(near: Any, far_stride: int, stride: int, bsize: int, nblocks: int, op: int) -> bool:
    """Are strides and counts right, and does the caller's own array hold what they say?"""
    if bsize < 1 or far_stride < bsize or stride < bsize:
        record_fault(FAULT_STRIDE, op, -1, min(far_stride, stride), bsize)
        return False
    if nblocks < 0 or (nblocks > 0 and (nblocks - 1) * stride + bsize > near.size):
        record_fault(FAULT_NELEMS, op, -1, (nblocks - 1) * stride + bsize, near.size)
        return False
    return nblocks > 0


@device_function
def _ask(
    request: int, dest: Any, source: Any, dst: int, sst: int, bsize: int, nblocks: int, pe: int,
    near: int,
) -> None:  # fmt: skip
    """By the ring; what the host cannot see at ``near``, the caller's side, goes block by block."""
    to, begin, itemsize = address_of(dest), address_of(source), dest.itemsize
    if in_global(near):
        ask(request | itemsize << 8 | RELEASE, to, begin, nblocks, dst, sst, pe | bsize << 32)
        return
    block = nblocks * 0
    while block < nblocks:
        if request == IPUT:
            ring_put(to, begin, bsize * itemsize, pe, False)
        else:
            ring_get(to, begin, bsize * itemsize, pe, False)
        to += dst * itemsize
        begin += sst * itemsize
        block += 1


@device_function
def _put(
    dest: Any, source: Any, dst: int, sst: int, bsize: int, nblocks: int, pe: int, op: int,
    rank: int, size: int,
) -> None:  # fmt: skip
    same_dtype(dest, source)
    if _right(source, dst, sst, bsize, nblocks, op):
        way = reach(dest, (nblocks - 1) * dst + bsize, dest.size, pe, op)
        if way == BY_STORES:
            to = address_of(dest) + state(DELTA + pe)
            push_blocks(to, address_of(source), dst, sst, bsize, nblocks, dest.itemsize, rank, size)
        elif way != NOWHERE and rank == 0:
            near = address_of(source)
            _ask(IPUT, dest, source, dst, sst, bsize, nblocks, pe, near)


@device_function
def _get(
    dest: Any, source: Any, dst: int, sst: int, bsize: int, nblocks: int, pe: int, op: int,
    rank: int, size: int,
) -> None:  # fmt: skip
    same_dtype(dest, source)
    if _right(dest, sst, dst, bsize, nblocks, op):
        way = reach(source, (nblocks - 1) * sst + bsize, source.size, pe, op)
        if way == BY_STORES:
            begin = address_of(source) + state(DELTA + pe)
            _pull_blocks(
                address_of(dest), begin, dst, sst, bsize, nblocks, dest.itemsize, rank, size
            )
        elif way != NOWHERE and rank == 0:
            near = address_of(dest)
            _ask(IGET, dest, source, dst, sst, bsize, nblocks, pe, near)


_PUT_DOC = """Completes: ``source`` may be changed on return. Delivered at ``quiet``.
        Faults: pe, a stride, a count or an array out of range: nothing is copied, the next host
        call raises.
        """
_GET_DOC = _PUT_DOC.replace(
    "``source`` may be changed on return. Delivered at ``quiet``.",
    "the data is in ``dest`` on return.",
)


def _single(name: str, move: Any) -> Any:
    op = OP[name]

    def make(scope: Scope) -> Any:
        rank, size, sync = scope.rank, scope.size, scope.sync

        def strided(dest, source, dst, sst, nelems, pe, ctx=None):
            world = on_context(ctx, pe)
            sync()
            move(dest, source, dst, sst, 1, nelems, world, op, rank(), size())
            sync()

        strided.__name__ = name
        strided.__doc__ = f"""Copy ``nelems`` elements ``sst`` apart, to places ``dst`` apart.

        {"``dest`` is on ``pe``." if name == "iput" else "``source`` is on ``pe``."}
        {_PUT_DOC if name == "iput" else _GET_DOC}
        Spec: shmem_{name}.
        """
        return strided

    return make


def _blocked(name: str, move: Any) -> Any:
    op = OP[name]

    def make(scope: Scope) -> Any:
        rank, size, sync = scope.rank, scope.size, scope.sync

        def strided(dest, source, dst, sst, bsize, nblocks, pe, ctx=None):
            world = on_context(ctx, pe)
            sync()
            move(dest, source, dst, sst, bsize, nblocks, world, op, rank(), size())
            sync()

        strided.__name__ = name
        strided.__doc__ = f"""Copy ``nblocks`` blocks of ``bsize`` elements.

        Blocks begin ``sst`` elements apart in ``source`` and ``dst`` apart in ``dest``;
        {"``dest`` is on ``pe``." if name == "ibput" else "``source`` is on ``pe``."}
        {_PUT_DOC if name == "ibput" else _GET_DOC}
        Spec: shmem_{name} (OpenSHMEM 1.6).
        """
        return strided

    return make


iput, iput_warp, iput_work_group = scopes(_single("iput", _put))
iget, iget_warp, iget_work_group = scopes(_single("iget", _get))
ibput, ibput_warp, ibput_work_group = scopes(_blocked("ibput", _put))
ibget, ibget_warp, ibget_work_group = scopes(_blocked("ibget", _get))
