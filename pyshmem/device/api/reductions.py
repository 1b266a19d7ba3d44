# SPDX-License-Identifier: BSD-3-Clause
"""Reductions and scans of a team from kernels.

Members are combined in the team's order, element by element, so that every PE gets the same bits. 16-bit
floats are combined in float32 and rounded once. ``team`` and who calls: see ``team_collectives``.
"""

from ..faults import OP
from ..groups import Scope, quotient
from ..leaf import chosen as leaf
from ..leaf.chosen import address_of, combine, device_function, raw1, raw16, state, to_int64
from ..peers import distance_to
from ..routine import scoped
from ..state import CUTOVER_COLL, DEVICE_STAGE_BYTES
from ..team import ll
from ..team.flags import outlined, steps
from ..team.ll import makes_ll
from ..team.rows import member_pe, near_row, row_my_pe, row_n_pes
from .collectives import both_usable, half_of_stage

FAMILY_OF = {"and": "t", "or": "t", "xor": "t", "max": "m", "min": "m", "sum": "s", "prod": "s"}
_REDUCE, _SCAN = OP["reduce"], OP["scan"]


@device_function
def stage_room(members: int) -> int:
    """Bytes a member may put on the stage at a time."""
    return quotient(DEVICE_STAGE_BYTES, members) & ~15


def _make_fold(name: str, load):
    """``f(like, at, step, end)``: what is ``step`` apart before ``end``, combined."""
    add = combine(name)

    @device_function
    def fold(like, at, step, end):
        acc = leaf.widen(like, load(at, like))
        at += step
        while at < end:
            acc = add(like, acc, load(at, like))
            at += step
        return acc

    return fold


def make_staged(scope: Scope, op: int, finish):
    """For few bytes, and peers out of reach: all pieces on all stages, then ``finish``."""
    sync, (_, start, send, meet_members, _, done_with) = scope.sync, steps(scope)

    @device_function
    def staged(row, dest, source, step, nbytes, like):
        """To member m the ``nbytes`` at ``source + m * step``."""
        room, epoch = stage_room(row_n_pes(row)), start(row, op)
        done = 0
        while done < nbytes:
            piece = min(room, nbytes - done)
            stage = half_of_stage(row, epoch)
            send(row, stage + row_my_pe(row) * room, source + done, step, piece)
            sync()
            meet_members(row, epoch, op)
            finish(row, dest + done, stage, room, piece, like)
            done += piece
            epoch += 1
        done_with(row, epoch - 1)

    return staged


def make_combine_stage(scope: Scope, name: str):
    """``finish`` of a reduction."""
    rank, size = scope.rank, scope.size
    fold16, fold1 = _make_fold(name, raw16), _make_fold(name, raw1)

    @outlined(scope)
    def combine_stage(row, dest, stage, room, nbytes, like):
        end = stage + row_n_pes(row) * room
        at = rank() << 4
        whole = nbytes & ~15 if dest & 15 == 0 else 0
        while at < whole:
            leaf.store_acc16(dest + at, like, fold16(like, stage + at, room, end))
            at += size() << 4
        at = whole + rank() * leaf.itemsize_of(like)
        while at < nbytes:
            leaf.store_acc1(dest + at, like, fold1(like, stage + at, room, end))
            at += size() * leaf.itemsize_of(like)
        return 0

    return combine_stage


def make_small(scope: Scope, op: int, combine_pieces, scatters: bool = False):
    """For the fewest bytes: sources with flags in them, and a lane's pieces of all members combined.

    ``scatters``: the source has a block for each member.
    """
    rank, size = scope.rank, scope.size
    *_, finish = steps(scope)
    send, _, _ = ll.moves(scope)

    @device_function
    def small(row, dest, source, nelems):
        call, nbytes = -1, nelems * leaf.itemsize_of(dest)
        if ll.takes_part(row, ll.pieces_of(nbytes), rank()):
            taken = nelems * row_n_pes(row) if scatters else nelems
            if both_usable(dest, nelems, source, taken, op):
                to, begin, step = address_of(dest), address_of(source), nbytes if scatters else 0
                call = send(row, begin, step, 0, nbytes, 0, op, rank(), size())
                begin += row_my_pe(row) * step
                combine_pieces(row, to, begin, nbytes, call, ll.waited_op(row, op), dest)
        finish(row, call)

    return small


