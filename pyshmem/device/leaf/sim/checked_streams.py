# SPDX-License-Identifier: BSD-3-Clause
"""Streams of Numba under the checker of order: each does its work in the order of one of ours.

Numba's simulator does it all at once, so that nobody misses a wait. As on a GPU, the default stream
waits for them all.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from ...._core.library import lib
from ...._foreign import numba_simulator
from ....host import streams

_all: weakref.WeakSet[CheckedStream] = weakref.WeakSet()


class CheckedStream:
    """What ``cuda.stream()`` returns."""

    def __init__(self) -> None:
        self._stream: streams.Stream | None = None

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version and handle; without a job the stream does everything at once."""
        if not lib.ishmemx_initialized():
            return 0, 0
        if self._stream is None or not self._stream._cell[0]:  # of a job that has ended
            self._stream = streams.Stream()
            _all.add(self)
        return self._stream.__cuda_stream__()

    def synchronize(self) -> None:
        """Wait for all that is on the stream."""
        if self._stream is not None and self._stream._cell[0]:
            self._stream.synchronize()

    @contextmanager
    def auto_synchronize(self) -> Iterator[CheckedStream]:
        """Wait for it behind the block."""
        yield self
        self.synchronize()


def finish_all() -> None:
    """Wait for all of them, as what comes on the default stream does."""
    for stream in tuple(_all):
        stream.synchronize()


def install() -> None:
    """Have ``cuda.stream()`` make them."""
    for hook in numba_simulator.STREAM:
        hook.replace(CheckedStream)
