# SPDX-License-Identifier: BSD-3-Clause
"""How the members of a team meet in a kernel, and how they spread bytes among each other.

Every member has a flag of every other's. Round e of a team is everybody raising their flag at
all others to e, and waiting until all others' flags have reached it. Numbers only rise: nothing is
reset, and a member that is a round ahead does no harm. Where members are far, and more than a node
has, they have a flag a turn instead: in turn t a member hears from the one 2^t in front of it, which
has heard from as many before, and so after log2(n) turns of all.

Flags of far members go by one ring, the team's: two blocks that take turns in a team's calls have rings
of their own, and the older flag could be set last. What a round tells of is complete when its flags are
raised: transfers of collectives have their replies by then, and a barrier's ``quiet`` is over.
"""

from collections.abc import Callable

from .. import copies
from ..faults import ROUTINE_BITS
from ..groups import Scope, quotient
from ..leaf import backend as leaf
from ..leaf.backend import device_function, outline, rare, read64, state, stride, write64
from ..peers import all_p2p, distance_to, is_p2p, my_pe
from ..ring.cutover import may_offload_put, offloads_put
from ..ring.requests import RELEASE, SPREAD, ask
from ..ring.transport import ring_put, store_flag
from ..state import DELTA
from ..wait_loop import reached_soon, wait_word
from . import rows
from .rows import member_pe, row_my_pe, row_n_pes


@device_function
def other_member(row: int, k: int) -> int:
    """The member ``k`` behind the caller, so that no one is everybody's first."""
    member = row_my_pe(row) + k
    if member >= row_n_pes(row):
        member -= row_n_pes(row)
    return member


@rare
def _await_from(row: int, flags: int, k: int, size: int, epoch: int, waited_op: int) -> int:
    """Until the others from ``k`` on, a lane's share of them, have raised their flags."""
    while k < row_n_pes(row):
        member = other_member(row, k)
        wait_word(flags + 8 * member, epoch, waited_op, member_pe(row, member))
        k += size
    return 0


@device_function
def _raise_all(row: int, flags: int, rank: int, size: int, epoch: int) -> None:
    slot, k = rows.team_number(row) - 1, rank + 1
    while k < row_n_pes(row):
        store_flag(slot, flags + 8 * row_my_pe(row), epoch, member_pe(row, other_member(row, k)))
        k += size


@rare
def _take_turns(row: int, flags: int, rank: int, epoch: int, waited_op: int) -> int:
    """One lane does it all; what it has heard of is released with its next flag."""
    members, step, flag = row_n_pes(row), 1, flags
    slot = rows.team_number(row) - 1
    while rank == 0 and step < members:
        store_flag(slot, flag, epoch, member_pe(row, other_member(row, step)))
        front = other_member(row, members - step)
        wait_word(flag, epoch, waited_op, member_pe(row, front))
        leaf.fence()
        flag += 8
        step += step
    return 0


@rare
def _sync_by_proxy(row: int, flags: int, rank: int, size: int, epoch: int, waited_op: int) -> int:
    """A round in a job with PEs that are reached by the ring."""
    if rows.syncs_in_rounds(row):
        return _take_turns(row, flags, rank, epoch, waited_op)
    _raise_all(row, flags, rank, size, epoch)
    return _await_from(row, flags, rank + 1, size, epoch, waited_op)


def make_sync(raise_flag: Callable[[int, int], None], number_of: Callable[[int], int]):
    """``f(row, flags, rank, size, count, waited_op)``: a round of flags.

    ``raise_flag(flag, count)`` raises a flag, ``number_of(count)`` is the round's number.
    """

    @device_function
    def sync_team(row: int, flags: int, rank: int, size: int, count: int, waited_op: int) -> None:
        """The lanes share the other members: raise the flag at each, and wait for theirs.

        What the group stored before it met is released; it meets afterwards. Whatever is not the
        usual case goes on in another function for good: values that live on across a call are kept
        in local memory, which the fence throws out of the cache.
        """
        members = row_n_pes(row)
        k = rank + 1
        # One branch: from the last flag seen to the next fence others wait.
        if (k < members) & all_p2p():
            mine = flags + 8 * row_my_pe(row)
            step = stride(size)
            first = mine + state(DELTA + member_pe(row, other_member(row, k)))
            leaf.fence()
            raise_flag(first, count)
            k += step
            while k < members:
                raise_flag(mine + state(DELTA + member_pe(row, other_member(row, k))), count)
                k += step
            k = rank + 1
            epoch = number_of(count)
            while True:
                if not reached_soon(flags + 8 * other_member(row, k), epoch):
                    _await_from(row, flags, k, size, epoch, waited_op)
                    return
                k += step
                if k >= members:
                    return
        elif k < members:
            leaf.fence()
            _sync_by_proxy(row, flags, rank, size, number_of(count), waited_op)

    return sync_team


_all_raise = make_sync(write64, device_function(lambda count: count))


@device_function
def waited_op(row: int, op: int) -> int:
    """What reports of waits name: the routine and the team."""
    return op | rows.team_number(row) << ROUTINE_BITS


@device_function
def raise_flags(row: int, rank: int, size: int, epoch: int) -> None:
    """The lanes share the other members; what the group stored before it met is released."""
    if rank + 1 < row_n_pes(row):
        leaf.fence()
    _raise_all(row, rows.row_flags(row), rank, size, epoch)


@device_function
def await_flag(row: int, member: int, epoch: int, op: int) -> None:
    """Until one member has raised its flag."""
    wait_word(rows.row_flags(row) + 8 * member, epoch, waited_op(row, op), member_pe(row, member))


