# SPDX-License-Identifier: BSD-3-Clause
"""Flag in data, for grids: packets of 16 bytes that hold 12 of data and the 4 of the call's number.

A packet is stored and loaded by one relaxed access of 16 bytes, so who sees the number has the data,
with no fence and no flag besides. A thread handles a *line*: three chunks of 16 bytes, 512 apart, which
go as four packets, 512 apart. So a warp's accesses are contiguous, of the array and of the packets, and
a chunk holds whole elements of every dtype.

Each member stores to a slot of its own at every other, in the half that the call's number gives. Two
halves are enough: a kernel ends when it has had a packet from every member (an empty one where there is
no data), and members send packets of call e + 1 when their kernel of call e, with all that it reads, has
ended. So who starts call e + 2 knows that nobody reads its half of call e any more. Nothing in this asks
for equal grids: blocks come and go, and places have other readers, but always of an earlier kernel.
``tests/model/ll_model.py`` tries all orders; a kernel there is a group, its end their meeting.

Numbers are compared by their lower 32 bits. A packet that was not stored anew for 2^32 calls could be
taken for one; the half of a call is written by another size's call long before.
"""

from ..device.groups import quotient
from ..device.leaf.backend import (
    device_function,
    load16_near,
    load_third,
    opaque,
    rare,
    relax,
    store16_near,
    store_third,
)
from ..device.peers import distance_to
from ..device.team import ll
from ..device.wait_loop import POLLS_PER_CHECK, go_on

ROW = 512  # bytes between a thread's chunks, and its packets
LINE = 3 * ROW  # bytes of data that a warp sends at a time
LINE_BYTES = 4 * ROW  # and what they become
_LOW = (1 << 32) - 1


@device_function
def chunk_at(thread: int) -> int:
    """Where in the data the first chunk of thread number ``thread`` of all is."""
    return (thread >> 5) * LINE + ((thread & 31) << 4)


@device_function
def packet_at(thread: int) -> int:
    """Where in a slot its first packet is."""
    return (thread >> 5) * LINE_BYTES + ((thread & 31) << 4)


@device_function
def threads_of(nbytes: int) -> int:
    """How many threads have a line of ``nbytes``; nothing is a line, too, of empty packets."""
    return max(1, quotient(nbytes + LINE - 1, LINE)) << 5


@device_function
def takes_part(thread: int, nbytes: int) -> bool:
    """Does the thread have anything of ``nbytes``?"""
    return (chunk_at(thread) < nbytes) | (thread == 0)


@device_function
def slot_of(area: int, slot: int, n: int, call: int, owner: int, sender: int) -> int:
    """Where ``sender`` stores to at ``owner`` in this call, on the caller's heap."""
    index = sender - 1 if sender > owner else sender
    return area + ((call & 1) * max(n - 1, 1) + index) * slot


# -- 16 bytes of an array at any address -----------------------------------------------------------


@device_function
def load_chunk(address: int, left: int) -> tuple[int, int]:
    """The next 16 bytes, or what is ``left`` of them; zeros behind."""
    if (left >= 16) & (address & 15 == 0):
        return load16_near(address)
    return ll.load_chunk(address, left)


@device_function
def store_chunk(address: int, left: int, low: int, high: int) -> None:
    """The other way."""
    if (left >= 16) & (address & 15 == 0):
        store16_near(address, low, high)
    elif left > 0:
        ll.store_chunk(address, left, low, high)


@device_function
def load_line(address: int, left: int) -> tuple[int, int, int, int, int, int]:
    """A thread's three chunks, of ``left`` bytes that there are from its first one on."""
    a, b = load_chunk(address, left)
    c, d = load_chunk(address + ROW, left - ROW)
    e, f = load_chunk(address + 2 * ROW, left - 2 * ROW)
    return a, b, c, d, e, f


@device_function
def store_line(address: int, left: int, line) -> None:
    """The other way."""
    store_chunk(address, left, line[0], line[1])
    store_chunk(address + ROW, left - ROW, line[2], line[3])
    store_chunk(address + 2 * ROW, left - 2 * ROW, line[4], line[5])


# -- packets -----------------------------------------------------------------------------------------


@device_function
def send_line(place: int, left: int, call: int, line) -> None:
    """Stores the packets at ``place``; the second two only where there is a second chunk.

    The upper words of the first two chunks are what fills the packets' third words.
    """
    store_third(place, line[0], line[1], call)
    store_third(place + ROW, line[2], line[1] >> 32, call)
    if left > ROW:
        store_third(place + 2 * ROW, line[4], line[3], call)
        store_third(place + 3 * ROW, line[5], line[3] >> 32, call)


@device_function
def is_of(word: int, call: int) -> bool:
    """Is it the second word of a packet of this call?"""
    return (word >> 32) & _LOW == call & _LOW


@rare
def _wait_packet(place: int, call: int, waited: int, pe: int) -> int:
    """Until the packet is of this call, or the timeout or a fault has ended the wait."""
    deadline, polls = 0, -1
    _, word = load_third(place)
    while not is_of(word, call) and deadline >= 0:
        polls += opaque(1)
        deadline = go_on(deadline, polls, waited, pe, call, (word >> 32) & _LOW)
        _, word = load_third(place)
    return 0


@device_function
def await_packet(place: int, call: int, waited: int, pe: int) -> None:
    """Until the packet at ``place`` is of this call; its data is of no concern."""
    polls = 0
    while polls < POLLS_PER_CHECK:
        _, word = load_third(place)
        if is_of(word, call):
            return
        relax()
        polls += opaque(1)
    _wait_packet(place, call, waited, pe)


@device_function
def _join(low: int, high: int) -> int:
    """Two third words are the upper word of a chunk."""
    return (low & _LOW) | (high & _LOW) << 32


@rare
def _wait_line(place: int, left: int, call: int, waited: int, pe: int) -> int:
    k, count = 0, 4 if left > ROW else 2
    while k < count:
        _wait_packet(place + k * ROW, call, waited, pe)
        k += opaque(1)
    return 0


@device_function
def await_line(place: int, left: int, call: int, waited: int, pe: int):
    """The three chunks, once all their packets are of this call; the loads fly together."""
    polls, short = 0, left <= ROW
    while True:
        a, x = load_third(place)
        b, y = load_third(place + ROW)
        c, z = load_third(place + 2 * ROW)
        d, w = load_third(place + 3 * ROW)
        first = is_of(x, call) & is_of(y, call)
        if first & (short | (is_of(z, call) & is_of(w, call))) | (polls > POLLS_PER_CHECK):
            return a, _join(x, y), b, _join(z, w), c, d
        relax()
        polls += opaque(1)
        if polls == POLLS_PER_CHECK:
            # Whatever ended the wait, the packets are loaded once more and taken.
            _wait_line(place, left, call, waited, pe)
            polls += 1


@device_function
def slot_at(area: int, slot: int, n: int, call: int, me: int, member: int, pe: int) -> int:
    """Where the caller stores to at ``member``, whose world number is ``pe``."""
    return slot_of(area, slot, n, call, member, me) + distance_to(pe)
