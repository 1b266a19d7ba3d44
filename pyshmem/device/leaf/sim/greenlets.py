# SPDX-License-Identifier: BSD-3-Clause
"""Numba's CUDA simulator under a greenlet scheduler.

Numba runs a simulated grid block after block, with an OS thread for each CUDA thread. Here every
CUDA thread is a greenlet of one OS thread: all blocks run concurrently, barriers cost a switch, waits
yield to each other, and warp operations and grid barriers exist. Arrays on the symmetric heap go
into a kernel by reference, so that what a peer writes while the kernel runs is seen.

It is for correctness, not speed. A kernel that polls plain memory must call ``cuda.nanosleep`` or a
pyshmem routine in its loop: nothing else lets the other threads run.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet
from numba.cuda.simulator import kernelapi

from ...._core.library import lib
from ...._foreign.numba_simulator import push_context
from ....host.job.tracebacks import program_frame
from ....host.kernels.host_only import Language, refuse_host, refused, stand_ins_in
from .arrays import KernelLocal, KernelShared

WARP = 32

#: The module ``record`` while PYSHMEM_CHECK=order; ``launches`` puts it here.
RECORD: Any = None
#: Where the running kernel was launched, if its launch returns when it has ended: text for reports.
launched = ""


class Group:
    """Threads that meet: a block, a warp of it, or the grid."""

    #: What its barrier is called where threads of several groups wait, as kernels on ``cpu`` say it.
    MEETING = "a warp's meeting"

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0  # threads it started with
        self.live = 0
        self.waiting: list[SimThread] = []
        self.values: dict[int, Any] = {}

    def join(self) -> None:
        self.size += 1
        self.live += 1

    def leave(self) -> None:
        self.live -= 1
        if self.waiting:
            self._refuse_without_all()
            self._release_if_complete()

    def wait(self, thread: SimThread, routine: str = "") -> None:
        """Returns when every live thread of the group has called it.

        ``routine``: of the device library, if it is in one; then that is every thread there is, and all
        of them are in the same.
        """
        thread.meets = routine
        self.waiting.append(thread)
        if self.live < self.size:
            self._refuse_without_all()
        self._release_if_complete()
        thread.block_until_ready()

    def gather(self, thread: SimThread, value: Any, routine: str = "") -> list[Any]:
        """The values of all live threads, in thread order."""
        self.values[thread.thread_id] = value
        self.wait(thread, routine)
        values = [self.values[key] for key in sorted(self.values)]
        self.wait(thread, routine)
        self.values.pop(thread.thread_id, None)
        return values

    def _refuse_without_all(self) -> None:
        """Threads that have ended do not do their part of what a routine's group does together."""
        for routine in {thread.meets for thread in self.waiting} - {""}:
            within = f"{_ranges(self.waiting)}{_lines(self.waiting)}"
            raise RuntimeError(
                f"{routine} is for all {self.size} threads of {self.name} together, but threads have "
                f"ended without it; in it: {within}{of_all(routine)}"
            )

    def _refuse_mixed(self) -> None:
        """A GPU's barrier takes threads in different calls for threads in the same."""
        calls: dict[str, list[SimThread]] = {}
        for thread in self.waiting:
            calls.setdefault(thread.meets, []).append(thread)
        told = "; ".join(
            f"{_ranges(calls[call])} in {call or 'a barrier'}{_lines(calls[call])}"
            for call in calls
        )
        raise RuntimeError(
            f"threads of {self.name} meet in different calls, each of which is for all of them "
            f"together: threads {told}"
        )

    def _refuse_given(self, first: SimThread, other: SimThread) -> None:
        """Each of them would do a part of another call. What one has left out is no difference."""
        for name in first.given:
            a, b = first.given[name], other.given.get(name)
            if a is None or b is None or a == b:
                continue
            told = (f"{int(value)} in {self._named(at)}" for value, at in ((a, first), (b, other)))
            raise RuntimeError(
                f"threads of {self.name} call {first.meets} together with different arguments: "
                f"{name} is {', '.join(told)}"
            )

    def _named(self, thread: SimThread) -> str:
        of = f" of {thread.block.name}" if self is thread.grid else ""
        return f"thread {thread.thread_id}{of}"

    def _release_if_complete(self) -> None:
        if self.waiting and len(self.waiting) >= self.live:
            first = self.waiting[0]
            if any(thread.meets != first.meets for thread in self.waiting):
                self._refuse_mixed()
            if first.meets:
                for thread in self.waiting:
                    if thread.given != first.given:
                        self._refuse_given(first, thread)
            released, self.waiting = self.waiting, []
            if RECORD is not None and not released[0].grid.internal:
                RECORD.met(released)
            for thread in released:
                thread.grid.ready.append(thread)


