# SPDX-License-Identifier: BSD-3-Clause
"""Reductions and scans of a team from kernels.

Members are combined in the team's order, element by element, so that every PE gets the same bits. 16-bit
floats are combined in float32 and rounded once. ``team`` and who calls: see ``team_collectives``.
"""

from collections.abc import Callable
from typing import NamedTuple

from ..faults import OP
from ..groups import Scope, quotient
from ..leaf import backend as leaf
from ..leaf.backend import address_of, combine, device_function, raw1, raw16, state, to_int64
from ..peers import distance_to
from ..routine import scoped
from ..state import CUTOVER_COLL, DEVICE_STAGE_BYTES
from ..team import ll
from ..team.flags import outlined, steps, waited_op
from ..team.ll import makes_ll
from ..team.rows import member_pe, row_is_p2p, row_my_pe, row_n_pes
from .collectives import both_usable, half_of_staging

FAMILY_OF = {"and": "t", "or": "t", "xor": "t", "max": "m", "min": "m", "sum": "s", "prod": "s"}


class Kind(NamedTuple):
    """What is combined, by its number among the routines.

    ``add`` combines 16 bytes into an accumulator, ``count(row)`` is how many members it is done for, the
    team's first ones: a scan's are fewer than all, perhaps none. ``scatters``: the source has a block
    for each member, which gets that one only.
    """

    op: int
    add: Callable
    count: Callable = row_n_pes
    scatters: bool = False

    def is_scan(self) -> bool:
        return self.count is not row_n_pes


@device_function
def staging_room(members: int) -> int:
    """Bytes a member may put into the staging buffer at a time."""
    return quotient(DEVICE_STAGE_BYTES, members) & ~15


def _make_fold(kind: Kind, load):
    """``f(like, at, step, end)``: what is ``step`` apart before ``end``, combined."""
    add, may_be_none = kind.add, kind.is_scan()

    @device_function
    def fold(like, at, step, end):
        if may_be_none:
            acc = leaf.no_sum(like)
        else:
            acc = leaf.widen(like, load(at, like))
            at += step
        while at < end:
            acc = add(like, acc, load(at, like))
            at += step
        return acc

    return fold


def _make_staged(scope: Scope, kind: Kind):
    """For few bytes, and peers out of reach: all chunks on all stages, then each combines them."""
    rank, size, op, count = scope.rank, scope.size, kind.op, kind.count
    sync, (_, start, send, sync_members, _, done_with) = scope.sync, steps(scope)
    fold16, fold1 = _make_fold(kind, raw16), _make_fold(kind, raw1)

    @outlined(scope)
    def combine_staged(row, dest, staging, room, nbytes, like):
        end = staging + count(row) * room
        at = rank() << 4
        whole = nbytes & ~15 if dest & 15 == 0 else 0
        while at < whole:
            leaf.store_acc16(dest + at, like, fold16(like, staging + at, room, end))
            at += size() << 4
        at = whole + rank() * leaf.itemsize_of(like)
        while at < nbytes:
            leaf.store_acc1(dest + at, like, fold1(like, staging + at, room, end))
            at += size() * leaf.itemsize_of(like)
        return 0

    @device_function
    def staged(row, dest, source, step, nbytes, like):
        """To member m the ``nbytes`` at ``source + m * step``."""
        room, epoch = staging_room(row_n_pes(row)), start(row, op)
        done = 0
        while done < nbytes:
            chunk = min(room, nbytes - done)
            staging = half_of_staging(row, epoch)
            send(row, staging + row_my_pe(row) * room, source + done, step, chunk)
            sync()
            sync_members(row, epoch, op)
            combine_staged(row, dest + done, staging, room, chunk, like)
            done += chunk
            epoch += 1
        done_with(row, epoch - 1)

    return staged


