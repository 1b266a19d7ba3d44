# SPDX-License-Identifier: BSD-3-Clause
"""What runs a process group's calls in order beside the program, and the Work objects that it gives.

On the host that is a thread, on a GPU a stream. A queue does one call after the other; queues do not
wait for each other.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, ClassVar

import torch
import torch.distributed as dist

from ..._core.errors import ShmemError, ShmemTimeout
from ..._foreign import torch as foreign

#: Has other PEs go on until something holds, with PYSHMEM_CHECK=deliver; ``_torch.record`` gives it.
let_others: Callable[[Callable[[], bool]], None] | None = None


def _let_others(done: Callable[[], bool]) -> None:
    """Before this thread waits by itself."""
    if let_others is not None:
        let_others(done)


class Callers:
    """Threads that set futures and so run their callbacks, in the order in which works are over.

    A callback may make calls and wait for them: the futures of those are set by a thread of their own,
    one for each depth, so that callbacks are in the same order on all members.
    """

    def __init__(self) -> None:
        self._queues: list[SimpleQueue[HostWork | None]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._here = threading.local()
        self.told: Callable[[int], None] | None = None  # hears of each thread's depth, in it

    def depth(self) -> int:
        """In how many callbacks, one in the other, the calling thread is."""
        return getattr(self._here, "depth", 0)

    def take(self, work: HostWork) -> None:
        """Set the future of a work that is over."""
        with self._lock:
            while len(self._queues) <= work.depth:
                self._queues.append(SimpleQueue())
                given = self._queues[-1], len(self._queues)
                name = f"pyshmem callbacks {len(self._queues)}"
                thread = threading.Thread(target=self._run, args=given, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._queues[work.depth].put(work)

    def _run(self, queue: SimpleQueue[HostWork | None], depth: int) -> None:
        self._here.depth = depth
        if self.told is not None:
            self.told(depth)
        while (work := queue.get()) is not None:
            try:
                work.set_future()
            except BaseException:  # the futures behind it are set all the same
                told = sys.exc_info()
                threading.excepthook(threading.ExceptHookArgs((*told, threading.current_thread())))
            del work  # its tensors are the program's again

    def close(self, end: float) -> None:
        """At exit: wait for the callbacks until the time ``end``."""
        for queue, thread in zip(self._queues, self._threads, strict=True):
            queue.put(None)
            thread.join(max(end - time.monotonic(), 0))


callers = Callers()


class HostFuture(torch.futures.Future):
    """The future of a ``HostWork``, in Python or in C++."""

    work: Any

    def wait(self) -> Any:
        """Its value. In a callback, whose thread would set it, it is set at once."""
        if callers.depth():
            self.work.set_future()
        _let_others(self.work.is_completed)
        return super().wait()

    def set_exception(self, result: BaseException) -> None:
        """An error of any class; torch's own takes an ``Exception`` alone."""
        if not isinstance(result, Exception):
            cause, result = (
                result,
                ShmemError(f"the call ended by {type(result).__name__}: {result}"),
            )
            result.__cause__ = cause
        super().set_exception(result)


class HostWork(dist.Work):
    """A call on a queue of the host. ``wait`` blocks the thread until it is done."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.depth = callers.depth()
        self._tensors = list(tensors)
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._said: Any = None  # what the call returned: of a receive, the sender
        self._future: HostFuture | None = None
        self._set = False
        self._lock = threading.Lock()  # between who asks for a future and who sets it

    def run(self, call: Callable[[], Any]) -> None:
        """Do it, in the queue's thread."""
        try:
            with torch.no_grad():
                self._said = call()
        except BaseException as error:  # belongs to whoever waits
            self._error = error
        with self._lock:
            self._over.set()
            asked = self._future is not None
        if asked:
            callers.take(self)

    def set_future(self) -> None:
        """Give the future the tensors or the error, once there are any; runs its callbacks."""
        self._over.wait()
        with self._lock:
            future, done, self._set = self._future, self._set, True
        if future is None or done:
            return
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(self._tensors)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until it is done; 0: as long as it takes.

        Raises: ShmemTimeout, and what the call raised.
        """
        _let_others(self._over.is_set)
        if not self._over.wait(timeout.total_seconds() or None):
            raise ShmemTimeout(f"not done: its timeout of {timeout.total_seconds():g} s is over")
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether it is done or has failed."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Whether it is done and has not failed."""
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._error

    def get_future(self) -> Any:
        """A future of the tensors. Callbacks may make calls of the group and wait for them."""
        with self._lock:
            over, future = self._over.is_set(), self._future
            if future is None:
                future = self._future = HostFuture()
                future.work = self
            else:
                over = False  # who made it sets it
        # In a derivative C++ asks, DistributedDataParallel's. It takes an error in a future of Python's
        # for the tensors, and that of a callback for an error.
        asked = future if foreign.current_node() is None else future.then(self._for_cpp)
        if over:
            self.set_future()
        return asked

    def _for_cpp(self, future: Any) -> list[torch.Tensor]:
        if self._error is not None:
            kind = type(self._error).__name__
            raise RuntimeError(f"{kind}: {self._error}") from None  # what C++ keeps is a text
        return self._tensors

    def result(self) -> list[torch.Tensor]:
        """The tensors."""
        return self._tensors

    def _source_rank(self) -> int:
        """The rank whose message a receive, which is over, has taken. Raises: RuntimeError."""
        if self._said is None:
            raise RuntimeError("only a receive that is over has a source rank")
        return int(self._said)

    source_rank = _source_rank