def of_all(routine: str) -> str:
    """What is to be done where some threads have ended without a routine that is for all of a group."""
    single = routine.removesuffix("_work_group").removesuffix("_warp")
    there = getattr(sys.modules.get(_LANGUAGE.module), "__all__", ())
    other = f", or call {single}, which one thread calls" if single in there else ""
    return f"; let all of them reach it, with no return before it and no if around it{other}"


def _lines(threads: list[SimThread]) -> str:
    """Where in the program threads are: ", at " and file and line."""
    lines: dict[str, None] = {}
    for thread in threads:
        if frame := program_frame(thread.green.gr_frame or sys._getframe()):
            lines[f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"] = None
    return f", at {', '.join(lines)}" if lines else ""


def _ranges(threads: list[SimThread]) -> str:
    """Their numbers in their blocks: "0-15, 18"."""
    numbers = sorted({thread.thread_id for thread in threads})
    first = [n for n in numbers if n - 1 not in numbers]
    last = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True))


class Block(Group):
    MEETING = "syncthreads"

    def __init__(self, index: int, dynshared_size: int) -> None:
        super().__init__(f"block {index}")
        self.index = index
        self.shared = KernelShared(dynshared_size)


class SimThread:
    """One CUDA thread. The names in camel case are what Numba's simulator reads."""

    __slots__ = (
        "block", "blockIdx", "given", "green", "grid", "meets", "pending", "routine", "threadIdx",
        "thread_id", "warp",
    )  # fmt: skip

    def __init__(self, grid: Grid, block: Block, warp: Group, place: Any, body: Any) -> None:
        self.grid, self.block, self.warp = grid, block, warp
        self.blockIdx, self.threadIdx, self.thread_id = place
        self.routine = ""  # of the device library that it is in
        self.given: dict[str, Any] = {}  # to the routine of a group that it is in: numbers
        self.meets = ""  # what routine it waits in, of those that wait
        self.pending: Any = None  # of ``record``: what its group does when it has met
        self.green = greenlet(body, parent=grid.hub)
        for group in (block, warp, grid):
            group.join()

    def block_until_ready(self) -> None:
        """Runs others until a group puts this thread back on the ready queue."""
        self.grid.hub.switch()

    def syncthreads(self) -> None:
        self.block.wait(self)

    def syncthreads_count(self, value: Any) -> int:
        return sum(1 for item in self.block.gather(self, value) if item)

    def syncthreads_and(self, value: Any) -> int:
        return int(all(self.block.gather(self, value)))

    def syncthreads_or(self, value: Any) -> int:
        return int(any(self.block.gather(self, value)))


def name_thread(error: BaseException, thread: Iterable[int], block: Iterable[int]) -> None:
    """Put the thread before the text of what a debug kernel has raised, as Numba does."""
    where = f"tid={list(thread)} ctaid={list(block)}"
    first, *others = error.args or ("",)
    error.args = (f"{where}: {first}" if str(first) else where, *others)


