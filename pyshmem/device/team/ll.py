# SPDX-License-Identifier: BSD-3-Clause
"""Flag in data (LL): collectives of small bytes without fences and without flags of their own.

A packet is 16 bytes: 8 of data, and the number of the call, which is a round of the team like those of
``flags``. It is stored and loaded whole, relaxed. So a receiver that spins on its own memory
until a packet has the call's number has the data with it: nothing is released, acquired or reset.

Members store to a slot of their own at every other, in the half that the call's number gives. Two halves
are enough, because each call stores at least one packet from every member to every other and waits for
it (where there is no data, an empty one). Who starts call e + 2 has met behind e + 1, so it has a packet
of e + 1 from each member, which that one stored after its group had met behind e: it had left every wait
for a packet of e, whose place e + 2 takes. A packet of e + 2 is stored only because the packet of e has
been read, so no order of the two accesses need be asked for. ``tests/model/ll_model.py`` tries all
orders.
"""

from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import device_function, load_packet, opaque, state, store_packet
from ..peers import distance_to
from ..state import CUTOVER_LL, LL_HALF_BYTES
from ..wait_loop import POLLS_PER_CHECK, go_on
from .flags import begin_call, other_member
from .rows import member_pe, row_is_p2p, row_ll, row_ll_slot, row_my_pe, row_n_pes

#: Of the threshold of blocks and grids, by which a warp's and a thread's are smaller: the packets that a
#: lane waits for come one after the other.
_SHIFT = {"": 6, "_warp": 2, "_work_group": 0, "_grid": 0}
#: From the first packet of a chunk to its second.
_SECOND = 512
#: What slots are multiples of.
_SLOT_STEP = 1024


def makes_ll(scope: Scope):
    """``f(row, nbytes)``: are so many bytes from each member to each sent with flags in them?

    The answer must be one on all members, which call the same routine, but by groups of any size.
    """
    shift = _SHIFT[scope.suffix]

    @device_function
    def fits(row: int, nbytes: int) -> bool:
        # Half of a slot is data; its last chunk is for the count of ``collect``. By arithmetic: the load
        # of the slot's size would stand in front of every small collective.
        slots = ((2 * nbytes + 32 + _SLOT_STEP - 1) & -_SLOT_STEP) * row_n_pes(row)
        small = (nbytes >= 0) & (nbytes < state(CUTOVER_LL) >> shift)
        return small & (slots <= LL_HALF_BYTES) and row_is_p2p(row)

    return fits


@device_function
def _slot(row: int, member: int, call: int) -> int:
    """Where ``member`` stores to in this call; on the caller's heap."""
    return row_ll(row) + (call & 1) * LL_HALF_BYTES + member * row_ll_slot(row)


@device_function
def _place(chunk: int) -> int:
    """Of 16 bytes of data in two packets. A warp's first packets lie together, then its second."""
    return ((chunk & ~31) << 5) + ((chunk & 31) << 4)


@device_function
def chunks_of(nbytes: int) -> int:
    """Nothing is one chunk, too: its packets say that the sender is here."""
    return max(1, (nbytes + 15) >> 4)


@device_function
def takes_part(row: int, packets: int, rank: int) -> bool:
    """Has this lane one of the packets, or a member to send to? The leader has always.

    The others of a large block go where it meets again: what all its warps execute is most of what a
    small collective takes.
    """
    return (rank < packets) | (rank < row_n_pes(row))


# -- 8 bytes of an array at any address ------------------------------------------------------------


@leaf.cold
def _load_ragged(address: int, nbytes: int) -> int:
    left, word, at = min(nbytes, 8), 0, 0
    bounds = address | left | 8
    chunk = bounds & -bounds
    while at < left:
        word |= leaf.load_near(address + at, chunk) << (at << 3)
        at += chunk
    return word


@leaf.cold
def _store_ragged(address: int, nbytes: int, word: int) -> int:
    left, at = min(nbytes, 8), 0
    bounds = address | left | 8
    chunk = bounds & -bounds
    while at < left:
        leaf.store_near(address + at, chunk, word >> (at << 3))
        at += chunk
    return 0


@device_function
def load_chunk(address: int, left: int) -> tuple[int, int]:
    """The next 16 of ``left`` bytes, or what there is of them; zeros behind."""
    if (left >= 16) & (address & 7 == 0):
        return leaf.load_near(address, 8), leaf.load_near(address + 8, 8)
    if (address | left) & 3 == 0:
        return leaf.load_small(address, left), leaf.load_small(address + 8, left - 8)
    return _load_ragged(address, left), _load_ragged(address + 8, left - 8)


@device_function
def store_chunk(address: int, left: int, low: int, high: int) -> None:
    """The other way."""
    if (left >= 16) & (address & 7 == 0):
        leaf.store_near(address, 8, low)
        leaf.store_near(address + 8, 8, high)
    elif (address | left) & 3 == 0:
        leaf.store_small(address, left, low)
        leaf.store_small(address + 8, left - 8, high)
    else:
        _store_ragged(address, left, low)
        _store_ragged(address + 8, left - 8, high)


# -- waits -----------------------------------------------------------------------------------------