@device_function
def _round(row: int, rank: int, size: int, epoch: int, op: int) -> int:
    """Everybody raises their flags and waits for the others'."""
    _all_raise(row, rows.row_flags(row), rank, size, epoch, waited_op(row, op))
    return 0


@device_function
def begin_call(row: int, op: int, rank: int) -> int:
    """A group that has met begins a collective: the number of the team's last round."""
    if rank == 0:
        rows.claim_row(row, op)
    return read64(rows.row_epoch(row))


@rare
def _ask_each(row, but, dest, source, step, nbytes, rank, size) -> int:
    """A lane asks for the copy to a member, of all ``but`` one, or with -1 of those that are far.

    The copies fly together. What is in its place at the caller is there already.
    """
    member = rank
    while member < row_n_pes(row):
        pe = member_pe(row, member)
        begin = source + member * step
        there = pe == my_pe() and begin == dest
        if member != but and (but >= 0 or not is_p2p(pe)) and not there:
            ring_put(dest, begin, nbytes, pe, False)
        member += size
    return 0


@rare
def _push_in_turn(row, dest, source, step, nbytes, rank, size) -> int:
    """All lanes copy to one near member after the other."""
    member = 0
    while member < row_n_pes(row):
        pe = member_pe(row, member)
        if is_p2p(pe):
            copies.push(dest + distance_to(pe), source + member * step, nbytes, rank, size)
        member += 1
    return 0


@rare
def _ask_by_proxy(row, dest, source, step, nbytes, rank, size) -> int:
    """A lane asks for the copy to a far member, or one lane for what is the same for all.

    That goes to each node once, where PEs of a node are near.
    """
    if step != 0 or not is_p2p(my_pe()):
        _ask_each(row, -1, dest, source, step, nbytes, rank, size)
    elif rank == 0 and nbytes > 0:
        ask(SPREAD | RELEASE, dest, source, nbytes, rows.team_number(row) - 1, 0, my_pe())
    return 0


@device_function
def _spread(row: int, dest: int, source: int, step: int, nbytes: int, rank: int, size: int) -> int:
    """``nbytes`` from ``source + m * step`` to ``dest`` at every member m, all at once."""
    members = row_n_pes(row)
    if not rows.row_is_p2p(row):
        # They branch off here: a warp whose lanes only do so inside of a call was seen not to meet.
        if rank < row_n_pes(row):
            _ask_by_proxy(row, dest, source, step, nbytes, rank, size)
        return _push_in_turn(row, dest, source, step, nbytes, rank, size)
    me = row_my_pe(row)
    # The proxy takes its time for each request, hence the weight of their number. The first
    # comparison is for few bytes, which must not pay for a division.
    work = 2 * nbytes
    if may_offload_put(work) and offloads_put(work - quotient(work, members), size, source):
        # A warp asks; the others copy the own part, as for a copy within a GPU the driver may want
        # a kernel, which a full GPU has no room for.
        askers = 32 if size > 64 else size
        if rank < askers:
            _ask_each(row, me, dest, source, step, nbytes, rank, askers)
        member, at, lanes = me, rank, size
        if size > 64:
            at -= askers
            lanes -= askers
    elif size < members:
        return _push_in_turn(row, dest, source, step, nbytes, rank, size)
    else:
        lanes = quotient(size, members)
        turn = quotient(rank, lanes)
        member, at = turn + me, rank - turn * lanes
        if turn >= members:
            at = -1
        elif member >= members:  # members begin with their neighbours: no one is everybody's first
            member -= members
    if at >= 0:
        to = dest + distance_to(member_pe(row, member))
        copies.push(to, source + member * step, nbytes, at, lanes)
    return 0


_OUTLINED = outline(_round), outline(_spread)


def outlined(scope: Scope):
    """How the larger chunks of collectives are made: as calls, but see ``steps``."""
    return device_function if scope.suffix == "_warp" else outline


def steps(scope: Scope) -> tuple:
    """What collectives are made of, from ``enter`` to ``finish``.

    The larger ones are calls, so that kernels do not need many registers.
    Not for warps: behind a call the assembler takes a warp for converged and leaves out its barrier,
    while lanes may still be inside (seen with CUDA 13.0 on sm_90).
    """
    rank, size, sync = scope.rank, scope.size, scope.sync
    round_of_flags, spread = (_round, _spread) if scope.suffix == "_warp" else _OUTLINED

    @device_function
    def enter(team, op):
        """The group meets; the team's row, or 0 and a fault."""
        sync()
        return rows.team_row(team, op)

    @device_function
    def start(row, op):
        """The number of the group's first round."""
        return begin_call(row, op, rank()) + 1

    @device_function
    def finish(row, epoch):
        """The group meets behind what its lanes waited for; the leader counts them; -1: none began."""
        sync()
        if (epoch >= 0) & (rank() == 0):
            write64(rows.row_epoch(row), epoch)
            rows.claim_row(row, -1)

    @device_function
    def send(row, dest, source, step, nbytes):
        """``nbytes`` from ``source + m * step`` to ``dest`` at every member m."""
        spread(row, dest, source, step, nbytes, rank(), size())

    @device_function
    def sync_members(row, epoch, op):
        """A round of a group that has met."""
        round_of_flags(row, rank(), size(), epoch, op)
        sync()

    @device_function
    def end(row, epoch, op):
        """The last round, which the leader then counts."""
        sync()
        round_of_flags(row, rank(), size(), epoch, op)
        finish(row, epoch)

    return enter, start, send, sync_members, end, finish
