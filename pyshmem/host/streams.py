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
from typing import Any

from .._core.arrays.checks import StreamLike, stream_handle
from .._core.library import check, ffi, lib, owned
from . import faults
from .fast_calls import know_streams
from .job import runtime
from .job.handles import Handle
from .kernels.stream_kernels import named, prepare, set_signals

__all__ = ["Graph", "Stream", "prepare", "set_signals"]


#: Their cells, which are held here: a stream that is dropped lives on.
_alive: set[Any] = set()


class Stream(Handle):
    """A stream of this PE's GPU, or of the simulator, that waits for no other.

    Its work is done in the order in which it came. Streams live until ``destroy`` or the end of the
    job, not until garbage collection. Anything that takes ``__cuda_stream__`` takes it.

    Raises: NotInitialized, UnsupportedError (a job without an accelerator), ShmemError.
    Example: ``stream = pyshmem.streams.Stream(); pyshmem.put(dest, source, right, stream=stream)``
    Extension.
    """

    __slots__ = ("__weakref__", "_cell", "handle")

    def __init__(self) -> None:
        self.handle, self._cell = 0, owned(lib.end_stream)
        check(lib.ishmemx_stream_create(self._cell))
        self.handle = int(self._cell[0])  # cudaStream_t; 0: destroyed
        _alive.add(self._cell)

    def __repr__(self) -> str:
        handle = getattr(self, "handle", 0)  # not there in one whose making was interrupted
        return f"<pyshmem stream {handle:#x}>" if handle else "<pyshmem stream, destroyed>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version and handle, as NVIDIA's protocol has it."""
        if not self.handle:
            raise ValueError("the stream has been destroyed")
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait until all work that is on the stream now is done.

        Raises: KernelFault (of one of its kernels), ShmemTimeout, PeerDied, ShmemError (in a
            capture, which is spoilt then).
        Example: ``pyshmem.put(dest, source, right, stream=stream); stream.synchronize()``
        """
        check(lib.ishmemx_stream_finish(self.__cuda_stream__()[1]))

    def query(self) -> bool:
        """Whether all of its work is done.

        Raises: KernelFault (of one of its kernels), ShmemError (as ``synchronize``).
        Example: ``done = stream.query()``
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
        Example: ``with stream.capture() as graph: pyshmem.put(dest, source, right, stream=stream)``
        """
        graph, captured, status = Graph(), owned(lib.end_capture), 0
        try:
            check(lib.begin_capture(self.__cuda_stream__()[1], captured))
            yield graph
        finally:  # an exception of a signal's handler before this leaves it to the cell
            if captured[0]:
                captured[0] = self.handle  # 0: the block has destroyed the stream
                status = lib.finish_capture(captured, graph._cell)
        check(status)

    def destroy(self) -> None:
        """Wait for its work, then give the stream back. Again it does nothing.

        Raises: as ``synchronize``.
        Example: ``stream.destroy()``
        """
        if self._cell[0] and lib.ishmemx_initialized():
            check(lib.destroy_stream(self._cell))
        _alive.discard(self._cell)
        self.handle = self._cell[0] = 0


class Graph(Handle):
    """What a stream has captured, to be put on streams again as often as one likes.

    All PEs of a collective in it replay it equally often. It belongs to the job in which it was made.
    """

    __slots__ = ("_cell",)

    def __init__(self) -> None:
        self._cell = owned(lib.end_graph)

    def replay(self, stream: StreamLike) -> None:
        """Put the captured work on ``stream``.

        Args:
            stream: as for routines.

        Completes: nothing; when the stream gets past it.
        Raises: KernelFault (of an earlier kernel), ValueError (nothing captured, stream),
            NotInitialized, ShmemError (made in another job).
        Example: ``graph.replay(stream); stream.synchronize()``
        """
        if not self._cell[0]:
            raise ValueError("the graph is empty: its capture has not ended, or failed")
        check(lib.ishmemx_graph_replay(self._cell[0], stream_handle(stream)))


def synchronize(stream: StreamLike) -> None:
    """Wait until all work on a stream of anybody's is done; as ``Stream.synchronize``."""
    check(lib.ishmemx_stream_finish(stream_handle(stream)))


def finish_all() -> None:
    """Wait for all work on all of this job's ``Stream`` objects; as ``Stream.synchronize``."""
    for cell in tuple(_alive):
        if cell[0]:
            check(lib.ishmemx_stream_finish(cell[0]))


def _settle() -> None:
    for cell in tuple(_alive):  # they end with the job
        cell[0] = 0
    _alive.clear()
    lib.ishmemx_streams_settle()  # finalize reports what did not end


know_streams(Stream)
faults.add_kernel_namer(named)
runtime.on_finalize(_settle)