@leaf.rare
def _wait_packet(address: int, call: int, waited_op: int, pe: int) -> int:
    """The packet's data, once it is of this call; of any call after the timeout or a fault."""
    deadline, polls = 0, -1
    data, seen = load_packet(address)
    while seen != call and deadline >= 0:
        polls += opaque(1)
        deadline = go_on(deadline, polls, waited_op, pe, call, seen)
        data, seen = load_packet(address)
    return data


@device_function
def await_packet(address: int, call: int, waited_op: int, pe: int) -> int:
    """The packet's 8 bytes of data."""
    polls = 0
    while polls < POLLS_PER_CHECK:
        data, seen = load_packet(address)
        if seen == call:
            return data
        leaf.relax()
        polls += opaque(1)
    return _wait_packet(address, call, waited_op, pe)


@device_function
def await_chunk(address: int, call: int, waited_op: int, pe: int) -> tuple[int, int]:
    """Both packets' data; the two loads fly together."""
    polls = 0
    while polls < POLLS_PER_CHECK:
        low, first = load_packet(address)
        high, second = load_packet(address + _SECOND)
        if (first == call) & (second == call):
            return low, high
        leaf.relax()
        polls += opaque(1)
    low = _wait_packet(address, call, waited_op, pe)
    return low, _wait_packet(address + _SECOND, call, waited_op, pe)


# -- to and from all members -----------------------------------------------------------------------


def _send(row, source, step, own, nbytes, first, op, rank, size) -> int:
    """Begins a call: its number. To each other member m ``nbytes`` at ``source + m * step``.

    The caller's own go to ``own``, if any. They take the slot's chunks from ``first`` on. A lane has the
    same chunks for every member, those that it combines afterwards: when dest is source nobody else
    writes there.
    """
    counted = begin_call(row, op, rank)
    members, me = row_n_pes(row), row_my_pe(row)
    chunk, chunks = rank, chunks_of(nbytes)
    while chunk < chunks:
        at, k = chunk << 4, 1
        begin, left = source + at, nbytes - at
        low, high = own_low, own_high = load_chunk(begin + me * step, left)
        # Opaque: else the number would be waited for before the data is asked for.
        call = opaque(counted) + 1
        place = _slot(row, me, call) + _place(chunk + first)
        while k < members:
            member = other_member(row, k)
            if step != 0:
                low, high = load_chunk(begin + member * step, left)
            to = place + distance_to(member_pe(row, member))
            store_packet(to, low, call)
            store_packet(to + _SECOND, high, call)
            k += opaque(1)  # opaque: unrolled, it is many instructions in front of the first store
        if own != 0:
            store_chunk(own + at, left, own_low, own_high)
        chunk += size
    return counted + 1


def _receive(row, dest, step, nbytes, call, op, rank, size) -> int:
    """From each other member m ``nbytes``, to ``dest + m * step``: lanes share all chunks of all."""
    members = row_n_pes(row)
    chunks = chunks_of(nbytes)
    k, chunk = 1, rank
    while True:
        while chunk >= chunks and k < members:
            chunk -= opaque(chunks)  # opaque: a division in disguise, of 64 bits
            k += 1
        if k >= members:
            return 0
        member = other_member(row, k)
        place = _slot(row, member, call) + _place(chunk)
        low, high = await_chunk(place, call, op, member_pe(row, member))
        at = chunk << 4
        store_chunk(dest + member * step + at, nbytes - at, low, high)
        chunk += size


def _receive_from(row, member, dest, nbytes, first, call, op, rank, size) -> int:
    """From one member ``nbytes``, the slot's chunks from ``first`` on."""
    slot, pe = _slot(row, member, call), member_pe(row, member)
    chunk, chunks = rank, (nbytes + 15) >> 4
    while chunk < chunks:
        low, high = await_chunk(slot + _place(chunk + first), call, op, pe)
        at = chunk << 4
        store_chunk(dest + at, nbytes - at, low, high)
        chunk += size
    return 0


@device_function
def send_words(row, word, call, rank, size) -> None:
    """One packet to each other member: the lanes share the members."""
    slot, k = _slot(row, row_my_pe(row), call), rank + 1
    while k < row_n_pes(row):
        store_packet(slot + distance_to(member_pe(row, other_member(row, k))), word, call)
        k += size


@device_function
def await_word(row, member, call, op) -> int:
    """The packet that ``member`` sent by ``send_words``."""
    return await_packet(_slot(row, member, call), call, op, member_pe(row, member))


@device_function
def await_words(row, but, call, op, rank, size) -> None:
    """That packet of every other member ``but`` one: the lanes share the members."""
    k = rank + 1
    while k < row_n_pes(row):
        member = other_member(row, k)
        if member != but:
            await_word(row, member, call, op)
        k += size


_MOVES = (_send, _receive, _receive_from)
_OUTLINED = tuple(leaf.outline(function) for function in _MOVES)
_INLINED = tuple(device_function(function) for function in _MOVES)


def moves(scope: Scope) -> tuple:
    """``send``, ``receive`` and ``receive_from``: as calls, but not for warps; see ``flags``."""
    return _INLINED if scope.suffix == "_warp" else _OUTLINED


@device_function
def member_chunk(row, member, own, chunk, call, op) -> tuple[int, int]:
    """A member's chunk; ``own`` is the caller's."""
    if member == row_my_pe(row):
        return own
    place = _slot(row, member, call) + _place(chunk)
    return await_chunk(place, call, op, member_pe(row, member))
