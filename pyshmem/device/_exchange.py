# SPDX-License-Identifier: BSD-3-Clause
"""How the members of a team meet in a kernel, and how they spread bytes among each other.

Every member has a flag of every other's. Exchange number e of a team is everybody raising their flag at
all others to e, and waiting until all others' flags have reached it. Numbers only rise: nothing is
reset, and a member that is an exchange ahead does no harm.
"""

from . import _backend, _copy
from ._backend import cold, device_function, outline, state, stride, write64
from ._cutover import offloads_put
from ._faults import ROUTINE_BITS
from ._groups import Scope, quotient
from ._peers import near
from ._state import DELTA
from ._teams import meets_in, row_epoch, row_flags, row_my_pe, row_n_pes, world_pe
from ._transport import ring_put, store_word
from ._wait import reached_soon, wait_word

_fence = _backend.fence


@cold
def _meet_far(row: int, flags: int, step: int, rank: int, size: int, epoch: int, told: int) -> int:
    """``meet`` where peers are reached by the ring."""
    mine = flags + step * row_my_pe(row)
    member = rank
    while member < row_n_pes(row):
        if member != row_my_pe(row):
            store_word(mine, epoch, world_pe(row, member))
        member += size
    _await_from(row, flags, step, rank, size, epoch, told)
    return 0


@device_function
def _await_from(
    row: int, flags: int, step: int, member: int, size: int, epoch: int, told: int
) -> int:
    """Until all others from ``member`` on, a lane's share of them, have raised their flags."""
    while member < row_n_pes(row):
        if member != row_my_pe(row):
            wait_word(flags + step * member, epoch, told, world_pe(row, member))
        member += size
    return 0


_await_longer = cold(_await_from)


@device_function
def meet(row: int, flags: int, step: int, rank: int, size: int, epoch: int, told: int) -> None:
    """The lanes share the other members: raise the flag at each, and wait for theirs.

    Flags are ``step`` bytes apart. What the group stored before it met is released; it meets
    afterwards. Whatever is not the usual case goes on in another function for good: values that live
    on across a call are kept in local memory, which the fence throws out of the cache.
    """
    members, me = row_n_pes(row), row_my_pe(row)
    if rank < members:
        _fence()
    if not near():
        _meet_far(row, flags, step, rank, size, epoch, told)
        return
    mine = flags + step * me
    member = rank
    while member < members:
        if member != me:
            write64(mine + state(DELTA + world_pe(row, member)), epoch)
        member += stride(size)
    member = rank
    while member < members:
        if member != me and not reached_soon(flags + step * member, epoch):
            _await_longer(row, flags, step, member, size, epoch, told)
            return
        member += stride(size)


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
    meet(row, row_flags(row), 8, rank, size, epoch, _told(row, op))
    return 0


@device_function
def _spread(
    row: int, dest: int, source: int, source_step: int, nbytes: int, rank: int, size: int, op: int
) -> int:
    """``nbytes`` from ``source + m * source_step`` to ``dest`` at every member m, all at once."""
    members, me = row_n_pes(row), row_my_pe(row)
    # The proxy takes its time for each request, hence the weight of their number.
    if not near():
        member = rank
        while member < members:  # a lane asks for each
            ring_put(dest, source + member * source_step, nbytes, world_pe(row, member), False)
            member += size
    elif offloads_put(2 * nbytes - quotient(2 * nbytes, members), size, source):
        # A warp asks, and copies to all fly together; the others copy the own part. (For a copy
        # within a GPU the driver may want a kernel, which a full GPU has no room for.)
        askers = min(size, 32) if size > 64 else size
        own = source + me * source_step
        if size <= 64:
            _copy.push(dest, own, nbytes, rank, size)
        elif rank >= askers:
            _copy.push(dest, own, nbytes, rank - askers, size - askers)
        member = rank
        while rank < askers and member < members:
            if member != me:
                pe = world_pe(row, member)
                ring_put(dest, source + member * source_step, nbytes, pe, False)
            member += askers
    elif size < members:
        member = 0
        while member < members:
            to = dest + state(DELTA + world_pe(row, member))
            _copy.push(to, source + member * source_step, nbytes, rank, size)
            member += 1
    else:
        lanes = quotient(size, members)
        turn = quotient(rank, lanes)
        if turn < members:
            # Members begin with their neighbours, so that no one is everybody's first.
            member = turn + me
            if member >= members:
                member -= members
            to = dest + state(DELTA + world_pe(row, member))
            _copy.push(to, source + member * source_step, nbytes, rank - turn * lanes, lanes)
    return 0


_exchange_apart, _spread_apart = cold(_exchange), cold(_spread)


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
