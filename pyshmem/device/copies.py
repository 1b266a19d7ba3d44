# SPDX-License-Identifier: BSD-3-Clause
"""The copy of a group of lanes: 16 bytes a lane where both sides can be aligned alike.

Lanes take neighbouring chunks, so a warp's accesses are contiguous; each lane has up to four loads in
flight before its first store, which is what fills NVLink from one block. A short copy costs what its
branches do, some 20 cycles each on sm_90: the usual cases come first, and by the fewest of them.
"""

from .leaf import backend as leaf
from .leaf.backend import device_function, opaque

_SMALL = 256  # bytes up to which words of 8 are as good as a loop of larger chunks
_BULK_FROM = 256  # bytes from which one thread's copy is worth its way through shared memory


def _make_ragged(narrow, narrow_x4):
    @device_function
    def copy_ragged(dest, source, nbytes, head, body, rank, size) -> None:
        """Head and tail, in the widest chunks that all their boundaries allow."""
        left = nbytes - body
        if rank < left:
            bounds = dest | source | head | nbytes | 8
            chunk = bounds & -bounds
            step, at = size * chunk, rank * chunk
            while body == 0 and at + 3 * step < left:
                narrow_x4(dest + at, source + at, step, chunk)
                at += step << 2
            while at < left:
                place = at + body if at >= head else at
                narrow(dest + place, source + place, step, chunk)
                at += opaque(step)

    return copy_ragged


def _make_copy(wide, wide_x2, wide_x4, narrow, narrow_x4):
    copy_ragged = _make_ragged(narrow, narrow_x4)

    @device_function
    def copied_by_words(dest: int, source: int, nbytes: int, rank: int, size: int) -> bool:
        """Copies what is a word of 8 bytes a lane at most: no loop, no division."""
        if nbytes > _SMALL or nbytes > size << 3 or (dest | source | nbytes) & 7 != 0:
            return False
        if rank << 3 < nbytes:
            narrow(dest + (rank << 3), source + (rank << 3), 8, 8)
        return True

    @device_function
    def copy_lanes(dest: int, source: int, nbytes: int, rank: int, size: int) -> None:
        """Lane ``rank`` of ``size`` copies its share of ``nbytes``; all are int64."""
        # head + body + tail: the body is what 16-byte chunks can copy, on 16-byte boundaries. Most
        # calls are all body.
        if (dest | source | nbytes) & 15 != 0:
            if copied_by_words(dest, source, nbytes, rank, size):
                return
            head, body = nbytes, 0
            if nbytes >= 16 and ((dest ^ source) & 15) == 0:
                head = -dest & 15
                body = (nbytes - head) & ~15
            copy_ragged(dest, source, nbytes, head, body, rank, size)
            dest, source, nbytes = dest + head, source + head, body
        at = rank << 4
        if nbytes <= size << 4:
            if at < nbytes:
                wide(dest + at, source + at, 16)
            return
        # Opaque: else each address is made of the 32 bits that ``size`` came from, in a chain.
        step = opaque(size << 4)
        while at + 3 * step < nbytes:
            wide_x4(dest + at, source + at, step)
            at += step << 2
        if at >= nbytes:
            return
        if at + step < nbytes:
            wide_x2(dest + at, source + at, step)
            at += step << 1
            if at >= nbytes:
                return
        wide(dest + at, source + at, step)

    return copy_lanes


#: Any local memory to a peer (or to the own heap).
push = _make_copy(leaf.copy16, leaf.copy16x2, leaf.copy16x4, leaf.copy_narrow, leaf.copy_narrow_x4)
#: A peer's memory to any local memory; reads past the L1 cache.
pull = _make_copy(leaf.pull16, leaf.pull16x2, leaf.pull16x4, leaf.pull_narrow, leaf.pull_narrow_x4)


def _make_alone(lanes, check_source: bool):
    @device_function
    def copy_alone(dest: int, source: int, nbytes: int, rank: int, size: int) -> None:
        """One thread copies; in a small block by way of shared memory, many bytes at a time."""
        if nbytes >= _BULK_FROM and (dest | source | nbytes) & 15 == 0:
            room = leaf.bulk_room()
            if room > 0 and leaf.in_global(source if check_source else dest):
                leaf.bulk_copy(dest, source, nbytes, room)
                return
        lanes(dest, source, nbytes, 0, 1)

    return copy_alone


push_alone, pull_alone = _make_alone(push, True), _make_alone(pull, False)
