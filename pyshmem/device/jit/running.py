# SPDX-License-Identifier: BSD-3-Clause
"""Which kernels of the job still run, and Numba's frees, which must not wait for them.

``cuMemFree`` waits for the running kernels, and while it does no copy of another thread starts. A kernel
that waits for a copy of its own PE's proxy would then wait for ever. Numba frees dropped device arrays
at any moment, ten at a time; here they stay queued while a kernel of the job runs.

Nothing here waits in the driver: kernels are asked for by events.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from numba.cuda.cudadrv import driver

from ..._foreign import numba_cuda as hooks

_binding = driver.binding
_SUCCESS = _binding.CUresult.CUDA_SUCCESS
_NOT_READY = _binding.CUresult.CUDA_ERROR_NOT_READY
_NOT_CAPTURING = _binding.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
_RELAXED = _binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED

#: How long an allocation that found no memory waits for kernels, so that what is queued can be freed.
_PATIENCE_S = 10.0
_POLL_S = 50e-6


@contextlib.contextmanager
def beside_captures() -> Iterator[None]:
    """Driver calls in here neither fail for a stream capture of some thread nor break it."""
    exchange = _binding.cuThreadExchangeStreamCaptureMode
    before: list[tuple[Any, Any]] = []
    try:
        # One call, which keeps what was before: no signal's exception comes between.
        before.extend(map(exchange, (_RELAXED,)))
        yield
    finally:
        for status, mode in before:
            if status == _SUCCESS:
                exchange(mode)


class Running:
    """The kernels of the job that may still run: an event behind the last one of each stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[int, Any] = {}  # by stream; recorded again at each launch
        self._streams: set[int] = set()  # whose event was not seen reached
        self._launching = 0
        #: A launch went into a graph: nobody knows when its replays run.
        self.captured = False

    @contextlib.contextmanager
    def launch(self, stream: int) -> Iterator[None]:
        """In here a kernel is launched on ``stream``, in the current context."""
        counted = False
        try:
            with self._lock:  # no signal between two of its lines, which call nothing
                self._launching += 1  # what the launch itself drops is held back too
                counted = True
            yield
            self._mark(stream)
        finally:
            with self._lock:
                self._launching -= counted

    def _mark(self, stream: int) -> None:
        status, capture = _binding.cuStreamIsCapturing(stream)
        if status != _SUCCESS or capture != _NOT_CAPTURING:
            self.captured = True
            return
        with self._lock:
            event = self._events.get(stream)
            if event is None:
                status, event = _binding.cuEventCreate(2)  # CU_EVENT_DISABLE_TIMING
                if status != _SUCCESS:
                    return
                self._events[stream] = event
            if _binding.cuEventRecord(event, stream)[0] == _SUCCESS:
                self._streams.add(stream)

    def forbids_waits(self, stream: int) -> bool:
        """Whether a launch on ``stream`` must not be made to wait for another stream.

        One of the job's kernels may be what runs there, waiting for this launch; and a captured stream
        cannot wait for one that is not.
        """
        status, capture = _binding.cuStreamIsCapturing(stream)
        return status != _SUCCESS or capture != _NOT_CAPTURING or self.any()

    def any(self) -> bool:
        """Whether one may still run, or is being launched."""
        if self._launching or not self._streams:
            return self._launching > 0
        with self._lock, beside_captures():
            for stream in tuple(self._streams):
                if _binding.cuEventQuery(self._events[stream])[0] != _NOT_READY:
                    self._streams.discard(stream)
            return bool(self._streams)

    def wait(self, seconds: float = float("inf")) -> None:
        """Until none runs, or the time is over."""
        end = time.monotonic() + seconds
        while self.any() and time.monotonic() < end:
            time.sleep(_POLL_S)


def hold_frees(running: Running) -> None:
    """Have Numba keep what it would free until no kernel of the job runs."""
    plain_disabled = hooks.FREES_DISABLED.value().fget

    def is_disabled(self: Any) -> bool:
        return plain_disabled(self) or running.any()

    def patient(attempt: Callable[..., Any]) -> Callable[..., Any]:
        def attempt_allocation(self: Any, allocator: Any) -> Any:
            try:
                return attempt(self, allocator)
            except driver.CudaAPIError as error:
                if error.code != _binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY or not running.any():
                    raise
            running.wait(_PATIENCE_S)
            return attempt(self, allocator)

        return attempt_allocation

    hooks.FREES_DISABLED.replace(property(is_disabled))
    hooks.ALLOCATE.wrap(patient)