def make_combine_pieces(scope: Scope, name: str):
    """A reduction's end of that."""
    rank, size, add = scope.rank, scope.size, combine(name)

    @outlined(scope)
    def combine_pieces(row, dest, source, nbytes, call, waited, like):
        piece = rank()
        while piece < ll.pieces_of(nbytes):
            at = piece << 4
            left = nbytes - at
            own = ll.load_piece(source + at, left)
            low, high = ll.member_piece(row, 0, own, piece, call, waited)
            acc = leaf.widen(like, leaf.raw_of(like, low, high))
            member = 1
            while member < row_n_pes(row):
                low, high = ll.member_piece(row, member, own, piece, call, waited)
                acc = add(like, acc, leaf.raw_of(like, low, high))
                member += leaf.opaque(1)
            low, high = leaf.rounded(like, acc)
            ll.store_piece(dest + at, left, low, high)
            piece += size()
        return 0

    return combine_pieces


def _make_scan_pieces(scope: Scope, inclusive: bool):
    """A scan's: it waits for all members, and adds up the first ones' pieces."""
    rank, size, add = scope.rank, scope.size, combine("sum")

    @outlined(scope)
    def scan_pieces(row, dest, source, nbytes, call, waited, like):
        count = row_my_pe(row) + (1 if inclusive else 0)
        piece = rank()
        while piece < ll.pieces_of(nbytes):
            at, member = piece << 4, 0
            left = nbytes - at
            own = ll.load_piece(source + at, left)
            acc = leaf.no_sum(like)
            while member < row_n_pes(row):
                low, high = ll.member_piece(row, member, own, piece, call, waited)
                if member < count:
                    acc = add(like, acc, leaf.raw_of(like, low, high))
                member += leaf.opaque(1)
            low, high = leaf.rounded(like, acc)
            ll.store_piece(dest + at, left, low, high)
            piece += size()
        return 0

    return scan_pieces


def make_gathers(name: str) -> tuple:
    """``f(row, source, like)``: 16 bytes of all members, combined; and the same of four pieces."""
    add = combine(name)

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


def _make_shared(scope: Scope, name: str):
    """The way of many bytes: a member combines its share of all sources, and stores it at all.

    Nobody else reads or writes that share, so dest may be source.
    """
    rank, size, (gather, gather_four) = scope.rank, scope.size, make_gathers(name)
    _, start, _, meet_members, end, _ = steps(scope)

    @device_function
    def one(row, dest, source, like):
        acc, member = gather(row, source, like), 0
        while member < row_n_pes(row):
            leaf.store_acc16(dest + distance_to(member_pe(row, member)), like, acc)
            member += 1

    @device_function
    def four(row, dest, source, step, like):
        a0, a1, a2, a3 = gather_four(row, source, step, like)
        member = 0
        while member < row_n_pes(row):
            at = dest + distance_to(member_pe(row, member))
            leaf.store_acc16(at, like, a0)
            leaf.store_acc16(at + step, like, a1)
            leaf.store_acc16(at + 2 * step, like, a2)
            leaf.store_acc16(at + 3 * step, like, a3)
            member += 1

    @outlined(scope)
    def combine_share(row, dest, source, nbytes, like):
        share = (quotient(nbytes, row_n_pes(row)) + 15) & ~15
        at = row_my_pe(row) * share
        end = min(nbytes, at + share)
        step = size() << 4
        at += rank() << 4
        while at + 3 * step < end:
            four(row, dest + at, source + at, step, like)
            at += 4 * step
        while at < end:
            one(row, dest + at, source + at, like)
            at += step
        return 0

    @device_function
    def shared(row, dest, source, nbytes, like):
        epoch = start(row, _REDUCE)
        meet_members(row, epoch, _REDUCE)  # the sources are ready, and the dests
        combine_share(row, dest, source, nbytes, like)
        end(row, epoch + 1, _REDUCE)

    return shared


