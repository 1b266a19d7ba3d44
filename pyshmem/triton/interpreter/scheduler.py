# SPDX-License-Identifier: BSD-3-Clause
"""Triton's interpreter under a greenlet scheduler.

Triton interprets the programs of a grid one after the other, on copies of the arguments. Here each
program is a greenlet of one OS thread, a wait lets the others run, and arguments go in by reference, so
that what a peer stores while the kernel runs is seen. It is for correctness, not speed.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import threading
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton.language as tl
from greenlet import getcurrent, greenlet
from triton.runtime import interpreter

from ..._foreign import triton_interpreter as foreign
from ...host.job import runtime
from ...host.job.tracebacks import launched_at
from ...host.kernels import watch
from ...host.kernels.host_only import Language, refused, stand_ins_in
from ...host.teams.contexts import Context
from ...host.teams.team import Team
from ..runtime import context as job
from . import corrections, extents

#: The module ``record`` while PYSHMEM_CHECK=order.
RECORD: Any = None

_PACKAGE = __name__.partition(".")[0] + "."

_turn = threading.RLock()  # kernels that several threads launch run one after the other


class Ended(BaseException):
    """A program has recorded a fault and ends. Not an Exception: a kernel must not catch it."""


class Program:
    """One program of the grid: a greenlet."""

    def __init__(self, grid: Grid, number: int, place: tuple[int, ...]) -> None:
        self.grid, self.number, self.place = grid, number, place
        self.green = greenlet(grid.body, parent=grid.hub)
        # Of ``record``: the library's function that is at work, whether it is described, and how many
        # are around that hide elements; the last poll and the last load; meetings so far.
        self.routine, self.described, self.hidden = "", False, 0
        self.polled: Any = None
        self.loaded: Any = None
        self.met: Counter[Any] = Counter()
        self.inside = 0  # of ``late``: calls of the library's functions that it is in

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Elements that are touched meanwhile are the library's own."""
        self.hidden += 1
        try:
            yield
        finally:
            self.hidden -= 1


class Grid:
    """One kernel launch."""

    #: Sleep between rounds in which every program only waited, in seconds: first and longest.
    IDLE = (20e-6, 1e-3)

    def __init__(
        self, function: Any, dimensions: tuple[int, ...], arguments: dict[str, Any]
    ) -> None:
        self.name, text = job.describe_kernel(function)
        self.number = job.remember_kernel(self.name, text)
        job.name_launch(self.number, text + launched_at(sys._getframe(1)))
        self.dimensions = dimensions
        self.hub, self.thread = getcurrent(), threading.get_ident()
        self.pausing = self.yielding = 0
        self.met: Counter[Any] = Counter()  # of ``record``: meetings of whole grids
        self.internal = False  # of ``record``: a part of one of the library's routines
        self.function, self.arguments = function, arguments
        # The x axis is the fastest, as in CUDA: a program's number is its %ctaid.
        places = itertools.product(*(range(extent) for extent in reversed(dimensions)))
        self.ready = deque(
            Program(self, number, place[::-1]) for number, place in enumerate(places)
        )

    def body(self) -> None:
        try:
            self.function(**self.arguments)
        except Ended:
            return

    def run(self) -> None:
        global _current
        idle = self.IDLE[0]
        try:
            while self.ready:
                self.pausing = self.yielding = 0
                round_size = len(self.ready)
                for _ in range(round_size):
                    program = _current = self.ready.popleft()
                    _resume(program)
                if RECORD is not None and RECORD.turned(self, self.pausing >= round_size):
                    continue
                if self.pausing >= round_size:  # nobody did anything but wait: others need the core
                    time.sleep(idle)
                    idle = min(2 * idle, self.IDLE[1])
                else:
                    idle = self.IDLE[0]
                    if self.pausing + self.yielding >= round_size:
                        os.sched_yield()
        finally:
            _current = None


def _resume(program: Program) -> None:
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(*program.grid.dimensions)
    builder.set_grid_idx(*program.place)
    try:
        program.green.switch()
    except Exception as error:
        error.add_note(f"in interpreted kernel {program.grid.name}, program {program.place}")
        raise


_current: Program | None = None


def current() -> Program:
    """The running program."""
    if _current is None:
        raise RuntimeError(
            "pyshmem.triton functions are called from kernels, not from the host, which has its own: "
            "pyshmem.my_pe(), pyshmem.put(...); a kernel is launched with a grid, kernel[(1,)](...)"
        )
    return _current


def in_kernel() -> bool:
    """Does this thread run a program?"""
    return _current is not None and _current.grid.thread == threading.get_ident()


_LANGUAGE = Language("pyshmem.triton", in_kernel)


def pause(idle: bool = True) -> None:
    """One turn of a wait: the other programs run first. ``idle``: it did nothing but wait."""
    program = current()
    program.grid.pausing += idle
    program.grid.yielding += not idle
    program.grid.ready.append(program)
    program.grid.hub.switch()


# -- launches ----------------------------------------------------------------------------------------


def _extents(grid: Any) -> tuple[int, ...]:
    """The programs of a launch, by dimension."""
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
        raise TypeError(
            "a Triton kernel is launched with a grid, a tuple of one to three numbers of programs, "
            f"kernel[(4,)](...); in the brackets is {grid!r:.40}"
        )
    return tuple(int(extent) for extent in grid)


def _check_argument(name: str, argument: Any) -> None:
    """Refuse what no kernel can do anything with, and is meant otherwise."""
    told = ""
    if isinstance(argument, runtime.Job):
        told = "the job; give what pyshmem.triton.context() returns"
    elif isinstance(argument, Context):
        told = "a context of the host; give what pyshmem.triton.context() returns"
    elif isinstance(argument, Team):
        told = "a team; give its number, pyshmem.triton.team_number(team)"
    elif isinstance(argument, types.FunctionType):
        told = f"the function {argument.__name__}; what is meant may be {argument.__name__}()"
    if told:
        raise TypeError(f"{name}, an argument of the kernel, is {told}")


