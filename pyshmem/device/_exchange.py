# SPDX-License-Identifier: BSD-3-Clause
"""How the members of a team meet in a kernel, and how they spread bytes among each other.

Every member has a flag of every other's. Exchange number e of a team is everybody raising their flag at
all others to e, and waiting until all others' flags have reached it. Numbers only rise: nothing is
reset, and a member that is an exchange ahead does no harm.
"""

from . import _backend, _copy
from ._backend import device_function, outline, rare, state, stride, write64
from ._cutover import offloads_put
from ._faults import ROUTINE_BITS
from ._groups import Scope, quotient
from ._peers import near
from ._state import CUTOVER_PUT_MIN, DELTA, MY_PE, N_PES
from ._teams import meets_in, row_epoch, row_flags, row_my_pe, row_n_pes, world_pe
from ._transport import ring_put, store_word
from ._wait import reached_soon, wait_word

_fence = _backend.fence


def _make_meet(members_of, my_pe_of, pe_of):
    """``meet`` for teams whose rows these read."""

    @device_function
    def other(row: int, k: int) -> int:
        """The member ``k`` behind the caller, so that no one is everybody's first."""
        member = my_pe_of(row) + k
        if member >= members_of(row):
            member -= members_of(row)
        return member

    @device_function
    def await_from(
        row: int, flags: int, apart: int, k: int, size: int, epoch: int, told: int
    ) -> int:
        """Until the others from ``k`` on, a lane's share of them, have raised their flags."""
        while k < members_of(row):
            member = other(row, k)
            wait_word(flags + apart * member, epoch, told, pe_of(row, member))
            k += size
        return 0

    @rare
    def meet_far(
        row: int, flags: int, apart: int, rank: int, size: int, epoch: int, told: int
    ) -> int:
        """``meet`` where peers are reached by the ring."""
        k = rank + 1
        while k < members_of(row):
            store_word(flags + apart * my_pe_of(row), epoch, pe_of(row, other(row, k)))
            k += size
        return await_from(row, flags, apart, rank + 1, size, epoch, told)

    await_longer = rare(await_from)

    @device_function
    def meet(row: int, flags: int, apart: int, rank: int, size: int, epoch: int, told: int) -> None:
        """The lanes share the other members: raise the flag at each, and wait for theirs.

        Flags are ``apart`` bytes apart. What the group stored before it met is released; it meets
        afterwards. Whatever is not the usual case goes on in another function for good: values
        that live on across a call are kept in local memory, which the fence throws out of the cache.
        """
        members = members_of(row)
        if rank + 1 < members:
            _fence()
        if not near():
            meet_far(row, flags, apart, rank, size, epoch, told)
            return
        mine = flags + apart * my_pe_of(row)
        step = stride(size)
        k = rank + 1
        while k < members:
            write64(mine + state(DELTA + pe_of(row, other(row, k))), epoch)
            k += step
        k = rank + 1
        while k < members:
            if not reached_soon(flags + apart * other(row, k), epoch):
                await_longer(row, flags, apart, k, size, epoch, told)
                return
            k += step

    return meet


@device_function
def _world_members(row: int) -> int:
    return state(N_PES)


@device_function
def _world_my_pe(row: int) -> int:
    return state(MY_PE)


@device_function
def _same(row: int, pe: int) -> int:
    return pe


#: Of all PEs, whose numbers are at hand, without a row; and of a team.
meet_all = _make_meet(_world_members, _world_my_pe, _same)
_meet = _make_meet(row_n_pes, row_my_pe, world_pe)


@device_function
def _told(row: int, op: int) -> int:
    return op | meets_in(row) << ROUTINE_BITS


@device_function
def raise_flags(row: int, rank: int, size: int, epoch: int) -> None:
    """The lanes share the other members; what the group stored before it met is released."""
    me = row_my_pe(row)
    if rank < row_n_pes(row):
        _fence()
    member = rank
    while member < row_n_pes(row):
        if member != me:
            store_word(row_flags(row) + 8 * me, epoch, world_pe(row, member))
        member += size


