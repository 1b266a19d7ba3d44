# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in a step, in kernels of one program: all members agree, though some may be stopped.

A step is a dispatch and a combine, each an operation with a number, odd and even. In an operation a
member stores what it has to say to the others, *commits*, and waits for the others' commits. Who has not
committed in time is *left out* by one that has. Whether a member is in is decided once, by
compare-and-swap on one word in its own memory, which answers even if the member does not: it commits by
raising the word to the operation's number, and is left out by another one's raising it first. So all
that have committed find the same members; those they do not find know it by their own word.

Words of the block, int64. A number of an operation is above bit 20; below, ``BITS`` are of members.

- ``MEMBER``: the last operation of which is decided whether this PE is in, what was decided, and, in a
  commit, members that are to join behind it, which stay there when the member is left out of the next
  operation. Changed by compare-and-swap alone, by all: a commit releases what the member has stored for
  others; who reads it acquires.
- ``VIEW``: the last operation in which this PE was in, and who is absent from the next. Written by the
  PE, with release; read with acquire by members that are out.
- ``COMMITS``: for both parities of operations and for each member its commit, a copy of its ``MEMBER``:
  set by it with release behind its compare-and-swap, read with acquire. Two, since a member may commit
  the next operation before this one's is read; not the one after it, for that has to know of this PE's.
- ``OUT``, ``STEPS`` and ``ABSENCES`` are the PE's own.

A member is back at the end of a step: it asks in its own word (``ASKS``), who sees that in a combine
says so in its commit, and so all know it who have that commit. It learns of it from a ``VIEW`` that is
not older than its being left out, in which it is not absent.

What members store for each other needs no more than that. They store for those that are in the last
operation, so for who has committed it, and is done with what came in the one before: two halves suffice.
A stopped member's own stores, however late, go where it alone stores, and are read once it has committed
again, behind them.
"""

import triton
import triton.language as tl

from ....triton.primitives.backend import (
    device_function,
    fetch,
    now,
    program_barrier,
    reach,
    release_set,
    yield_turn,
)
from ....triton.requests import abort_with
from ....triton.runtime.constants import ALLTOALL, SIGNAL_OP, SIGNAL_SET
from ....triton.signals import signal_op
from ....triton.teams import place_in, team_row, world_pe
from ....triton.tile import atomic_cas
from ..._shared.slots_kernels import Members

MEMBER, VIEW, OUT, STEPS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
COMMITS, ABSENCES = tl.constexpr(16), tl.constexpr(48)
WORDS = 64
#: Most members: bits of a word.
MOST = tl.constexpr(16)
BITS = tl.constexpr((1 << 16) - 1)
_STATE, _KIND, _NUMBER = tl.constexpr(16), tl.constexpr(18), tl.constexpr(20)
_IN, _LEFT_OUT, _ASKS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# In a word: left out, what asking adds to that, and that an operation is a combine.
_OUT_WORD, _ASKING, _COMBINE = tl.constexpr(1 << 16), tl.constexpr(1 << 16), tl.constexpr(1 << 18)
# Of the limit: the most that one turn of a wait counts, for the program may have been stopped in it.
_PART = tl.constexpr(16)


@device_function
def number_in(word):
    """The operation's number."""
    return word >> _NUMBER


@device_function
def next_operation(word):
    """The plan, or view, with the next number."""
    return word + (tl.cast(1, tl.int64) << _NUMBER)


@device_function
def is_absent(word, member):
    """Whether the member's bit is set in a plan or a view."""
    return (word >> member) & 1 != 0


@device_function
def members_of(TEAM: tl.constexpr, ctx):
    """The team in this kernel."""
    row = team_row(TEAM, ALLTOALL, ctx)
    me, n_pes = place_in(TEAM, row, ctx)
    return Members(row, me, n_pes)


@device_function
def _state(word):
    return (word >> _STATE) & 3


@device_function
def _word_of(words, at: tl.constexpr, member, members, ctx, TEAM: tl.constexpr):
    """A member's word, with acquire."""
    return fetch(reach(words + at, 8, world_pe(TEAM, members.row, member), SIGNAL_OP, ctx))


