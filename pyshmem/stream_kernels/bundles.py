# SPDX-License-Identifier: BSD-3-Clause
"""Flag in data, for grids: units of 16 bytes that hold 12 of data and the 4 of the call's number.

A unit is stored and loaded by one relaxed access of 16 bytes, so who sees the number has the data, with
no fence and no flag besides. A lane handles a *bundle*: three pieces of 16 bytes, 512 apart, which
go as four units, 512 apart. So a warp's accesses are contiguous, of the array and of the units, and a
piece holds whole elements of every dtype.

Each member stores to a slot of its own at every other, in the half that the call's number gives. Two
halves are enough: a kernel ends when it has had a unit from every member (an empty one where there is
no data), and members send units of call e + 1 when their kernel of call e, with all that it reads, has
ended. So who starts call e + 2 knows that nobody reads its half of call e any more. Nothing in this asks
for equal grids: blocks come and go, and places have other readers, but always of an earlier kernel.
``tests/model/ll_model.py`` tries all orders; a kernel there is a group, its end their meeting.

Numbers are compared by their lower 32 bits. A unit that was not stored anew for 2^32 calls could be
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

ROW = 512  # bytes between a lane's pieces, and its units
BUNDLE = 3 * ROW  # bytes of data that a warp sends at a time
UNITS = 4 * ROW  # and what they become
_LOW = (1 << 32) - 1


@device_function
def piece_at(lane: int) -> int:
    """Where in the data the first piece of lane number ``lane`` of all is."""
    return (lane >> 5) * BUNDLE + ((lane & 31) << 4)


@device_function
def unit_at(lane: int) -> int:
    """Where in a slot its first unit is."""
    return (lane >> 5) * UNITS + ((lane & 31) << 4)


@device_function
def lanes_of(nbytes: int) -> int:
    """How many lanes have a bundle of ``nbytes``; nothing is a bundle, too, of empty units."""
    return max(1, quotient(nbytes + BUNDLE - 1, BUNDLE)) << 5


@device_function
def takes_part(lane: int, nbytes: int) -> bool:
    """Does the lane have anything of ``nbytes``?"""
    return (piece_at(lane) < nbytes) | (lane == 0)


@device_function
def slot_of(units: int, slot: int, n: int, call: int, owner: int, sender: int) -> int:
    """Where ``sender`` stores to at ``owner`` in this call, on the caller's heap."""
    index = sender - 1 if sender > owner else sender
    return units + ((call & 1) * max(n - 1, 1) + index) * slot


# -- 16 bytes of an array at any address -----------------------------------------------------------


@device_function
def load_piece(address: int, left: int) -> tuple[int, int]:
    """The next 16 bytes, or what is ``left`` of them; zeros behind."""
    if (left >= 16) & (address & 15 == 0):
        return load16_near(address)
    return ll.load_piece(address, left)


@device_function
def store_piece(address: int, left: int, low: int, high: int) -> None:
    """The other way."""
    if (left >= 16) & (address & 15 == 0):
        store16_near(address, low, high)
    elif left > 0:
        ll.store_piece(address, left, low, high)


@device_function
def load_bundle(address: int, left: int) -> tuple[int, int, int, int, int, int]:
    """A lane's three pieces, of ``left`` bytes that there are from its first one on."""
    a, b = load_piece(address, left)
    c, d = load_piece(address + ROW, left - ROW)
    e, f = load_piece(address + 2 * ROW, left - 2 * ROW)
    return a, b, c, d, e, f


@device_function
def store_bundle(address: int, left: int, bundle) -> None:
    """The other way."""
    store_piece(address, left, bundle[0], bundle[1])
    store_piece(address + ROW, left - ROW, bundle[2], bundle[3])
    store_piece(address + 2 * ROW, left - 2 * ROW, bundle[4], bundle[5])


# -- units -----------------------------------------------------------------------------------------


@device_function
def send_bundle(place: int, left: int, call: int, bundle) -> None:
    """Stores the units at ``place``; the second two only where there is a second piece.

    The upper words of the first two pieces are what fills the units' third words.
    """
    store_third(place, bundle[0], bundle[1], call)
    store_third(place + ROW, bundle[2], bundle[1] >> 32, call)
    if left > ROW:
        store_third(place + 2 * ROW, bundle[4], bundle[3], call)
        store_third(place + 3 * ROW, bundle[5], bundle[3] >> 32, call)


@device_function
def is_of(word: int, call: int) -> bool:
    """Is it the second word of a unit of this call?"""
    return (word >> 32) & _LOW == call & _LOW


@rare
def _wait_unit(place: int, call: int, waited: int, pe: int) -> int:
    """Until the unit is of this call, or the timeout or a fault has ended the wait."""
    deadline, polls = 0, -1
    _, word = load_third(place)
    while not is_of(word, call) and deadline >= 0:
        polls += opaque(1)
        deadline = go_on(deadline, polls, waited, pe, call, (word >> 32) & _LOW)
        _, word = load_third(place)
    return 0


@device_function
def await_unit(place: int, call: int, waited: int, pe: int) -> None:
    """Until the unit at ``place`` is of this call; its data is of no concern."""
    polls = 0
    while polls < POLLS_PER_CHECK:
        _, word = load_third(place)
        if is_of(word, call):
            return
        relax()
        polls += opaque(1)
    _wait_unit(place, call, waited, pe)


@device_function
def _join(low: int, high: int) -> int:
    """Two third words are the upper word of a piece."""
    return (low & _LOW) | (high & _LOW) << 32


@rare
def _wait_bundle(place: int, left: int, call: int, waited: int, pe: int) -> int:
    k, units = 0, 4 if left > ROW else 2
    while k < units:
        _wait_unit(place + k * ROW, call, waited, pe)
        k += opaque(1)
    return 0


@device_function
def await_bundle(place: int, left: int, call: int, waited: int, pe: int):
    """The three pieces, once all their units are of this call; the loads fly together."""
    polls, few = 0, left <= ROW
    while True:
        a, x = load_third(place)
        b, y = load_third(place + ROW)
        c, z = load_third(place + 2 * ROW)
        d, w = load_third(place + 3 * ROW)
        first = is_of(x, call) & is_of(y, call)
        if first & (few | (is_of(z, call) & is_of(w, call))) | (polls > POLLS_PER_CHECK):
            return a, _join(x, y), b, _join(z, w), c, d
        relax()
        polls += opaque(1)
        if polls == POLLS_PER_CHECK:
            # Whatever ended the wait, the units are loaded once more and taken.
            _wait_bundle(place, left, call, waited, pe)
            polls += 1


@device_function
def slot_at(units: int, slot: int, n: int, call: int, me: int, member: int, pe: int) -> int:
    """Where the caller stores to at ``member``, whose world number is ``pe``."""
    return slot_of(units, slot, n, call, member, me) + distance_to(pe)
