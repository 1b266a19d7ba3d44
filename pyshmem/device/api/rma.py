# SPDX-License-Identifier: BSD-3-Clause
"""Put and get from kernels. Peers on the same host are reached by loads and stores."""

from .. import copies
from ..faults import FAULT_FAR, OP, record_fault
from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import address_of, device_function, to_int64
from ..peers import NOWHERE, beyond, distance_to, in_reach, my_pe, n_pes, on_peer, reach_slowly
from ..ring.cutover import may_offload_get, may_offload_put, offloads_get, offloads_put
from ..ring.elements import ask_element, tell_element
from ..ring.transport import ring_get, ring_put
from ..routine import routine, scoped
from ..team.rows import on_context


def make_transfer(scope: Scope, put: bool):
    """``f(dest, source, pe, nelems, nbi, op)``: a group's put, or get; False after a fault."""
    rank, size, leads = scope.rank, scope.size, scope.leads
    puts = may_offload_put, offloads_put, ring_put, copies.push, copies.push_alone
    gets = may_offload_get, offloads_get, ring_get, copies.pull, copies.pull_alone
    may_offload, offloads, ring, together, alone = puts if put else gets
    copy = together if scope.suffix else alone

    @device_function
    def transfer(dest, source, pe: int, nelems: int, nbi: bool, op: int) -> bool:
        leaf.match(dest, source)
        itemsize, most = leaf.itemsize_of(source), min(dest.size, source.size)
        nbytes, to, begin = nelems * itemsize, address_of(dest), address_of(source)
        if put:
            reached, there, own = in_reach(dest, nelems, most, pe), to, begin
        else:
            reached, there, own = in_reach(source, nelems, most, pe), begin, to
        # One branch on the way to most copies, and no call: what has been loaded is known there.
        sure = (pe == my_pe()) | (not may_offload(nbytes))
        if reached & sure or (reached and not offloads(nbytes, size(), own)):
            there += distance_to(pe)
            to, begin = (there, begin) if put else (to, there)
            copy(to, begin, nbytes, rank(), size())
        elif not reached and reach_slowly(there, nelems, most, itemsize, pe, op) == NOWHERE:
            return False
        elif leads():
            ring(to, begin, nbytes, pe, nbi)
        return True

    return transfer


def _make_move(scope: Scope, name: str):
    """``f(dest, source, pe, nelems, ctx)``: the transfer ``name``, between the group's meetings."""
    transfer = make_transfer(scope, name.startswith("put"))
    sync, op, nbi = scope.sync, OP[name], name.endswith("nbi")

    @device_function
    def move(dest, source, pe, nelems, ctx):
        sync()
        transfer(dest, source, on_context(ctx, pe), nelems, nbi, op)
        if not nbi:
            sync()

    return move


@scoped()
def _puts(scope: Scope) -> tuple:
    move, start = _make_move(scope, "put"), _make_move(scope, "put_nbi")

    def put(dest, source, pe, nelems=None, ctx=None):
        """Copy ``source`` into ``dest`` on ``pe``.

        Args:
            dest: contiguous array on the device heap.
            source: contiguous array of the same dtype in any memory of the kernel.
            pe: target PE, ``0 <= pe < n_pes()``.
            nelems: elements to copy; default ``source.size``.
            ctx: a context (``as_argument(context)``); ``pe`` is then a PE of its team.

        Completes: ``source`` may be changed on return. Delivered at ``quiet``; ordered by ``fence``.
        Faults: pe, nelems or dest out of range: nothing is copied, the next host call raises.
        Spec: shmem_put.
        """
        move(dest, source, pe, source.size if nelems is None else to_int64(nelems), ctx)

    def put_nbi(dest, source, pe, nelems=None, ctx=None):
        """Start copying ``source`` into ``dest`` on ``pe``; arguments as for ``put``.

        Completes: nothing on return; ``source`` must not change until ``quiet``.
        Spec: shmem_put_nbi.
        """
        start(dest, source, pe, source.size if nelems is None else to_int64(nelems), ctx)

    return put, put_nbi


@scoped()
def _gets(scope: Scope) -> tuple:
    move, start = _make_move(scope, "get"), _make_move(scope, "get_nbi")

    def get(dest, source, pe, nelems=None, ctx=None):
        """Copy ``source`` on ``pe`` into ``dest``.

        Args:
            dest: contiguous array of the same dtype in any memory of the kernel.
            source: contiguous array on the device heap.
            pe: PE to read from, ``0 <= pe < n_pes()``.
            nelems: elements to copy; default ``dest.size``.
            ctx: a context (``as_argument(context)``); ``pe`` is then a PE of its team.

        Completes: the data is in ``dest`` on return, for the whole group.
        Faults: pe, nelems or source out of range: nothing is copied, the next host call raises.
        Spec: shmem_get.
        """
        move(dest, source, pe, dest.size if nelems is None else to_int64(nelems), ctx)

    def get_nbi(dest, source, pe, nelems=None, ctx=None):
        """Start copying ``source`` on ``pe`` into ``dest``; arguments as for ``get``.

        Completes: nothing on return; ``dest`` is complete at ``quiet``.
        Spec: shmem_get_nbi.
        """
        start(dest, source, pe, dest.size if nelems is None else to_int64(nelems), ctx)

    return get, get_nbi


@routine
def no_bulk_copies():
    """In a kernel: its puts and gets by single threads take no shared memory, and are slower.

    Otherwise a kernel that contains one has 4 KiB of static shared memory on sm_90 and later, by which
    the few threads of a small block move many bytes at a time. Call it anywhere in the kernel.
    Extension.
    """
    leaf.no_bulk_copies()


_P, _G, _PTR = OP["p"], OP["g"], OP["ptr"]
_element = leaf.require("element")


@routine
def p(dest, value, pe, ctx=None):
    """Store ``value``, cast to dest's dtype, into the first element of ``dest`` on ``pe``.

    Fails to compile: a dtype that is no number, as of text and records; ``put`` takes them.
    Completes: delivered at ``quiet``; ordered by ``fence``.
    Spec: shmem_p.
    """
    _element(dest)
    world = on_context(ctx, pe)
    if in_reach(dest, 1, dest.size, world):
        leaf.write(on_peer(dest, world), dest, value)
    elif beyond(dest, 1, dest.size, world, _P) != NOWHERE:
        tell_element(dest, value, world)


@routine
def g(source, pe, ctx=None):
    """The first element of ``source`` on ``pe``; the caller's own after a fault.

    Fails to compile: a dtype that is no number, as of text and records; ``get`` takes them.
    Spec: shmem_g.
    """
    _element(source)
    world = on_context(ctx, pe)
    if in_reach(source, 1, source.size, world):
        return leaf.read(on_peer(source, world), source)
    if beyond(source, 1, source.size, world, _G) != NOWHERE:
        return ask_element(source, world)
    return leaf.read(address_of(source), source)


@leaf.array_from
def ptr(array, pe):
    """``array`` of ``pe``, to index.

    Loads and stores through it are ordinary ones: order them with ``fence`` and ``quiet``.
    Faults: a peer that loads and stores do not reach. After a fault it is the caller's own array.
    Example: ``theirs = shmem.ptr(dest, right)``
    Spec: shmem_ptr.
    """
    if in_reach(array, array.size, array.size, pe):
        return on_peer(array, pe)
    if beyond(array, array.size, array.size, pe, _PTR) != NOWHERE and pe != my_pe():
        record_fault(FAULT_FAR, _PTR, pe, pe, n_pes())
    return address_of(array)