def _argument(name: str, argument: Any) -> Any:
    """As kernels see it; ``name``: what reports call it, empty in the library's own kernels."""
    if isinstance(argument, tuple):
        items = [_argument(name and f"{name}[{n}]", item) for n, item in enumerate(argument)]
        return type(argument)(*items) if hasattr(argument, "_fields") else tuple(items)
    if not hasattr(argument, "data_ptr") and hasattr(argument, "__array_interface__"):
        argument = job.wrap(argument)
    device = getattr(getattr(argument, "device", None), "type", "cpu")
    if device != "cpu":
        raise ValueError(
            f"Triton's interpreter was given a tensor on {device}: it needs host memory"
        )
    converted = foreign.implicit_cvt(argument)
    if name:
        extents.of_argument(name, argument, converted)
    return converted


def _language() -> None:
    """Its globals are what Triton looks at to see which modules it has to remap."""


def _call(executor: Any, *arguments: Any, **named: Any) -> None:
    """Replaces the interpreter's way through a grid."""
    known = inspect.getfullargspec(executor.fn).args
    bound = inspect.getcallargs(
        executor.fn, *arguments, **{key: value for key, value in named.items() if key in known}
    )
    for hook in executor.pre_run_hooks:
        hook(*arguments, **named)
    job.before_launch()
    with _turn:
        namespace = {"tl": tl, "core": tl.core, "__builtins__": __builtins__}
        try:
            scope = foreign.patch_lang(types.FunctionType(_language.__code__, namespace))
            # Triton's own takes scalars, which are arrays of one element, to int(): not with NumPy 2.4.
            scope.set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
            for name, value in bound.items():
                _check_argument(name, value)
            ours = executor.fn.__module__.startswith(_PACKAGE)
            converted = {
                name: value
                if name in executor.constexprs
                else _argument("" if ours else name, value)
                for name, value in bound.items()
            }
            grid = executor.grid(converted) if callable(executor.grid) else executor.grid
            extents = _extents(grid)
            dimensions = (*extents, *(1,) * (3 - len(extents)))
            with refused(_LANGUAGE):
                watch.as_kernel(
                    _seen(executor.fn, extents, launched_at(sys._getframe(1))),
                    lambda: _run(executor.fn, dimensions, converted),
                )
        finally:
            foreign.restore_lang()
    job.kernel_ends()
    job.after_launch()


def _seen(function: Any, extents: tuple[int, ...], launched: str) -> watch.Kernel:
    """What reports say of a kernel that does not end."""
    text = job.describe_kernel(function)[1]
    with_grid = f"{launched} with {extents}"

    def programs() -> list[tuple[str, Any]]:
        at = _current
        some = [] if at is None else [*tuple(at.grid.ready)[: watch.MOST], at]
        return [(f"block {p.number}", p.green.gr_frame) for p in some]

    return watch.Kernel(function.__name__, lambda: text + with_grid, programs, returns=True)


def _run(function: Any, dimensions: tuple[int, ...], arguments: dict[str, Any]) -> None:
    """A launch; routines of the host that the kernel's module imports by name have stand-ins, too."""
    namespace = function.__globals__
    routines = stand_ins_in(namespace)
    originals = {name: namespace[name] for name in routines}
    try:
        namespace.update(routines)
        grid = Grid(function, dimensions, arguments)
        if RECORD is None or not job.is_running():
            grid.run()
            return
        programs = len(grid.ready)
        RECORD.begins(grid)
        try:
            grid.run()
        finally:  # of a kernel that raises no program goes on either
            RECORD.ends(grid, programs)
    finally:
        namespace.update(originals)


def _call_device_function(function: Any, *arguments: Any, **named: Any) -> Any:
    """Calls of jitted functions from kernels: the language has been remapped for the whole launch.

    Raises: RuntimeError: the host calls it, without a grid.
    """
    if _current is None:
        name = function.fn.__name__
        raise RuntimeError(f"a kernel is launched with a grid, {name}[(1,)](...)")
    return function.rewrite()(*arguments, **named)


def _give_way(function: Any, polls: Callable[..., bool]) -> Any:
    """``function`` of the builder, and others run: kernels spin on atomics and on volatile loads."""

    def then_others(*arguments: Any) -> Any:
        result = function(*arguments)
        if _current is not None and polls(*arguments):
            pause(idle=False)
        return result

    return then_others


def install(record: Any = None) -> None:
    """Patches Triton's interpreter. ``pyshmem.triton`` does it on import when it is on.

    ``record``: the module of that name, where the checker of order is on.
    """
    global RECORD
    corrections.install()
    if record is not None:
        RECORD = record
        record.install()  # below what lets others run: an atomic's two records are one step
    extents.install()
    for atomic in foreign.ATOMICS:
        atomic.wrap(lambda plain: _give_way(plain, lambda *_: True))
    foreign.LOAD.wrap(lambda plain: _give_way(plain, lambda *given: given[-1]))
    foreign.SCOPE.replace(foreign.Scope)
    foreign.GRID.replace(_call)
    foreign.CALL.replace(_call_device_function)


class DeviceFunction:
    """A function of the library, rewritten for the interpreter at its first call."""

    def __init__(self, function: Any) -> None:
        self.fn = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._rewritten: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        current()
        if self._rewritten is None:
            self._rewritten = foreign.FunctionRewriter(self.fn).rewrite_ast()
            if RECORD is not None:
                self._rewritten = RECORD.called(self.fn, self._rewritten)
        return self._rewritten(*arguments, **named)
