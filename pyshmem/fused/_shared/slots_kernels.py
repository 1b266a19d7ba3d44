# SPDX-License-Identifier: BSD-3-Clause
"""Slots, in kernels: who sends waits until one is free, fills it and says so; see ``slots``."""

from typing import Any, NamedTuple

import triton.language as tl

from ...triton.primitives.backend import device_function, program_barrier, reach, wait
from ...triton.primitives.job_constants import all_p2p
from ...triton.runtime.constants import ALLTOALL, CMP_GE, SIGNAL_OP, SIGNAL_SET
from ...triton.signals import signal_op

DEPTH = tl.constexpr(2)
SENT, TAKEN, FULL, FREE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


class Members(NamedTuple):
    """A team as a kernel sees it: its row, the caller's place, how many there are."""

    row: Any
    me: Any
    n_pes: Any


@device_function
def _word(block, kind: tl.constexpr, program, member, n_pes, PROGRAMS: tl.constexpr):
    return block + (kind * PROGRAMS + program) * n_pes + member


@device_function
def _place(block, head, words, source, program, number, PROGRAMS: tl.constexpr):
    """The address of a slot at its receiver: a pointer to int64."""
    place = (source * PROGRAMS + program) * DEPTH + number % DEPTH
    return block + head + place * words


@device_function
def next_slot(block, head, words, nth, program, me, member, n_pes, PROGRAMS: tl.constexpr):
    """The slot of the program's ``nth`` sending of this call to ``member``, which may not be free yet.

    Returns: its number, and its address at the receiver.
    """
    number = tl.load(_word(block, SENT, program, member, n_pes, PROGRAMS)) + 1 + nth
    return number, _place(block, head, words, me, program, number, PROGRAMS)


@device_function
def await_free(block, number, program, member, pe, n_pes, PROGRAMS: tl.constexpr, ctx):
    """The slot that ``next_slot`` has returned is free when it returns."""
    free = _word(block, FREE, program, member, n_pes, PROGRAMS)
    wait(free, CMP_GE, number - DEPTH, pe, ALLTOALL, ctx)


@device_function
def open_slot(
    block, head, words, nth, program, me, member, pe, n_pes, PROGRAMS: tl.constexpr, ctx
):  # fmt: skip
    """``next_slot``, once it is free."""
    number, place = next_slot(block, head, words, nth, program, me, member, n_pes, PROGRAMS)
    await_free(block, number, program, member, pe, n_pes, PROGRAMS, ctx)
    return number, place


@device_function
def send_slot(block, number, program, me, pe, n_pes, PROGRAMS: tl.constexpr, ctx):
    """Says to the receiver, behind all that the program has stored, that the slot is full."""
    full = _word(block, FULL, program, me, n_pes, PROGRAMS)
    signal_op(full, number, SIGNAL_SET, pe, ctx)


@device_function
def await_slot(
    block, head, words, nth, program, member, pe, n_pes, PROGRAMS: tl.constexpr, ctx
):  # fmt: skip
    """The slot of the program's ``nth`` receiving of this call from ``member``, once it is full.

    Returns: its number and its address.
    """
    number = tl.load(_word(block, TAKEN, program, member, n_pes, PROGRAMS)) + 1 + nth
    full = _word(block, FULL, program, member, n_pes, PROGRAMS)
    wait(full, CMP_GE, number, pe, ALLTOALL, ctx)
    return number, _place(block, head, words, member, program, number, PROGRAMS)


@device_function
def slot_number(block, nth, program, member, n_pes, PROGRAMS: tl.constexpr):
    """The number of a slot that ``await_slot`` has returned before."""
    return tl.load(_word(block, TAKEN, program, member, n_pes, PROGRAMS)) + 1 + nth


@device_function
def slot_again(block, head, words, nth, program, member, n_pes, PROGRAMS: tl.constexpr):
    """Its address."""
    number = slot_number(block, nth, program, member, n_pes, PROGRAMS)
    return _place(block, head, words, member, program, number, PROGRAMS)


@device_function
def slot_rows(place, r, pitch, dtype: tl.constexpr):
    """Where rows ``r`` of a slot start."""
    return (place.to(tl.pointer_type(tl.uint8)) + r * pitch).to(tl.pointer_type(dtype))


@device_function
def free_slot(block, number, program, me, pe, n_pes, PROGRAMS: tl.constexpr, ctx):
    """Says to the sender that the slot has been read.

    What the program has loaded from it has been stored elsewhere, so the loads have ended: a fence would
    wait for those stores, which are no concern of the sender's.
    """
    free = _word(block, FREE, program, me, n_pes, PROGRAMS)
    if all_p2p():
        program_barrier()
        tl.store(reach(free, 8, pe, SIGNAL_OP, ctx), number)
    else:
        signal_op(free, number, SIGNAL_SET, pe, ctx)


@device_function
def count_slots(block, kind: tl.constexpr, program, member, n_pes, chunks, PROGRAMS: tl.constexpr):
    """At the call's end: of ``chunks`` chunks to or from ``member`` the program has had its share.

    The program's number is in the words of no other, so plain stores will do; a barrier comes before.
    """
    word = _word(block, kind, program, member, n_pes, PROGRAMS)
    share = (chunks - program + PROGRAMS - 1) // PROGRAMS
    tl.store(word, tl.load(word) + tl.maximum(share, 0))


@device_function
def close_others(block, kind: tl.constexpr, program, me, n_pes, chunks, PROGRAMS: tl.constexpr):
    """``count_slots`` for all other members, where each had the same number of chunks."""
    program_barrier()
    for k in range(n_pes - 1):
        count_slots(block, kind, program, (me + 1 + k) % n_pes, n_pes, chunks, PROGRAMS)