def _make_small(scope: Scope, kind: Kind):
    """For the fewest bytes: sources with flags in them, and a lane's chunks of all members combined."""
    rank, size, (op, add, count, scatters) = scope.rank, scope.size, kind
    (*_, finish), (send, _, _), scans = steps(scope), ll.moves(scope), kind.is_scan()

    @outlined(scope)
    def combine_chunks(row, dest, source, nbytes, call, waited, like):
        """A scan waits for all members too."""
        counted, chunk = count(row), rank()
        while chunk < ll.chunks_of(nbytes):
            at = chunk << 4
            left = nbytes - at
            own = ll.load_chunk(source + at, left)
            if scans:
                acc, member = leaf.no_sum(like), 0
            else:
                low, high = ll.member_chunk(row, 0, own, chunk, call, waited)
                acc, member = leaf.widen(like, leaf.raw_of(like, low, high)), 1
            while member < row_n_pes(row):
                low, high = ll.member_chunk(row, member, own, chunk, call, waited)
                if not scans or member < counted:
                    acc = add(like, acc, leaf.raw_of(like, low, high))
                member += leaf.opaque(1)
            low, high = leaf.rounded(like, acc)
            ll.store_chunk(dest + at, left, low, high)
            chunk += size()
        return 0

    @device_function
    def small(row, dest, source, nelems, taken):
        call, nbytes = -1, nelems * leaf.itemsize_of(dest)
        taking_part = ll.takes_part(row, ll.chunks_of(nbytes), rank())
        if taking_part and both_usable(dest, nelems, source, taken, op):
            to, begin, step = address_of(dest), address_of(source), nbytes if scatters else 0
            call = send(row, begin, step, 0, nbytes, 0, op, rank(), size())
            begin += row_my_pe(row) * step
            combine_chunks(row, to, begin, nbytes, call, waited_op(row, op), dest)
        finish(row, call)

    return small


def _make_gathers(add) -> tuple:
    """``f(row, source, like)``: 16 bytes of all members, combined; and the same of four chunks."""

    @device_function
    def gather(row, source, like):
        acc = leaf.widen(like, raw16(source + distance_to(member_pe(row, 0)), like))
        member = 1
        while member < row_n_pes(row):
            acc = add(like, acc, raw16(source + distance_to(member_pe(row, member)), like))
            member += 1
        return acc

    @device_function
    def gather_four(row, source, step, like):
        """Pieces ``step`` apart, with their loads in flight together."""
        at = source + distance_to(member_pe(row, 0))
        r0, r1 = raw16(at, like), raw16(at + step, like)
        r2, r3 = raw16(at + 2 * step, like), raw16(at + 3 * step, like)
        a0, a1 = leaf.widen(like, r0), leaf.widen(like, r1)
        a2, a3 = leaf.widen(like, r2), leaf.widen(like, r3)
        member = 1
        while member < row_n_pes(row):
            at = source + distance_to(member_pe(row, member))
            r0, r1 = raw16(at, like), raw16(at + step, like)
            r2, r3 = raw16(at + 2 * step, like), raw16(at + 3 * step, like)
            a0, a1 = add(like, a0, r0), add(like, a1, r1)
            a2, a3 = add(like, a2, r2), add(like, a3, r3)
            member += 1
        return a0, a1, a2, a3

    return gather, gather_four


