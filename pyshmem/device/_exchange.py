# SPDX-License-Identifier: BSD-3-Clause
"""How the members of a team meet in a kernel, and how they spread bytes among each other.

Every member has a flag of every other's. Exchange number e of a team is everybody raising their flag at
everybody to e, and waiting until all their own flags have reached it. Numbers only rise: nothing is
reset, and a member that is an exchange ahead does no harm.
"""

from __future__ import annotations

from typing import Any

from . import _backend, _copy
from ._backend import cold, device_function, outline, state, write64
from ._cutover import offloads_put
from ._faults import ROUTINE_BITS
from ._groups import Scope
from ._peers import near
from ._state import DELTA
from ._teams import meets_in, row_epoch, row_flags, row_my_pe, row_n_pes, world_pe
from ._transport import ring_put, store_word
from ._wait import CMP_GE, wait_word

_fence = _backend.fence


@device_function
def raise_flags(row: int, rank: int, size: int, epoch: int) -> None:
    """The lanes share the members; what the group stored before it met is released."""
    members = row_n_pes(row)
    mine = row_flags(row) + 8 * row_my_pe(row)
    if rank < members:
        _fence()
    member = rank
    while member < members:
        store_word(mine, epoch, world_pe(row, member))
        member += size


@device_function
def await_flag(row: int, member: int, epoch: int, op: int) -> None:
    """Until one has raised theirs."""
    told = op | meets_in(row) << ROUTINE_BITS
    wait_word(row_flags(row) + 8 * member, 0, CMP_GE, epoch, told, world_pe(row, member))


@device_function
def await_flags(row: int, rank: int, size: int, epoch: int, op: int) -> None:
    """Until all have; the group meets afterwards."""
    members, flags, told = row_n_pes(row), row_flags(row), op | meets_in(row) << ROUTINE_BITS
    member = rank
    while member < members:
        wait_word(flags + 8 * member, 0, CMP_GE, epoch, told, world_pe(row, member))
        member += size


@device_function
def _exchange(row: int, rank: int, size: int, epoch: int, op: int) -> int:
    """Both."""
    raise_flags(row, rank, size, epoch)
    await_flags(row, rank, size, epoch, op)
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
    elif offloads_put((members - 1) * nbytes * 2 // members, size, source):
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
        lanes = size // members
        turn = rank // lanes
        if turn < members:
            # Members begin with their neighbours, so that no one is everybody's first.
            member = (turn + me) % members
            to = dest + state(DELTA + world_pe(row, member))
            _copy.push(to, source + member * source_step, nbytes, rank - turn * lanes, lanes)
    return 0


_exchange_apart, _spread_apart = cold(_exchange), cold(_spread)


def apart(scope: Scope) -> Any:
    """How the larger parts of collectives are made: as calls, but see ``parts``."""
    return device_function if scope.suffix == "_warp" else outline


def parts(scope: Scope) -> tuple[Any, Any]:
    """``exchange`` and ``spread`` for groups of the scope.

    They are calls, so that kernels do not need many registers.
    Not for warps: behind a call the assembler takes a warp for converged and leaves out its barrier,
    while lanes may still be inside (seen with CUDA 13.0 on sm_90).
    """
    if scope.suffix == "_warp":
        return _exchange, _spread
    return _exchange_apart, _spread_apart


def ending(scope: Scope) -> Any:
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
