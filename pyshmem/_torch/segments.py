# SPDX-License-Identifier: BSD-3-Clause
"""A block of the device heap from which an allocator takes segments, each PE for itself.

The allocator's callbacks wait for nobody. Whether all PEs have taken the same segments is compared
later, by all; until then routines refuse what is new. A segment lies at one place of the block on all
PEs that take the same sizes in the same order, so it is symmetric memory as any.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any, NoReturn

import numpy as np

from .._core.arrays.checks import place
from .._core.library import check, ffi, lib, refuse_order, size_text
from ..host import query
from ..host.collectives.agreement import differing, refuse_difference
from ..host.job import runtime
from ..host.memory import creation
from ..host.memory import heap as heaps
from ..host.teams.team import TEAM_WORLD

Segment = tuple[int, int]  # offset in the block, bytes

_ALIGNMENT = 1 << 21  # of the block
_LEAST = 1 << 21  # bytes of a segment of torch

#: Of jobs that have ended: blocks in which tensors may still lie, by the number of their pool.
_left: dict[int, Any] = {}
#: Of this job.
_open: dict[int, Segments] = {}


class Segments:
    """The block. Made and freed by all PEs together.

    Args:
        nbytes: of the block; None: half of what the device heap has memory for in one piece.
    """

    def __init__(self, nbytes: int | None = None) -> None:
        refuse_order("pools of torch")
        job = runtime.current()
        self.nbytes = _default_nbytes() if nbytes is None else nbytes
        if self.nbytes < _LEAST:
            raise ValueError(
                f"a pool of {size_text(self.nbytes)} of the device heap; a segment of torch has "
                f"{size_text(_LEAST)} at least: make the pool or PYSHMEM_DEVICE_HEAP_SIZE larger"
            )
        self._job = job
        self._array: Any = creation.empty(self.nbytes, np.uint8, heap="device", align=_ALIGNMENT)
        self._address = place(self._array, "a pool", symmetric=True, writable=True)[0]
        self._users = threading.local()
        number = ffi.new("int *")
        check(lib.ishmemx_pool_open(self._address, self.nbytes, job.gpu, number))
        self._number = int(number[0])
        _open[self._number] = self

    def check_usable(self) -> None:
        """Raises ValueError where it was freed, or is another job's; NotInitialized."""
        if runtime.current() is not self._job or self._number not in _open:
            raise ValueError("the pool was freed, or is of a job that has ended")

    def enter(self) -> None:
        """From here on the callbacks in this thread take from this block."""
        self.check_usable()
        before = getattr(self._users, "before", [])
        self._users.before = [*before, lib.ishmemx_pool_use(self._number)]

    def leave(self) -> None:
        """The callbacks in this thread take from what they took from before."""
        lib.ishmemx_pool_use(self._users.before.pop())

    def taken(self) -> tuple[list[Segment], int]:
        """What is taken, by place, and a number that says up to when."""
        most = 64
        while True:
            offsets, sizes = ffi.new("int64_t[]", most), ffi.new("int64_t[]", most)
            taken = ffi.new("uint64_t *")
            n = int(lib.ishmemx_pool_segments(self._number, offsets, sizes, most, taken))
            if n <= most:
                return [(offsets[i], sizes[i]) for i in range(n)], int(taken[0])
            most = 2 * n

    def rendezvous(self, what: str = "") -> None:
        """Compare what all PEs have taken, and let routines use it. Collective.

        Args:
            what: what else they have to say alike.

        Raises: MismatchError (the first segment that differs, and what each PE has).
        """
        self.check_usable()
        segments, taken = self.taken()
        digest = hashlib.sha256(repr(segments).encode()).hexdigest()[:16]
        total = size_text(sum(size for _, size in segments))
        said = differing(f"{len(segments)} segments of {total} in the pool ({digest})", TEAM_WORLD)
        if said:
            _refuse(segments, said)
        if said := differing(f"in the pool: {what}", TEAM_WORLD):
            raise refuse_difference(said)
        check(lib.ishmemx_pool_agreed(self._number, taken))

    def offset_of(self, address: int) -> int | None:
        """Where in the block an address is; None: elsewhere."""
        offset = address - self._address
        return offset if 0 <= offset < self.nbytes else None

    def free(self) -> None:
        """Give the block back to the heap. Collective.

        Raises: ValueError (segments are taken still, on the PEs that the text names).
        """
        self.check_usable()
        n = len(self.taken()[0])
        said = differing(f"{n} segments", TEAM_WORLD)
        if n or said:
            every = said or [f"{n} segments"] * runtime.n_pes()
            texts = (f"{text} on PE {pe}" for pe, text in enumerate(every) if text != "0 segments")
            raise ValueError(
                f"the pool has tensors still, or what is kept of them: {', '.join(texts)}"
            )
        check(lib.ishmemx_pool_close(self._number))
        del _open[self._number]
        array, self._array = self._array, None
        heaps.free(array)


def _refuse(segments: list[Segment], said: list[str]) -> NoReturn:
    """Raise MismatchError with the first segment that differs. Collective.

    All PEs hear the same, so all end at the same one.
    """
    index = 0
    while True:
        told = f"segment {index}: none"
        if index < len(segments):
            offset, size = segments[index]
            told = f"segment {index}: {size} bytes at byte {offset}"
        if apart := differing(told, TEAM_WORLD):
            both = (f"{all_of}, {one}" for all_of, one in zip(said, apart, strict=True))
            raise refuse_difference(list(both))
        index += 1


def _count(number: int) -> int:
    """How many segments a pool has, also one of a job that has ended; -1: there is no such pool."""
    return int(lib.ishmemx_pool_segments(number, ffi.NULL, ffi.NULL, 0, ffi.new("uint64_t *")))


def _default_nbytes() -> int:
    info = query.heap_info("device")
    vacant = min(info.largest_free, info.memory - info.used)
    return vacant // 2 // _ALIGNMENT * _ALIGNMENT


def _job_ended() -> None:
    for number, pool in _open.items():
        if _count(number) > 0:
            _left[number] = pool._array  # tensors of it can be looked at, as other arrays can
    _open.clear()


def _sweep() -> None:
    """The blocks of jobs that have ended, once all of their segments have come back."""
    for number in list(_left):
        if _count(number) < 0:
            del _left[number]


runtime.on_finalize(_job_ended)
runtime.on_init(_sweep)