def _make_large(scope: Scope, kind: Kind):
    """The way of many bytes: a member combines its share of all sources, and stores it at all.

    Nobody else reads or writes that share, so dest may be source. Of what is scattered, the share is the
    member's block, which nobody else gets.
    """
    rank, size, (gather, gather_four) = scope.rank, scope.size, _make_gathers(kind.add)
    _, start, _, sync_members, end, _ = steps(scope)
    op, scatters = kind.op, kind.scatters

    @device_function
    def results(row):
        return 1 if scatters else row_n_pes(row)

    @device_function
    def at_member(row, dest, member):
        return dest if scatters else dest + distance_to(member_pe(row, member))

    @outlined(scope)
    def combine_share(row, dest, source, nbytes, like):
        if scatters:
            at, end = 0, nbytes
        else:
            share = (quotient(nbytes, row_n_pes(row)) + 15) & ~15
            at = row_my_pe(row) * share
            end = min(nbytes, at + share)
        step = size() << 4
        at += rank() << 4
        while at + 3 * step < end:
            a0, a1, a2, a3 = gather_four(row, source + at, step, like)
            member = 0
            while member < results(row):
                to = at_member(row, dest + at, member)
                leaf.store_acc16(to, like, a0)
                leaf.store_acc16(to + step, like, a1)
                leaf.store_acc16(to + 2 * step, like, a2)
                leaf.store_acc16(to + 3 * step, like, a3)
                member += 1
            at += 4 * step
        while at < end:
            acc, member = gather(row, source + at, like), 0
            while member < results(row):
                leaf.store_acc16(at_member(row, dest + at, member), like, acc)
                member += 1
            at += step
        return 0

    @device_function
    def large(row, dest, source, nbytes, like):
        epoch = start(row, op)
        sync_members(row, epoch, op)  # the sources are ready, and the dests
        begin = source + row_my_pe(row) * nbytes if scatters else source
        combine_share(row, dest, begin, nbytes, like)
        end(row, epoch + 1, op)  # and have been read

    return large


def make_combined(scope: Scope, kind: Kind, family: str):
    """``f(team, dest, source, nelems)``: the routine of a kind, on the types of a family."""
    op, scatters, shares = kind.op, kind.scatters, not kind.is_scan()
    types, enter, by_ll = leaf.require(family), steps(scope)[0], makes_ll(scope)
    small, staged, large = (make(scope, kind) for make in (_make_small, _make_staged, _make_large))

    @device_function
    def are_large(row, nbytes):
        if scatters:
            return nbytes > staging_room(row_n_pes(row))
        return nbytes >= max(state(CUTOVER_COLL), 1)

    @device_function
    def combined(team, dest, source, count):
        types(dest)
        leaf.match(dest, source)
        nelems, row = to_int64(count), enter(team, op)
        if row == 0:
            return
        nbytes, d, s = nelems * leaf.itemsize_of(dest), address_of(dest), address_of(source)
        taken = nelems * row_n_pes(row) if scatters else nelems
        step = nbytes if scatters else 0
        # Decided by what is the same on all members, as the place of empty arrays is not.
        if by_ll(row, nbytes):
            small(row, dest, source, nelems, taken)
        elif not both_usable(dest, nelems, source, taken, op):
            return
        elif shares and row_is_p2p(row) and (d | s | nbytes) & 15 == 0 and are_large(row, nbytes):
            large(row, d, s, nbytes, dest)
        else:
            staged(row, d, s, step, nbytes, dest)

    return combined


def _reduction(name: str):
    """The reduction ``name`` at all scopes."""

    @scoped(f"{name}_reduce", grid=True, operation=name)
    def make(scope: Scope):
        combined = make_combined(scope, Kind(OP["reduce"], combine(name)), FAMILY_OF[name])

        def reduce(team, dest, source, nreduce):
            """Combine ``nreduce`` elements of all members by {operation}, in the team's order.

            Every member gets the same bits. ``dest`` may be ``source``.
            Completes: ``dest`` holds the result and ``source`` may be changed, on return.
            Spec: shmem_{name}.
            """
            combined(team, dest, source, nreduce)

        return reduce


def _scan(name: str, last: str, count):
    """The scan ``name`` at all scopes."""

    @scoped(name, grid=True, last=last)
    def make(scope: Scope):
        combined = make_combined(scope, Kind(OP["scan"], combine("sum"), count), "s")

        def scan(team, dest, source, nelems):
            """Sums over the team's PEs 0 to {last}.

            ``dest`` may be ``source``.
            Completes: ``dest`` holds the sums and ``source`` may be changed, on return.
            Spec: shmem_{name} (OpenSHMEM 1.6).
            """
            combined(team, dest, source, nelems)

        return scan


for _name in FAMILY_OF:
    _reduction(_name)
_scan("sum_inscan", "the caller", device_function(lambda row: row_my_pe(row) + 1))
_scan("sum_exscan", "the one before", row_my_pe)
