# SPDX-License-Identifier: BSD-3-Clause
"""Strided put and get from kernels: every so many elements, or blocks of them.

Strides count elements and are at least 1, and at least the block. Threads of a group share the elements.
"""

from ..faults import FAULT_NELEMS, FAULT_STRIDE, OP, record_fault
from ..groups import Scope, quotient
from ..leaf import backend as leaf
from ..leaf.backend import address_of, device_function, narrow, to_int64
from ..peers import BY_STORES, NOWHERE, distance_to, reach
from ..ring.requests import IGET, IPUT, RELEASE, ask
from ..ring.transport import ring_get, ring_put
from ..routine import scoped
from ..team.rows import on_context

_MOST = 1 << 62


def _make_copy(chunk_copy):
    @device_function
    def copy_blocks(dest, source, dst, sst, bsize, nblocks, itemsize, rank, size):
        """Lanes stand side by side in a block, and on so many blocks as that leaves lanes for."""
        lanes = narrow(min(bsize, size))
        rows, row = narrow(size) // lanes, narrow(rank) // lanes
        chunk = (itemsize | 8) & -(itemsize | 8)  # divides the element, and its address
        block = leaf.to_int64(row)
        while row < rows and block < nblocks:
            at = leaf.to_int64(narrow(rank) - row * lanes)
            while at < bsize:
                to = dest + (block * dst + at) * itemsize
                begin = source + (block * sst + at) * itemsize
                done = 0
                while done < itemsize:
                    chunk_copy(to + done, begin + done, chunk, chunk)
                    done += chunk
                at += lanes
            block += rows

    return copy_blocks


push_blocks, pull_blocks = _make_copy(leaf.copy_narrow), _make_copy(leaf.pull_narrow)


@device_function
def request_unit(itemsize: int) -> int:
    """The element of a request for strided copies, 16 bytes at most: larger ones go as several."""
    return min(itemsize & -itemsize, 16)


@device_function
def extent(nblocks: int, stride: int, bsize: int) -> int:
    """Elements from the first of so many blocks, 1 or more, to the last; 2^62 for all that is more."""
    if (nblocks | stride) >> 31 != 0 and nblocks - 1 > quotient(_MOST, stride):
        return _MOST
    return min((nblocks - 1) * stride + bsize, _MOST)


@device_function
def _way(here, remote, stride, remote_stride, bsize, nblocks, pe, op):
    """``reach``, when strides, counts and both arrays are right; else NOWHERE."""
    if bsize < 1 or remote_stride < bsize or stride < bsize:
        record_fault(FAULT_STRIDE, op, -1, min(remote_stride, stride), bsize)
        return NOWHERE
    if nblocks < 0:
        record_fault(FAULT_NELEMS, op, -1, nblocks, here.size)
    if nblocks <= 0:
        return NOWHERE
    span = extent(nblocks, stride, bsize)
    if bsize > here.size or span > here.size:
        record_fault(FAULT_NELEMS, op, -1, span, here.size)
        return NOWHERE
    return reach(remote, extent(nblocks, remote_stride, bsize), remote.size, pe, op)


def _make_move(put: bool):
    """``f(dest, source, dst, sst, bsize, nblocks, pe, op, rank, size)``."""
    copy, request, ring = (push_blocks, IPUT, ring_put) if put else (pull_blocks, IGET, ring_get)

    @device_function
    def ask_blocks(to, begin, itemsize, dst, sst, bsize, nblocks, pe):
        """By the ring; what the host cannot see of the caller's side goes block by block."""
        unit = request_unit(itemsize)
        parts = itemsize // unit
        fits_request = bsize >> 31 == 0 and bsize * parts >> 31 == 0  # the field of ring.h
        if fits_request and leaf.in_global(begin if put else to):
            if nblocks == 1:  # then the strides, of any size, lead nowhere
                dst, sst = bsize, bsize
            head = request | unit << 8 | RELEASE
            pe |= bsize * parts << 32
            ask(head, to, begin, nblocks, dst * parts, sst * parts, pe)
            return
        block = 0
        while block < nblocks:
            ring(to, begin, bsize * itemsize, pe, False)
            to += dst * itemsize
            begin += sst * itemsize
            block += 1

    @device_function
    def move(dest, source, dst, sst, bsize, nblocks, pe, op, rank, size):
        leaf.match(dest, source)
        to, begin, itemsize = address_of(dest), address_of(source), leaf.itemsize_of(dest)
        if put:
            way = _way(source, dest, sst, dst, bsize, nblocks, pe, op)
        else:
            way = _way(dest, source, dst, sst, bsize, nblocks, pe, op)
        if way == BY_STORES:
            there = distance_to(pe)
            to, begin = (to + there, begin) if put else (to, begin + there)
            copy(to, begin, dst, sst, bsize, nblocks, itemsize, rank, size)
        elif way != NOWHERE and rank == 0:
            ask_blocks(to, begin, itemsize, dst, sst, bsize, nblocks, pe)

    return move


_COMPLETES = {
    "put": "``source`` may be changed on return. Delivered at ``quiet``.",
    "get": "the data is in ``dest`` on return.",
}


def _strided(name: str, blocked: bool):
    """The routine ``name`` at all scopes."""
    op, way = OP[name], name[-3:]
    copy = _make_move(way == "put")

    @scoped(name, remote="dest" if way == "put" else "source", completes=_COMPLETES[way])
    def make(scope: Scope):
        rank, size, sync = scope.rank, scope.size, scope.sync

        @device_function
        def move(dest, source, dst, sst, bsize, nblocks, pe, ctx):
            world = on_context(ctx, pe)
            sync()
            d, s, b, n = to_int64(dst), to_int64(sst), to_int64(bsize), to_int64(nblocks)
            copy(dest, source, d, s, b, n, world, op, rank(), size())
            sync()

        def elements(dest, source, dst, sst, nelems, pe, ctx=None):
            """Copy ``nelems`` elements ``sst`` apart, to places ``dst`` apart.

            ``{remote}`` is on ``pe``.
            Completes: {completes}
            Faults: pe, a stride, a count or an array out of range: nothing is copied, the next host
            call raises.
            Spec: shmem_{name}.
            """
            move(dest, source, dst, sst, 1, nelems, pe, ctx)

        def blocks(dest, source, dst, sst, bsize, nblocks, pe, ctx=None):
            """Copy ``nblocks`` blocks of ``bsize`` elements.

            Blocks begin ``sst`` elements apart in ``source`` and ``dst`` apart in ``dest``;
            ``{remote}`` is on ``pe``.
            Completes: {completes}
            Faults: pe, a stride, a count or an array out of range: nothing is copied, the next host
            call raises.
            Spec: shmem_{name} (OpenSHMEM 1.6).
            """
            move(dest, source, dst, sst, bsize, nblocks, pe, ctx)

        return blocks if blocked else elements


for _name in ("iput", "iget", "ibput", "ibget"):
    _strided(_name, _name.startswith("ib"))
