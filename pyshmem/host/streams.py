# SPDX-License-Identifier: BSD-3-Clause
"""Streams: work that the host puts in order and does not wait for, and graphs of it.

``stream=`` of a routine takes any CUDA stream: one of CuPy, PyTorch or Numba, an object with
``__cuda_stream__``, a ``cudaStream_t`` as an int, or a ``Stream`` from here. In the simulator it is a
``Stream`` from here, a queue with a thread; the default stream, 0, does everything at once there.
Launches of Numba kernels, ``kernel[blocks, threads, stream](...)``, take the same streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._core.arrays import StreamLike, stream_handle
from .._core.library import check, ffi, lib
from . import faults, runtime
from .handles import Handle
from .stream_kernels import named, prepare, set_signals

__all__ = ["Graph", "Stream", "prepare", "set_signals"]


_alive: set[int] = set()


class Stream(Handle):
    """A stream of this PE's GPU, or of the simulator, that waits for no other.

    Its work is done in the order in which it came. Streams live until ``destroy`` or the end of the
    job, not until garbage collection. Anything that takes ``__cuda_stream__`` takes it.

    Raises: NotInitialized, UnsupportedError (a job without an accelerator), ShmemError.
    Extension.
    """

    __slots__ = ("__weakref__", "handle")

    def __init__(self) -> None:
        handle = ffi.new("uintptr_t *")
        check(lib.ishmemx_stream_create(handle))
        self.handle = int(handle[0])  # cudaStream_t; 0: destroyed
        _alive.add(self.handle)

    def __repr__(self) -> str:
        return (
            f"<pyshmem stream {self.handle:#x}>" if self.handle else "<pyshmem stream, destroyed>"
        )

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version and handle, as NVIDIA's protocol has it."""
        if not self.handle:
            raise ValueError("the stream has been destroyed")
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait until all work that is on the stream now is done.

        Raises: KernelFault (of one of its kernels), ShmemTimeout, PeerDied, ShmemError (in a
            capture, which is spoilt then).
        """
        check(lib.ishmemx_stream_finish(self.__cuda_stream__()[1]))

    def query(self) -> bool:
        """Whether all of its work is done.

        Raises: KernelFault (of one of its kernels), ShmemError (as ``synchronize``).
        """
        finished = ffi.new("int *")
        check(lib.ishmemx_stream_finished(self.__cuda_stream__()[1], finished))
        return bool(finished[0])

    @contextmanager
    def capture(self) -> Iterator[Graph]:
        """What comes on the stream in the ``with`` block becomes a graph instead of being done.

        Kernels have to be loaded before: see ``prepare``.

        Yields:
            The ``Graph``, to be replayed after the block.

        Raises: ShmemError (the stream is captured already, nothing that can be captured).
        """
        check(lib.ishmemx_capture_begin(self.__cuda_stream__()[1]))
        graph, made = Graph(), ffi.new("uintptr_t *")
        try:
            yield graph
        finally:
            status = lib.ishmemx_capture_end(self.handle, made)
            graph._handle = int(made[0])
        check(status)

    def destroy(self) -> None:
        """Wait for its work, then give the stream back. Again it does nothing.

        Raises: as ``synchronize``.
        """
        if self.handle and lib.ishmemx_initialized():
            check(lib.ishmemx_stream_destroy(self.handle))
        _alive.discard(self.handle)
        self.handle = 0


class Graph(Handle):
    """What a stream has captured, to be put on streams again as often as one likes.

    All PEs of a collective in it replay it equally often. It belongs to the job in which it was made.
    """

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        self._handle = 0

    def replay(self, stream: StreamLike) -> None:
        """Put the captured work on ``stream``.

        Args:
            stream: as for routines.

        Completes: nothing; when the stream gets past it.
        Raises: KernelFault (of an earlier kernel), ValueError (nothing captured, stream),
            NotInitialized, ShmemError (made in another job).
        """
        if not self._handle:
            raise ValueError("the graph is empty: its capture has not ended, or failed")
        check(lib.ishmemx_graph_replay(self._handle, stream_handle(stream)))

    def __del__(self) -> None:
        if self._handle:
            lib.ishmemx_graph_drop(self._handle)


def synchronize(stream: StreamLike) -> None:
    """Wait until all work on a stream of anybody's is done; as ``Stream.synchronize``."""
    check(lib.ishmemx_stream_finish(stream_handle(stream)))


def finish_all() -> None:
    """Wait for all work on all of this job's ``Stream`` objects; as ``Stream.synchronize``."""
    for handle in tuple(_alive):
        check(lib.ishmemx_stream_finish(handle))


def _settle() -> None:
    _alive.clear()
    lib.ishmemx_streams_settle()  # finalize reports what did not end


faults.add_kernel_namer(named)
runtime.on_finalize(_settle)
