# SPDX-License-Identifier: BSD-3-Clause
"""The one spin loop of the device library, and the comparisons it waits for."""

from .._core.contract import CMP
from .faults import CMP_SHIFT, FAULT_CHOICE, FAULT_TIMEOUT, GAVE_UP, record_fault
from .leaf import backend as leaf
from .leaf.backend import SIM, cold, device_function, opaque, read64, relax, state, to_int64
from .ring.requests import WAITING, tell
from .state import FAULT_CLAIM, MODULE, TIMEOUT_NS

CMP_EQ, CMP_NE, CMP_GT = CMP.EQ, CMP.NE, CMP.GT
CMP_GE, CMP_LT, CMP_LE = CMP.GE, CMP.LT, CMP.LE

POLLS_PER_CHECK = 64 if SIM else 1024  # of the clock and of the fault word
#: When a wait is slow, and how often one of the PE's slow waits is reported to the host.
_SLOW_NS, _REPORT_EVERY_NS = 200_000_000, 250_000_000
_LAST_REPORT = 8  # the word behind FAULT_CLAIM: when the last one was reported
_NO_LIMIT = 1 << 61


@device_function
def is_comparison(cmp: int, op: int) -> bool:
    """Whether ``cmp`` is one of CMP_EQ to CMP_LE; else a fault, and nothing is to be waited for."""
    if cmp < CMP_EQ or cmp > CMP_LE:
        record_fault(FAULT_CHOICE, op, -1, cmp, CMP_LE)
        return False
    return True


@device_function
def holds(value, cmp: int, cmp_value) -> bool:
    """``value <cmp> cmp_value``, both of one dtype."""
    if cmp == CMP_EQ:
        return value == cmp_value
    if cmp == CMP_NE:
        return value != cmp_value
    if cmp == CMP_GT:
        return value > cmp_value
    if cmp == CMP_GE:
        return value >= cmp_value
    if cmp == CMP_LT:
        return value < cmp_value
    return value <= cmp_value


@device_function
def _report_wait(flags: int, op: int, pe: int, expected: int, seen: int) -> None:
    leaf.note_call()
    place = leaf.block_index() | leaf.thread_in_block() << 32
    tell(WAITING, op | flags, expected, seen, state(MODULE), place, pe & 0xFFFFFFFF)


@cold
def given_up(deadline: int, op: int, pe: int, expected: int, seen: int) -> int:
    """Deadline of the wait (0: none yet), or -1 when it must end.

    Reports slow waits to the host, one of the PE's at a time, so that everybody's reports name it.
    ``op``: the routine's number, and above ROUTINE_BITS what ``WAITING`` of the contract says.
    """
    limit, faults = state(TIMEOUT_NS), state(FAULT_CLAIM)
    if limit <= 0:
        limit = _NO_LIMIT
    if read64(faults) != 0:
        return -1
    time = leaf.now()
    if deadline == 0:
        return time + limit
    if time > deadline:
        if record_fault(FAULT_TIMEOUT, op, pe, expected, seen) != 0:
            _report_wait(GAVE_UP, op, pe, expected, seen)
        return -1
    last = faults + _LAST_REPORT
    is_due = deadline - time < limit - _SLOW_NS and time - read64(last) > _REPORT_EVERY_NS
    if is_due and time - leaf.claim(last, time) > _REPORT_EVERY_NS:
        _report_wait(0, op, pe, expected, seen)
    return deadline


@device_function
def go_on(deadline: int, polls: int, op: int, pe: int, expected: int, seen: int) -> int:
    """After a look in vain: the deadline of the wait, or -1 when it must end."""
    relax()
    if polls & (POLLS_PER_CHECK - 1) == 0:
        return given_up(deadline, op, pe, expected, seen)
    return deadline


@device_function
def wait(address: int, like, cmp: int, cmp_value, op: int, pe: int):
    """Spins until the element at ``address`` compares as asked; returns what it saw.

    What was stored before the release that made the comparison true is visible on return. Gives
    up after the timeout, and soon after any fault on this PE, so that one missing signal ends a
    kernel instead of costing a timeout for each of its waits. ``pe``: whom it waits for, or -1.
    """
    deadline, value = 0, cmp_value
    if not is_comparison(cmp, op):
        return leaf.read_acquire(address, like)
    while deadline >= 0:
        # Nothing but the poll in this loop: a wait's latency is that of its turns. The loads are
        # relaxed, which leaves the L1 cache to the block's other warps; the one after success is
        # there for its order only and drops the cache, so that what follows reads fresh. Its value
        # is unused, and on sm_90 the assembler leaves out the second trip to memory.
        polls = 0
        while polls < POLLS_PER_CHECK:
            value = leaf.read(address, like)
            if holds(value, cmp, cmp_value):
                leaf.read_acquire(address, like)
                return value
            relax()
            polls += opaque(1)  # opaque: unrolled, the loop falls out of the instruction cache
        asked = op | to_int64(cmp) << CMP_SHIFT
        deadline = given_up(deadline, asked, pe, to_int64(cmp_value), to_int64(value))
    return value


@device_function
def reached_soon(address: int, least: int) -> bool:
    """``wait_word`` for as long as waits usually take; False: it is to be gone on with by that."""
    polls = 0
    while polls < POLLS_PER_CHECK:
        if read64(address) >= least:
            leaf.read64_acquire(address)
            return True
        relax()
        polls += opaque(1)
    return False


@cold
def wait_word(address: int, least: int, op: int, pe: int) -> int:
    """``wait`` for one of the library's own int64 words, which only rise, to reach ``least``.

    A function of its own: what reports need would take registers from the collectives that call it.
    """
    deadline, polls, value = 0, 0, 0
    while deadline >= 0:
        value = read64(address)
        if value >= least:
            leaf.read64_acquire(address)
            return value
        polls += opaque(1)
        deadline = go_on(deadline, polls, op, pe, least, value)
    return value