_AT_EXIT = 2.0  # seconds for all queues; a call that waits for ever does not keep the process


Gate = AbstractContextManager[None]


class HostQueue:
    """A thread that runs calls one after the other; it begins with the first."""

    _begun: ClassVar[weakref.WeakSet[HostQueue]] = weakref.WeakSet()

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[tuple[HostWork, Callable[[], Any], Gate] | None] = SimpleQueue()
        self._left = 0  # calls that are not done
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(
        self, call: Callable[[], Any], tensors: Sequence[torch.Tensor], gate: Gate | None = None
    ) -> HostWork:
        """Queue a call; ``tensors`` are what its future gives, ``gate`` is around it."""
        work = HostWork(tensors)
        with self._lock:
            if self._closed:
                raise ShmemError(f"{self._name} was destroyed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
                self._begun.add(self)
            self._left += 1
            self._queue.put((work, call, gate or nullcontext()))
        return work

    def do(self, call: Callable[[], None]) -> None:
        """Queue a call and wait for it."""
        self.submit(call, []).wait()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, call, gate = item
            with gate:
                work.run(call)
                with self._lock:
                    self._left -= 1
            del item, work, call, gate  # the tensors are the program's again

    def close(self, wait: bool = True, seconds: float | None = None) -> None:
        """Take no more calls; wait for those that are queued, as long as it takes or ``seconds``."""
        if wait:
            _let_others(lambda: not self._left)
        with self._lock:
            self._closed = True
            self._queue.put(None)
        if wait and self._thread is not None:
            self._thread.join(seconds)

    @classmethod
    def close_all(cls) -> None:
        """At exit: a thread that is in torch's C++ while the interpreter ends aborts the process."""
        end = time.monotonic() + _AT_EXIT
        for queue in tuple(cls._begun):
            queue.close(seconds=max(end - time.monotonic(), 0))
        callers.close(end)


atexit.register(HostQueue.close_all)  # before finalize, which was registered earlier


class StreamWork(dist.Work):
    """A call on a queue of a GPU. ``wait`` makes torch's current stream wait, not the thread."""

    def __init__(self, stream: Any, tensors: Sequence[torch.Tensor], event: Any) -> None:
        super().__init__()
        self._stream, self._tensors, self._event = stream, list(tensors), event
        self._future: Any = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Let what comes next on the current stream wait for the call; ``timeout`` has no meaning."""
        torch.cuda.current_stream(self._stream.device).wait_event(self._event)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether the stream is past it."""
        return bool(self._event.query())

    def is_success(self) -> bool:
        """The same: what kernels find wrong is raised by the next call of pyshmem."""
        return self.is_completed()

    def get_future(self) -> Any:
        """A future of the tensors, whose waiters' streams wait.

        Made when somebody asks, as that takes as long as a call. They wait for all that the queue has
        then.
        """
        if self._future is None:
            with torch.cuda.stream(self._stream):
                self._future = torch.futures.Future(devices=[self._stream.device])
                self._future.set_result(self._tensors)
        return self._future

    def result(self) -> list[torch.Tensor]:
        """The tensors."""
        return self._tensors


class StreamQueue:
    """A stream of torch's, in whose order calls are; each waits for the current stream's work."""

    def __init__(self, stream: Any) -> None:
        self.device, self.stream = stream.device, stream
        self._begin = (
            torch.cuda.Event()
        )  # of each call: a wait is for what was recorded last before it

    def submit(
        self, call: Callable[[Any], None], tensors: Sequence[torch.Tensor],
        used: Sequence[torch.Tensor],
    ) -> StreamWork:  # fmt: skip
        """Put a call on the stream.

        ``tensors`` are what its future gives, ``used`` all whose memory it uses: that is not given to
        others by torch's allocator before the stream is past the call.
        """
        current = torch.cuda.current_stream(self.device)
        self._begin.record(current)
        self.stream.wait_event(self._begin)
        if torch.cuda.current_device() == self.device.index:
            try:
                torch.cuda.set_stream(self.stream)  # torch's context takes microseconds more
                event = self._put(call)
            finally:
                torch.cuda.set_stream(current)
        else:
            with torch.cuda.stream(self.stream):
                event = self._put(call)
        for tensor in used:
            tensor.record_stream(self.stream)
        return StreamWork(self.stream, tensors, event)

    def synchronize(self) -> None:
        """Wait on the host for all calls."""
        self.stream.synchronize()

    def _put(self, call: Callable[[Any], None]) -> Any:
        """The call on the queue's stream, which is the current one; an event behind it."""
        with torch.no_grad():
            call(self.stream)
        event = torch.cuda.Event()
        event.record(self.stream)
        return event


class AllWork(dist.Work):
    """Several calls as one."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for each, as it does."""
        for work in self._works:
            work.wait(timeout)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether all are."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Whether all are done and none has failed."""
        return all(work.is_success() for work in self._works)

    def get_future(self) -> Any:
        """A future that is done when all are."""
        return torch.futures.collect_all([work.get_future() for work in self._works])

    def result(self) -> list[torch.Tensor]:
        """The tensors of all."""
        return [tensor for work in self._works for tensor in work.result()]