@device_function
def await_flag(row: int, member: int, epoch: int, op: int) -> None:
    """Until one member has raised its flag."""
    wait_word(row_flags(row) + 8 * member, epoch, _told(row, op), world_pe(row, member))


@device_function
def _exchange(row: int, rank: int, size: int, epoch: int, op: int) -> int:
    """Everybody's flags."""
    _meet(row, row_flags(row), 8, rank, size, epoch, _told(row, op))
    return 0


@rare
def _ask_engine(
    row: int, dest: int, source: int, source_step: int, nbytes: int, rank: int, size: int
) -> int:
    """For a copy to each other member; they fly together."""
    member = rank
    while member < row_n_pes(row):
        if member != row_my_pe(row):
            ring_put(dest, source + member * source_step, nbytes, world_pe(row, member), False)
        member += size
    return 0


@rare
def _spread_otherwise(
    row: int, dest: int, source: int, source_step: int, nbytes: int, rank: int, size: int
) -> int:
    """By the ring, where a lane asks for each member; or by fewer lanes than members."""
    member = 0 if near() else rank
    while member < row_n_pes(row):
        begin = source + member * source_step
        if near():
            _copy.push(dest + state(DELTA + world_pe(row, member)), begin, nbytes, rank, size)
            member += 1
        else:
            ring_put(dest, begin, nbytes, world_pe(row, member), False)
            member += size
    return 0


@device_function
def _spread(
    row: int, dest: int, source: int, source_step: int, nbytes: int, rank: int, size: int
) -> int:
    """``nbytes`` from ``source + m * source_step`` to ``dest`` at every member m, all at once."""
    members = row_n_pes(row)
    if not near():
        return _spread_otherwise(row, dest, source, source_step, nbytes, rank, size)
    me = row_my_pe(row)
    # The proxy takes its time for each request, hence the weight of their number. The first
    # comparison is for few bytes, which must not pay for a division.
    many = 2 * nbytes >= state(CUTOVER_PUT_MIN)
    if many and offloads_put(2 * nbytes - quotient(2 * nbytes, members), size, source):
        # A warp asks; the others copy the own part, as for a copy within a GPU the driver may want
        # a kernel, which a full GPU has no room for.
        askers = 32 if size > 64 else size
        if rank < askers:
            _ask_engine(row, dest, source, source_step, nbytes, rank, askers)
        member, at, lanes = me, rank, size
        if size > 64:
            at -= askers
            lanes -= askers
    elif size < members:
        return _spread_otherwise(row, dest, source, source_step, nbytes, rank, size)
    else:
        lanes = quotient(size, members)
        turn = quotient(rank, lanes)
        member, at = turn + me, rank - turn * lanes
        if turn >= members:
            at = -1
        elif member >= members:  # members begin with their neighbours: no one is everybody's first
            member -= members
    if at >= 0:
        to = dest + state(DELTA + world_pe(row, member))
        _copy.push(to, source + member * source_step, nbytes, at, lanes)
    return 0


_exchange_apart, _spread_apart = outline(_exchange), outline(_spread)


def apart(scope: Scope):
    """How the larger parts of collectives are made: as calls, but see ``parts``."""
    return device_function if scope.suffix == "_warp" else outline


def parts(scope: Scope) -> tuple:
    """``exchange`` and ``spread`` for groups of the scope.

    They are calls, so that kernels do not need many registers.
    Not for warps: behind a call the assembler takes a warp for converged and leaves out its barrier,
    while lanes may still be inside (seen with CUDA 13.0 on sm_90).
    """
    if scope.suffix == "_warp":
        return _exchange, _spread
    return _exchange_apart, _spread_apart


def ending(scope: Scope):
    """``f(row, epoch, op)``: the exchange at the end of a collective, which the leader then counts."""
    rank, size, sync = scope.rank, scope.size, scope.sync
    exchange, _ = parts(scope)

    @device_function
    def end(row, epoch, op):
        sync()
        exchange(row, rank(), size(), epoch, op)
        sync()
        if rank() == 0:
            write64(row_epoch(row), epoch)

    return end
