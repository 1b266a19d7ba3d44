# SPDX-License-Identifier: BSD-3-Clause
"""The copy of a group of lanes: 16 bytes a lane where both sides can be aligned alike.

Lanes take neighbouring pieces, so a warp's accesses are contiguous; each lane has four loads in
flight before its first store, which is what fills NVLink from one block.
"""

from .leaf import chosen as leaf
from .leaf.chosen import device_function, opaque

_FEW = 256  # bytes up to which words of 8 are as good as a loop of larger pieces
_BULK_FROM = 256  # bytes from which one thread's copy is worth its way through shared memory


def _make_few(wide, narrow):
    @device_function
    def few(dest: int, source: int, nbytes: int, rank: int, size: int) -> bool:
        """Copies what is a piece a lane at most: no loop, no division."""
        if nbytes > size << 4:
            return False
        if (dest | source | nbytes) & 15 == 0:
            if rank << 4 < nbytes:
                wide(dest + (rank << 4), source + (rank << 4), 16)
            return True
        if nbytes > _FEW or nbytes > size << 3 or (dest | source | nbytes) & 7 != 0:
            return False
        if rank << 3 < nbytes:
            narrow(dest + (rank << 3), source + (rank << 3), 8, 8)
        return True

    return few


def _make_copy(wide, wide_x4, narrow, narrow_x4):
    few = _make_few(wide, narrow)

    @device_function
    def copy_lanes(dest: int, source: int, nbytes: int, rank: int, size: int) -> None:
        """Lane ``rank`` of ``size`` copies its share of ``nbytes``; all are int64."""
        if few(dest, source, nbytes, rank, size):
            return
        # head + body + tail: the body is what 16-byte pieces can copy, on 16-byte boundaries. Most
        # calls are all body, and in short ones most lanes have no piece: both leave early.
        head, body = 0, nbytes
        if (dest | source | nbytes) & 15 != 0:
            if nbytes >= 16 and ((dest ^ source) & 15) == 0:
                head = -dest & 15
                body = (nbytes - head) & ~15
            else:
                head, body = nbytes, 0
            _copy_ragged(dest, source, nbytes, head, body, rank, size)
        at = rank << 4
        if at < body:
            # Opaque: else each address is made of the 32 bits that ``size`` came from, in a chain.
            step = opaque(size << 4)
            end = head + body
            at += head
            while at + 3 * step < end:
                wide_x4(dest + at, source + at, step)
                at += step << 2
            while at < end:
                wide(dest + at, source + at, step)
                at += opaque(step)  # opaque: unrolling these loops would cost a 64-bit division

    @device_function
    def _copy_ragged(dest, source, nbytes, head, body, rank, size) -> None:
        """Head and tail, in the widest pieces that all their boundaries allow."""
        left = nbytes - body
        if rank < left:
            bounds = dest | source | head | nbytes | 8
            piece = bounds & -bounds
            step, at = size * piece, rank * piece
            if body == 0:
                while at + 3 * step < left:
                    narrow_x4(dest + at, source + at, step, piece)
                    at += step << 2
            while at < left:
                place = at + body if at >= head else at
                narrow(dest + place, source + place, step, piece)
                at += opaque(step)

    return copy_lanes, few


#: Any local memory to a peer (or to the own heap).
push, _push_few = _make_copy(leaf.copy16, leaf.copy16x4, leaf.copy_narrow, leaf.copy_narrow_x4)
#: A peer's memory to any local memory; reads past the L1 cache.
pull, _pull_few = _make_copy(leaf.pull16, leaf.pull16x4, leaf.pull_narrow, leaf.pull_narrow_x4)


def _make_alone(lanes, few, check_source: bool):
    @device_function
    def copy_alone(dest: int, source: int, nbytes: int, rank: int, size: int) -> None:
        """One thread copies; in a small block by way of shared memory, many bytes at a time."""
        if few(dest, source, nbytes, 0, 1):
            return
        if nbytes >= _BULK_FROM and (dest | source | nbytes) & 15 == 0:
            room = leaf.bulk_room()
            if room > 0 and leaf.in_global(source if check_source else dest):
                leaf.bulk_copy(dest, source, nbytes, room)
                return
        lanes(dest, source, nbytes, 0, 1)

    return copy_alone


push_alone, pull_alone = _make_alone(push, _push_few, True), _make_alone(pull, _pull_few, False)