@device_function
def _swap(words, member, seen, wanted, members, ctx, TEAM: tl.constexpr):
    """``MEMBER`` of a member is ``wanted``, if it was ``seen``; what it was."""
    return atomic_cas(words + MEMBER, seen, wanted, world_pe(TEAM, members.row, member), ctx)


@device_function
def _alone(members):
    """The plan of who is out: no operation, all others are absent."""
    everyone = (tl.cast(1, tl.int64) << members.n_pes) - 1
    return everyone & ~(tl.cast(1, tl.int64) << members.me)


@device_function
def _tick(elapsed, last, limit):
    """One turn of a wait: what has elapsed, and the time. Who was stopped has not waited meanwhile."""
    yield_turn()
    time = now()
    return elapsed + tl.minimum(time - last, limit // _PART + 1), time


@device_function
def _say(plan, step):
    """Of which operation a step is, and without whom; behind it the number of the step, 0 of none."""
    tl.store(plan, step)
    tl.store(plan + 1, (number_in(step) + 1) >> 1)


# ---- at the start of a step ------------------------------------------------------------------------


@device_function
def _ask(words, limit, members, ctx, TEAM: tl.constexpr):
    """Wait until the others let this PE in again: their view, or -1 if they do not in time."""
    me = members.me
    elapsed, last = tl.cast(0, tl.int64), now()
    found = tl.cast(-1, tl.int64)
    while (found < 0) & (elapsed < limit):
        mine = fetch(words + MEMBER)
        if _state(mine) == _LEFT_OUT:
            _swap(words, me, mine, mine + _ASKING, members, ctx, TEAM)
        for k in range(members.n_pes - 1):
            other = (me + 1 + k) % members.n_pes
            seen = _word_of(words, VIEW, other, members, ctx, TEAM)
            lets_in = (number_in(seen) >= number_in(mine)) & ~is_absent(seen, me)
            found = tl.maximum(found, tl.where(lets_in, seen, -1))
        elapsed, last = _tick(elapsed, last, limit)
    mine = fetch(words + MEMBER)
    if (found < 0) & (_state(mine) == _ASKS):  # nobody is to wait for it
        _swap(words, me, mine, mine - _ASKING, members, ctx, TEAM)
    return found


@triton.jit(do_not_specialize=["limit"])
def begin_step(plan, words, limit, ctx, TEAM: tl.constexpr):
    """The plan of a dispatch: its number, and who is absent. Who is out asks first, for ``limit`` ns."""
    members = members_of(TEAM, ctx)
    view = tl.load(words + VIEW)
    left_out = number_in(fetch(words + MEMBER)) > number_in(view)
    if left_out | (tl.load(words + OUT) != 0):
        view = _ask(words, limit, members, ctx, TEAM)
        if view >= 0:
            release_set(words + VIEW, view)
        program_barrier()
        tl.store(words + OUT, tl.where(view < 0, 1, 0).to(tl.int64))
    step = tl.where(view < 0, _alone(members), next_operation(view))
    _say(plan, step)


# ---- at the end of each operation ------------------------------------------------------------------


@device_function
def _who_asks(words, absent, members, ctx, TEAM: tl.constexpr):
    """Bits of absent members that want to join."""
    asking = tl.cast(0, tl.int64)
    for other in range(members.n_pes):
        if is_absent(absent, other):
            asks = _state(_word_of(words, MEMBER, other, members, ctx, TEAM)) == _ASKS
            asking |= asks.to(tl.int64) << other
    return asking


@device_function
def _commit(words, number, said, members, ctx, TEAM: tl.constexpr):
    """This PE is in, unless another one was faster; whether it is."""
    mine = fetch(words + MEMBER)
    is_in = number_in(mine) < number
    if is_in:
        is_in = _swap(words, members.me, mine, said, members, ctx, TEAM) == mine
    return is_in


@device_function
def _leave_out(words, commits, said, other, members, ctx, TEAM: tl.constexpr):
    """A member has not committed in time: it is out, unless it was faster; the word that decides.

    Others may be further, if this PE was stopped, and have left out the member from the next operation:
    then it was in this one. What it said stays in the word. If it has committed since, its own signal
    of this operation is here: it was sent before. So is none, if it was left out.
    """
    number = number_in(said)
    seen = _word_of(words, MEMBER, other, members, ctx, TEAM)
    while number_in(seen) < number:  # meanwhile it may ask, or stop asking
        out = (number << _NUMBER) | _OUT_WORD | (seen & BITS)
        before = _swap(words, other, seen, out, members, ctx, TEAM)
        seen = tl.where(before == seen, out, before)
    if (number_in(seen) == number + 1) & (_state(seen) != _IN):
        seen = (said & ~BITS) | (seen & BITS)
    elif number_in(seen) > number:
        seen = fetch(commits + other)
    return seen


@device_function
def _collect(words, said, absent, limit, members, ctx, TEAM: tl.constexpr):
    """Once all have committed, or are left out: who is absent, and who joins."""
    number = number_in(said)
    commits = words + COMMITS + (number & 1) * MOST
    joining = said & BITS
    elapsed, last = tl.cast(0, tl.int64), now()
    for k in range(members.n_pes - 1):
        other = (members.me + 1 + k) % members.n_pes
        if ~is_absent(absent, other):
            seen = fetch(commits + other)
            while (number_in(seen) != number) & (elapsed < limit):
                elapsed, last = _tick(elapsed, last, limit)
                seen = fetch(commits + other)
            if number_in(seen) != number:
                seen = _leave_out(words, commits, said, other, members, ctx, TEAM)
            if (number_in(seen) == number) & (_state(seen) == _IN):
                joining |= seen & BITS
                if ((seen ^ said) >> _KIND) & 1 != 0:
                    abort_with(1, ctx, "another call by member #", other, number)
            else:
                absent |= tl.cast(1, tl.int64) << other
    return absent, joining


@device_function
def _tell(words, number, said, absent, members, ctx, TEAM: tl.constexpr):
    """A commit goes to all that may take part."""
    mine = words + COMMITS + (number & 1) * MOST + members.me
    for k in range(members.n_pes - 1):
        other = (members.me + 1 + k) % members.n_pes
        if ~is_absent(absent, other):
            signal_op(mine, said, SIGNAL_SET, world_pe(TEAM, members.row, other), ctx)


@triton.jit(do_not_specialize=["limit"])
def end_operation(plan, mask, words, limit, ctx, TEAM: tl.constexpr, COMBINE: tl.constexpr):
    """Commit, and agree on who is absent: ``plan`` and ``mask`` say so.

    The others have ``limit`` ns from the commit on. Who is in no operation, or is left out of this, is
    alone in what is left of the step.
    """
    members = members_of(TEAM, ctx)
    before = tl.load(plan)
    number, absent = number_in(before), before & BITS
    after = before
    if number != 0:
        number += COMBINE
        said = number << _NUMBER
        if COMBINE != 0:
            said |= _COMBINE | _who_asks(words, absent, members, ctx, TEAM)
        if _commit(words, number, said, members, ctx, TEAM):
            _tell(words, number, said, absent, members, ctx, TEAM)
            absent, joining = _collect(words, said, absent, limit, members, ctx, TEAM)
            after = (number << _NUMBER) | absent
            release_set(words + VIEW, after & ~joining)
        else:
            after = _alone(members)
            tl.store(words + OUT, tl.cast(1, tl.int64))
    _say(plan, after)
    indices = tl.arange(0, MOST)
    missing = (after >> indices) & 1
    inside = indices < members.n_pes
    tl.store(mask + indices, (1 - missing).to(tl.uint8), mask=inside)
    if COMBINE != 0:
        counted = tl.load(words + ABSENCES + indices, mask=inside, other=0)
        tl.store(words + ABSENCES + indices, counted + missing, mask=inside)
        tl.store(words + STEPS, tl.load(words + STEPS) + 1)
