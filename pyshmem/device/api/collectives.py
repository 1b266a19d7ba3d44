# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of a team from kernels: synchronisation and data.

``team`` is the number of a team's slot: TEAM_WORLD, TEAM_SHARED, TEAM_NODE, or what
``as_argument(team)`` gives on the host. One group of a PE's grid calls a routine, on every member, all
with the same arguments; different teams may be used by different blocks at one time. ``dest`` and
``source`` are contiguous arrays on the heap that kernels reach. As the specification has it, ``dest``
must be free at every member when the first calls.
"""

from ..copies import push
from ..faults import FAULT_ADDRESS, FAULT_NELEMS, FAULT_PE, FAULT_STRIDE, OP, record_fault
from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import address_of, device_function, read64, to_int64, write64
from ..peers import NOWHERE, distance_to, is_p2p, my_pe, on_heap, reach_slowly
from ..ring.requests import IPUT, ask
from ..ring.transport import get_bytes
from ..routine import scoped
from ..state import DEVICE_STAGE_BYTES
from ..team import ll
from ..team.flags import await_flag, outlined, raise_flags, steps, waited_op
from ..team.ll import makes_ll
from ..team.rows import member_pe, row_is_p2p, row_my_pe, row_n_pes, row_stage
from .strided import extent, push_blocks, request_unit

_data = leaf.require("r")
_BROADCAST, _COLLECT = OP["broadcast"], OP["collect"]
_PULL_FROM = 8192  # bytes from which members of a broadcast fetch for themselves, all at once


@device_function
def _check(dest, source) -> None:
    """The door of every data collective: their dtypes, and two arrays alike."""
    _data(dest)
    leaf.match(dest, source)


@device_function
def usable(array, nelems: int, op: int) -> bool:
    """Can the first elements be used in a collective? With P2P they are on the device heap."""
    if on_heap(array, nelems, array.size) | (nelems == 0):  # an empty array has no place
        return True
    address, itemsize = address_of(array), leaf.itemsize_of(array)
    way = reach_slowly(address, nelems, array.size, itemsize, my_pe(), op)
    if way != NOWHERE and is_p2p(my_pe()):
        record_fault(FAULT_ADDRESS, op, -1, address, nelems * itemsize)
        return False
    return way != NOWHERE


@device_function
def both_usable(dest, filled: int, source, taken: int, op: int) -> bool:
    """The first ``filled`` elements of one and ``taken`` of the other: usually one branch."""
    if on_heap(dest, filled, dest.size) & on_heap(source, taken, source.size):
        return True
    return usable(dest, filled, op) and usable(source, taken, op)


@device_function
def half_of_staging(row: int, epoch: int) -> int:
    """The half of the staging buffer for this round: its last readers are two rounds behind."""
    return row_stage(row) + (epoch & 1) * DEVICE_STAGE_BYTES


@scoped(grid=True)
def _team_sync(scope: Scope):
    enter, start, _, _, end, _ = steps(scope)
    op = OP["team_sync"]

    def team_sync(team):
        """Wait until all members are here; the caller's stores to its own memory are visible to all.

        Spec: shmem_team_sync.
        """
        row = enter(team, op)
        if row != 0:
            end(row, start(row, op), op)

    return team_sync


@device_function
def _is_broadcast(row, dest, source, nelems, root):
    """Are the arguments of a broadcast right?"""
    if root < 0 or root >= row_n_pes(row):
        record_fault(FAULT_PE, _BROADCAST, -1, root, row_n_pes(row))
        return False
    return both_usable(dest, nelems, source, nelems, _BROADCAST)


@scoped(grid=True)
def _broadcast(scope: Scope):
    rank, size, sync = scope.rank, scope.size, scope.sync
    enter, start, send, _, end, finish = steps(scope)
    op, by_ll = _BROADCAST, makes_ll(scope)
    ll_send, _, ll_receive_from = ll.moves(scope)

    @device_function
    def small(row, dest, source, nelems, root):
        """Who is not the root sends a unit without data, so that all know of all."""
        call, nbytes = -1, nelems * leaf.itemsize_of(dest)
        taking_part = ll.takes_part(row, ll.chunks_of(nbytes), rank())
        if taking_part and _is_broadcast(row, dest, source, nelems, root):
            waited, to = waited_op(row, op), address_of(dest)
            if row_my_pe(row) == root:
                call = ll_send(row, address_of(source), 0, to, nbytes, 0, op, rank(), size())
            else:
                call = start(row, op)
                ll.send_words(row, 0, call, rank(), size())
                ll_receive_from(row, root, to, nbytes, 0, call, waited, rank(), size())
            ll.await_words(row, root if nbytes > 0 else -1, call, waited, rank(), size())
        finish(row, call)

    def broadcast(team, dest, source, nelems, root):
        """Copy ``source`` of the team's PE ``root`` into ``dest`` of every member, the root too.

        Completes: ``dest`` holds the data and ``source`` may be changed, on return.
        Faults: team, root, nelems or an array out of range: this PE leaves the routine out.
        Spec: shmem_broadcast.
        """
        _check(dest, source)
        nelems, root = to_int64(nelems), to_int64(root)
        row, nbytes = enter(team, op), nelems * leaf.itemsize_of(dest)
        if row == 0:
            return
        if by_ll(row, nbytes):
            small(row, dest, source, nelems, root)
            return
        if not _is_broadcast(row, dest, source, nelems, root):
            return
        epoch, mine = start(row, op), row_my_pe(row) == root
        if row_is_p2p(row) and nbytes >= _PULL_FROM and row_n_pes(row) > 2:
            if mine:
                raise_flags(row, rank(), size(), epoch)
            elif rank() == 0:
                await_flag(row, root, epoch, op)
            sync()
            to, begin = address_of(dest), address_of(source)
            get_bytes(to, begin, nbytes, member_pe(row, root), rank(), size())
            epoch += 1
        elif mine:
            send(row, address_of(dest), address_of(source), 0, nbytes)
        end(row, epoch, op)

    return broadcast


def _make_blocks(scope: Scope, op: int, own_blocks: bool):
    """``f(team, dest, source, nelems)``: to each member, a block of its own or the same one."""
    rank, size = scope.rank, scope.size
    enter, start, send, _, end, finish = steps(scope)
    by_ll, (ll_send, ll_receive, _) = makes_ll(scope), ll.moves(scope)

    @device_function
    def are_usable(dest, source, nelems, together):
        bounds, taken = usable(dest, nelems, op), together if own_blocks else nelems
        return bounds and both_usable(dest, together, source, taken, op)

    @device_function
    def blocks(team, dest, source, count):
        _check(dest, source)
        nelems, row = to_int64(count), enter(team, op)
        if row == 0:
            return
        together = nelems * row_n_pes(row)
        nbytes = nelems * leaf.itemsize_of(dest)
        step = nbytes if own_blocks else 0
        to, begin = address_of(dest), address_of(source)
        place = to + row_my_pe(row) * nbytes
        if by_ll(row, nbytes):
            epoch, packets = -1, ll.chunks_of(nbytes) * max(row_n_pes(row) - 1, 1)
            taking_part = ll.takes_part(row, packets, rank())
            if taking_part and are_usable(dest, source, nelems, together):
                epoch = ll_send(row, begin, step, place, nbytes, 0, op, rank(), size())
                waited = waited_op(row, op)
                ll_receive(row, to, nbytes, nbytes, epoch, waited, rank(), size())
            finish(row, epoch)
        elif are_usable(dest, source, nelems, together):
            epoch = start(row, op)
            send(row, place, begin, step, nbytes)
            end(row, epoch, op)

    return blocks


@scoped(grid=True)
def _of_blocks(scope: Scope) -> tuple:
    gather = _make_blocks(scope, OP["fcollect"], False)
    exchange = _make_blocks(scope, OP["alltoall"], True)

    def fcollect(team, dest, source, nelems):
        """Copy ``nelems`` elements of every member into ``dest`` of every member, in the team's order.

        Completes: ``dest``, n_pes * nelems elements, holds the data and ``source`` may be changed.
        Spec: shmem_fcollect.
        """
        gather(team, dest, source, nelems)

    def alltoall(team, dest, source, nelems):
        """Copy block m of ``source`` into the caller's block of ``dest`` at member m, for every m.

        Blocks have ``nelems`` elements; both arrays hold n_pes blocks.
        Completes: ``dest`` holds the data and ``source`` may be changed, on return.
        Spec: shmem_alltoall.
        """
        exchange(team, dest, source, nelems)

    return fcollect, alltoall


@scoped(grid=True)
def _alltoalls(scope: Scope):
    rank, size = scope.rank, scope.size
    enter, start, _, _, end, _ = steps(scope)
    op = OP["alltoalls"]

    @outlined(scope)
    def scatter(row, dest, source, dst, sst, nelems, itemsize):
        """To each member its elements, by stores or, a lane a member, by strided requests."""
        members, me = row_n_pes(row), row_my_pe(row)
        place = dest + me * nelems * dst * itemsize
        if row_is_p2p(row):
            member = 0
            while member < members:
                to = place + distance_to(member_pe(row, member))
                begin = source + member * nelems * sst * itemsize
                push_blocks(to, begin, dst, sst, 1, nelems, itemsize, rank(), size())
                member += 1
        else:
            member = rank()
            while member < members and nelems > 0:
                begin = source + member * nelems * sst * itemsize
                unit = request_unit(itemsize)
                parts = itemsize // unit
                pe = member_pe(row, member) | parts << 32
                ask(IPUT | unit << 8, place, begin, nelems, dst * parts, sst * parts, pe)
                member += size()
        return 0

    def alltoalls(team, dest, source, dst, sst, nelems):
        """``alltoall`` of elements that lie ``dst`` and ``sst`` elements apart, 1 or more.

        The block of member m begins at element m * nelems * stride of either array.
        Completes: ``dest`` holds the data and ``source`` may be changed, on return.
        Spec: shmem_alltoalls.
        """
        _check(dest, source)
        dst, sst, nelems = to_int64(dst), to_int64(sst), to_int64(nelems)
        row = enter(team, op)
        if row == 0:
            return
        if dst < 1 or sst < 1:
            record_fault(FAULT_STRIDE, op, -1, min(dst, sst), 1)
            return
        if not both_usable(dest, nelems, source, nelems, op):  # bounds the product
            return
        count = nelems * row_n_pes(row)
        least = min(count, 1)
        taken, filled = extent(max(count, 1), sst, least), extent(max(count, 1), dst, least)
        if not both_usable(dest, filled, source, taken, op):
            return
        epoch = start(row, op)
        scatter(row, address_of(dest), address_of(source), dst, sst, nelems, leaf.itemsize_of(dest))
        end(row, epoch, op)

    return alltoalls


@device_function
def _add_counts(row, epoch, end):
    """The counts of the members before ``end``, from the stage."""
    total, member = 0, 0
    while member < end:
        total += read64(half_of_staging(row, epoch) + 8 * member)
        member += 1
    return total


@device_function
def _holds(dest, total):
    """Is there room for the elements of all members?"""
    if total > dest.size:
        record_fault(FAULT_NELEMS, _COLLECT, -1, total, dest.size)
        return False
    return usable(dest, total, _COLLECT)


def _make_by_stages(scope: Scope):
    """``f(row, dest, source, nelems, epoch)``: counts by the stages, where peers are out of reach."""
    rank, sync, (_, _, send, sync_members, end, _) = scope.rank, scope.sync, steps(scope)

    @device_function
    def by_stages(row, dest, source, nelems, epoch):
        slot = half_of_staging(row, epoch) + 8 * row_my_pe(row)  # every count goes to all stages
        if rank() == 0:
            write64(slot, nelems)
        sync()
        send(row, slot, slot, 0, 8)
        sync()
        sync_members(row, epoch, _COLLECT)
        total = _add_counts(row, epoch, row_n_pes(row))
        before = _add_counts(row, epoch, row_my_pe(row))
        if _holds(dest, total):
            place = address_of(dest) + before * leaf.itemsize_of(dest)
            send(row, place, address_of(source), 0, nelems * leaf.itemsize_of(dest))
        end(row, epoch + 1, _COLLECT)

    return by_stages


@device_function
def _count_of(row, member, nelems, epoch, waited):
    """How many elements a member has, the caller ``nelems``."""
    return nelems if member == row_my_pe(row) else ll.await_word(row, member, epoch, waited)


def _make_by_counts(scope: Scope):
    """``f(row, dest, source, nelems)``: counts with flags in them, and behind small ones the data."""
    rank, size, op, by_ll = scope.rank, scope.size, _COLLECT, makes_ll(scope)
    _, start, send, _, end, finish = steps(scope)
    ll_send, _, ll_receive_from = ll.moves(scope)

    @outlined(scope)
    def receive_small(row, dest, source, nelems, itemsize, epoch, waited):
        """What members sent behind their counts, each to its place, and the own elements."""
        member, place = 0, dest
        while member < row_n_pes(row):
            nbytes = _count_of(row, member, nelems, epoch, waited) * itemsize
            if member == row_my_pe(row):
                push(place, source, nbytes, rank(), size())
            else:
                ll_receive_from(row, member, place, nbytes, 1, epoch, waited, rank(), size())
            place += nbytes
            member += 1
        return 0

    @device_function
    def by_counts(row, dest, source, nelems):
        itemsize, begin, waited = leaf.itemsize_of(dest), address_of(source), waited_op(row, op)
        if nelems > 0 and by_ll(row, nelems * itemsize):
            epoch = ll_send(row, begin, 0, 0, nelems * itemsize, 1, op, rank(), size())
        else:
            epoch = start(row, op)
        ll.send_words(row, nelems, epoch, rank(), size())
        total, before, most, member = 0, 0, 0, 0
        while member < row_n_pes(row):
            if member == row_my_pe(row):
                before = total
            count = _count_of(row, member, nelems, epoch, waited)
            total += count
            most = max(most, count)
            member += 1
        small, to = by_ll(row, most * itemsize), address_of(dest)
        if _holds(dest, total):
            if small:
                receive_small(row, to, begin, nelems, itemsize, epoch, waited)
            else:
                send(row, to + before * itemsize, begin, 0, nelems * itemsize)
        if small:
            finish(row, epoch)
        else:
            end(row, epoch + 1, op)

    return by_counts


@scoped(grid=True)
def _collect(scope: Scope):
    enter, start = steps(scope)[:2]
    by_stages, by_counts = _make_by_stages(scope), _make_by_counts(scope)

    def collect(team, dest, source, nelems):
        """``fcollect`` with a count of its own for each member, 0 or more.

        Faults: a dest that does not hold all of them, on every member: nothing is copied.
        Completes: ``dest`` holds the data and ``source`` may be changed, on return.
        Spec: shmem_collect.
        """
        _check(dest, source)
        nelems, row = to_int64(nelems), enter(team, _COLLECT)
        if row == 0 or not usable(source, nelems, _COLLECT):
            return
        if row_is_p2p(row):
            by_counts(row, dest, source, nelems)
        else:
            by_stages(row, dest, source, nelems, start(row, _COLLECT))

    return collect