def _reduction(name: str):
    """The reduction ``name`` at all scopes."""
    types = leaf.require(FAMILY_OF[name])

    @scoped(f"{name}_reduce", grid=True, operation=name)
    def make(scope: Scope):
        enter, shared = steps(scope)[0], _make_shared(scope, name)
        staged = make_staged(scope, _REDUCE, make_combine_stage(scope, name))
        small = make_small(scope, _REDUCE, make_combine_pieces(scope, name))
        by_ll = makes_ll(scope)

        def reduce(team, dest, source, nreduce):
            """Combine ``nreduce`` elements of all members by {operation}, in the team's order.

            Every member gets the same bits. ``dest`` may be ``source``.
            Completes: ``dest`` holds the result and ``source`` may be changed, on return.
            Spec: shmem_{name}.
            """
            types(dest)
            nreduce, row = to_int64(nreduce), enter(team, _REDUCE)
            if row == 0:
                return
            nbytes, d, s = nreduce * leaf.itemsize_of(dest), address_of(dest), address_of(source)
            # Decided by what is the same on all members, as the place of empty arrays is not.
            if by_ll(row, nbytes):
                small(row, dest, source, nreduce)
            elif not both_usable(dest, nreduce, source, nreduce, _REDUCE):
                return
            elif (
                near_row(row)
                and (d | s | nbytes) & 15 == 0
                and nbytes >= max(state(CUTOVER_COLL), 1)
            ):
                shared(row, d, s, nbytes, dest)
            else:
                staged(row, d, s, 0, nbytes, dest)

        return reduce


def _make_store_prefixes(scope: Scope, inclusive: bool):
    """``finish`` of a scan: sums of the first members' pieces, element by element."""
    rank, size, add = scope.rank, scope.size, combine("sum")

    @outlined(scope)
    def store_prefixes(row, dest, stage, room, nbytes, like):
        count = row_my_pe(row) + (1 if inclusive else 0)
        at = rank() * leaf.itemsize_of(like)
        while at < nbytes:
            acc = leaf.no_sum(like)
            place, left = stage + at, count
            while left > 0:
                acc = add(like, acc, raw1(place, like))
                place += room
                left -= 1
            leaf.store_acc1(dest + at, like, acc)
            at += size() * leaf.itemsize_of(like)
        return 0

    return store_prefixes


def _scan(name: str, inclusive: bool):
    """The scan ``name`` at all scopes."""
    types = leaf.require("s")

    last = "the caller" if inclusive else "the one before"

    @scoped(name, grid=True, last=last)
    def make(scope: Scope):
        staged = make_staged(scope, _SCAN, _make_store_prefixes(scope, inclusive))
        small = make_small(scope, _SCAN, _make_scan_pieces(scope, inclusive))
        enter, by_ll = steps(scope)[0], makes_ll(scope)

        def scan(team, dest, source, nelems):
            """Sums over the team's PEs 0 to {last}.

            ``dest`` may be ``source``.
            Completes: ``dest`` holds the sums and ``source`` may be changed, on return.
            Spec: shmem_{name} (OpenSHMEM 1.6).
            """
            types(dest)
            nelems, row = to_int64(nelems), enter(team, _SCAN)
            if row == 0:
                return
            nbytes, d, s = nelems * leaf.itemsize_of(dest), address_of(dest), address_of(source)
            if by_ll(row, nbytes):
                small(row, dest, source, nelems)
            elif both_usable(dest, nelems, source, nelems, _SCAN):
                staged(row, d, s, 0, nbytes, dest)

        return scan


for _name in FAMILY_OF:
    _reduction(_name)
_scan("sum_inscan", True)
_scan("sum_exscan", False)