class Grid(Group):
    """One kernel launch."""

    MEETING = "the grid's barrier"

    #: Sleep between rounds in which every thread only polled, in seconds: first and longest.
    IDLE = (20e-6, 1e-3)

    def __init__(self, kernel: Any, grid_dim: Any, block_dim: Any, arguments: list[Any]) -> None:
        super().__init__("the grid")
        self.name = kernel.fn.__qualname__
        self.blocks = grid_dim[0] * grid_dim[1] * grid_dim[2]
        self.hub = getcurrent()
        self.ready: deque[SimThread] = deque()
        self.pausing = 0
        self.number: int | None = None  # its word MODULE, where that is not the state block's
        self.internal = False  # the library's own, beside the program's
        self.at: SimThread | None = None  # that runs; not behind the end, as it knows the grid
        self.agent = 0  # of ``record``: what put it on a stream, or the host
        self.stages: dict[tuple[int, str], tuple[int, int]] = {}  # begun by first threads of blocks
        self.swapped: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.groups: list[Group] = [self]
        self.module = kernelapi.FakeCUDAModule(grid_dim, block_dim, kernel.dynshared_size)
        self.module._local = KernelLocal()
        self.debug = bool(getattr(kernel, "_debug", False))
        body = self._body(kernel.fn, arguments)
        for block_number, block_point in enumerate(_points(grid_dim)):
            block = Block(block_number, kernel.dynshared_size)
            block_index = kernelapi.Dim3(*block_point)
            self.groups.append(block)
            warp = Group("")
            for thread_id, thread_point in enumerate(_points(block_dim)):
                if thread_id % WARP == 0:
                    warp = Group(f"warp {thread_id // WARP} of block {block_number}")
                    self.groups.append(warp)
                place = (block_index, kernelapi.Dim3(*thread_point), thread_id)
                self.ready.append(SimThread(self, block, warp, place, body))

    def _body(self, function: Callable[..., Any], arguments: list[Any]) -> Callable[[], None]:
        def body() -> None:
            with np.errstate(over="ignore"):  # integers of kernels wrap around
                function(*arguments)

        def debugged() -> None:
            with np.errstate(over="ignore", divide="raise"):
                function(*arguments)

        return debugged if self.debug else body

    def run(self) -> None:
        idle = self.IDLE[0]
        while self.ready:
            # The waits' clock leaves out what passed without a look at it: the waits' own are too rare.
            lib.ishmemx_leaf_time_awake()
            self.pausing = 0
            round_size = len(self.ready)
            for _ in range(round_size):
                if not self.ready:
                    break
                thread = self.ready.popleft()
                running.thread = self.at = thread
                try:
                    thread.green.switch()
                    if thread.green.dead:
                        for group in (thread.warp, thread.block, self):
                            group.leave()
                except BaseException as error:
                    if self.debug:
                        name_thread(error, thread.threadIdx, thread.blockIdx)
                    error.add_note(
                        f"in simulated kernel {self.name}, block {tuple(thread.blockIdx)}, "
                        f"thread {tuple(thread.threadIdx)}"
                    )
                    raise
            if RECORD is not None and RECORD.turned(self, self.pausing >= round_size):
                continue
            if self.pausing >= round_size:  # nobody did anything but poll: others need the core
                time.sleep(idle)
                idle = min(2 * idle, self.IDLE[1])
            else:
                idle = self.IDLE[0]
        if self.live:
            first = next(group.waiting[0] for group in self.groups if group.waiting)
            raise RuntimeError(
                f"simulated kernel {self.name} deadlocked: {self.live} threads wait in a barrier "
                f"that the others do not reach: {self._stands(first.block)}"
            )

    def _stands(self, block: Block) -> str:
        """Which threads of ``block`` wait where, and how many have ended."""
        places: dict[str, list[SimThread]] = {}
        for group in self.groups:
            for thread in group.waiting:
                if thread.block is block:
                    places.setdefault(thread.meets or group.MEETING, []).append(thread)
        told = [f"threads {_ranges(places[place])} at {place}" for place in places]
        if block.live < block.size:
            told.append(f"{block.size - block.live} of its {block.size} have ended")
        return f"{block.name}: {'; '.join(told)}"

    @contextmanager
    def active(self) -> Iterator[None]:
        try:
            with push_context(self.module), refused(_LANGUAGE):
                yield
        finally:
            running.thread = self.at = None
            for namespace, original in self.swapped.values():
                namespace.update(original)

    def enter(self, function: Callable[..., Any]) -> None:
        """Puts the simulated ``cuda`` module into the globals of a kernel or device function.

        And stand-ins for routines of the host that they import by name.

        Once a launch: its threads interleave, so nobody may put the real one back before the end.
        """
        namespace = function.__globals__
        if id(namespace) not in self.swapped:
            from numba import cuda

            # Or that of a launch which two exceptions have ended: launches take turns.
            original = {
                key: cuda
                for key, value in namespace.items()
                if value is cuda or isinstance(value, kernelapi.FakeCUDAModule)
            }
            routines = stand_ins_in(namespace)
            restored = original | {key: namespace[key] for key in routines}
            self.swapped[id(namespace)] = (namespace, restored)
            namespace.update(dict.fromkeys(original, self.module) | routines)


def _points(dim: Any) -> Iterator[tuple[int, int, int]]:
    """Indices of a grid or block, x fastest, as CUDA counts them."""
    for z in range(dim[2]):
        for y in range(dim[1]):
            for x in range(dim[0]):
                yield x, y, z


class _Running(threading.local):
    """The CUDA thread that this thread of the process runs: streams have threads of their own."""

    thread: SimThread | None = None


running = _Running()


def running_here() -> SimThread | None:
    """The CUDA thread whose code the caller is; not one whose launch an exception has ended."""
    thread = running.thread
    return thread if thread is not None and thread.green is getcurrent() else None


_LANGUAGE = Language("pyshmem.device", lambda: running_here() is not None)


def current(routine: str | None = None) -> SimThread:
    """The running CUDA thread. ``routine``: what a kernel has called, for who calls it elsewhere."""
    thread = running.thread
    if thread is None:
        refuse_host(routine)
    return thread


def pause() -> None:
    """One turn of a spin wait: the other threads run first."""
    thread = current()
    thread.grid.pausing += 1
    thread.grid.ready.append(thread)
    thread.grid.hub.switch()
