# SPDX-License-Identifier: BSD-3-Clause
"""Launches of simulated kernels, and what they see of Numba: its simulator's calls, replaced."""

from __future__ import annotations

import copy
import math
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.cuda.simulator import kernel as numba_kernel

from ...._core.arrays.checks import SymmetricArray, beyond_kernels, gone, masked
from ...._core.library import checks_order, lib
from ...._foreign import numba_simulator
from ....host.job.tracebacks import launched_at
from ....host.kernels import sim_calls, watch
from ...state import P2P
from . import checked_streams, greenlets, language, queued, source
from .arrays import kernel_array, store
from .greenlets import Grid, SimThread, current, pause, running, running_here
from .threads import STATE

_MOST_THREADS = 1024  # of a block


def _by_reference(argument: Any) -> bool:
    """Arrays on the symmetric heap, and views of them; ValueError: gone, or on a heap out of reach."""
    base = argument
    while isinstance(base, np.ndarray):
        if isinstance(base, SymmetricArray):
            if why := gone(base):
                raise ValueError(f"an array given to a kernel cannot be used any more: {why}")
            if STATE and STATE[P2P] and (why := beyond_kernels(base)):
                raise ValueError(f"an array given to a kernel cannot be used: {why}")
            return True
        base = base.base
    return False


def _launch(kernel: Any, *arguments: Any, **named: Any) -> Any:
    """Replaces the simulator's kernel call: launches from the host, calls from kernels."""
    if (thread := running_here()) is not None:
        thread.grid.enter(kernel.fn)
        source.check(kernel.fn, True)
        return kernel.fn(*arguments, **named)
    if named:
        raise TypeError(
            f"kernel {kernel.fn.__qualname__} is launched with {next(iter(named))}=: by position alone"
        )
    handle = queued.handle_of(kernel.stream)
    if handle or looks_at_source:
        source.check(kernel.fn, False)
        source.check_arguments(kernel.fn, arguments)
    if handle:
        return _queue(kernel, arguments, handle)
    checked_streams.finish_all()
    with _one_kernel(), _turn:
        greenlets.launched = launched_at(sys._getframe(1))
        try:
            return _run(kernel, arguments)
        finally:
            greenlets.launched = ""


#: Kernels that several threads launch run one after the other. Taken by ``with`` alone, and the lock of
#: its thread: an exception of a signal's handler finds no moment at which it would stay taken.
_turn = threading.RLock()


def _one_kernel() -> AbstractContextManager[None]:
    """While it is recorded what kernels do, they may have to wait for each other otherwise."""
    return nullcontext() if greenlets.RECORD is None else greenlets.RECORD.one_kernel()


def _run(kernel: Any, arguments: tuple[Any, ...]) -> None:
    number = _check(kernel)
    write_back: list[Callable[[], None]] = []
    arguments = declared(kernel, arguments)
    given = _arguments(kernel, arguments, write_back)
    _run_active(kernel, _dimensions(kernel), given, number, greenlets.launched)
    for copy_back in write_back:
        copy_back()
    _check(kernel)


def _check(kernel: Any) -> int | None:
    """Raise what a kernel has recorded; else the word MODULE of this one."""
    numbers = [ask(kernel.fn.__qualname__) for ask in launch_checks]
    return numbers[-1] if numbers else None


def _dimensions(kernel: Any) -> Any:
    """Blocks and threads, within what every GPU takes. A kernel without a configuration has none."""
    grid, block = kernel.grid_dim, kernel.block_dim
    if grid is None or block is None:
        numba_kernel.normalize_kernel_dimensions(grid, block)  # which says how a kernel gets one
    if min(*grid, *block) < 1 or math.prod(block) > _MOST_THREADS:
        raise ValueError(
            f"kernel {kernel.fn.__qualname__} is launched with {grid} blocks of {block} threads: each "
            f"number is at least 1, and a block has {_MOST_THREADS} threads at most"
        )
    return grid, block


def _interpret(kernel: Any, dimensions: Any, arguments: list[Any], number: int | None) -> None:
    grid = Grid(kernel, dimensions[0], dimensions[1], arguments)
    grid.number = number
    _grids[threading.get_ident()] = grid
    with grid.active():
        grid.enter(kernel.fn)
        if greenlets.RECORD is None:
            grid.run()
            return
        threads = math.prod(dimensions[1])
        greenlets.RECORD.begins(grid, threads)
        try:
            grid.run()
        finally:  # of a kernel that raises no thread goes on either
            greenlets.RECORD.ends(grid, threads)


def _seen(function: Any, dimensions: Any, launched: str) -> watch.Kernel:
    """What reports say of a kernel that does not end."""

    def text() -> str:
        code = function.__code__
        file = Path(code.co_filename).name
        extents = (str(d[0]) if d[1:] == (1, 1) else str(d) for d in map(tuple, dimensions))
        name = f"{function.__qualname__} ({file}:{code.co_firstlineno})"
        return f"{name}{launched} with [{', '.join(extents)}]"

    here = threading.get_ident()

    def threads() -> list[tuple[str, Any]]:
        grid = _grids.get(here)
        some = [] if grid is None else [*tuple(grid.ready)[: watch.MOST], grid.at]
        return [
            (f"block {t.block.index}, thread {t.thread_id}", t.green.gr_frame)
            for t in some
            if t is not None
        ]

    interpreted = run_grid_of is _interpret
    return watch.Kernel(
        function.__qualname__, text, threads if interpreted else None, bool(launched)
    )


#: The grids that are interpreted, by the thread that does it.
_grids: weakref.WeakValueDictionary[int, Grid] = weakref.WeakValueDictionary()

#: Runs a kernel's grid, given its dimensions, its arguments and its word MODULE: device cpu has another.
run_grid_of: Callable[[Any, Any, list[Any], int | None], None] = _interpret


def _run_active(
    kernel: Any, dimensions: Any, arguments: list[Any], number: int | None, launched: str = ""
) -> None:
    """``launched``: where, if the launch waits for the kernel."""
    seen = _seen(kernel.fn, dimensions, launched)
    try:
        watch.as_kernel(seen, lambda: run_grid_of(kernel, dimensions, arguments, number))
    finally:
        lib.ishmemx_sim_kernel_ends()


def _queue(kernel: Any, arguments: tuple[Any, ...], handle: int) -> None:
    """Launch in the order of a stream. Faults stay recorded for the next call of the host."""
    captured = sim_calls.is_captured(handle)
    number, dimensions = _check(kernel), _dimensions(kernel)
    arguments = declared(kernel, arguments)
    write_back: list[Callable[[], None]] = []
    given = _arguments(kernel, arguments, write_back)
    if write_back and captured:
        raise ValueError(
            "an array in host memory is given to a kernel while its stream is captured; "
            "give one on the device heap or of cuda.to_device"
        )

    def run() -> None:
        with _one_kernel(), _turn:
            _run_active(kernel, dimensions, given, number)

    if greenlets.RECORD is not None:
        run = greenlets.RECORD.put(handle, captured, run)
    sim_calls.put(handle, kernel.fn.__qualname__, run, captured=captured)
    if write_back:  # Numba waits for these copies on a GPU too
        queued.finish(handle)
        for copy_back in write_back:
            copy_back()


_getitem = numba_kernel.FakeCUDAKernel.__getitem__


def configure(kernel: Any, configuration: tuple[Any, ...]) -> Any:
    """The kernel with a configuration, to launch as often as one likes.

    A copy: Numba's simulator keeps the last one in the kernel, for all who have configured it.
    """
    if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
        name = kernel.fn.__name__
        raise TypeError(
            f"kernel {name} is launched as {name}[blocks, threads](...), behind them a stream and bytes "
            f"of shared memory where they are needed; in the brackets is {configuration!r}"
        )
    if len(configuration) > 2 and isinstance(
        configuration[2], (str, bytes, float, tuple, list, dict)
    ):
        kind = type(configuration[2]).__name__
        raise TypeError(
            f"the stream of kernel {kernel.fn.__name__} is a {kind}; 0 stands for the default one"
        )
    kernel = copy.copy(kernel)
    kernel.stream = configuration[2] if len(configuration) > 2 else 0  # Numba's drops it
    return _getitem(kernel, configuration)


_forall = numba_kernel.FakeCUDAKernel.forall


def for_all(kernel: Any, ntasks: int, *shape: Any, **named: Any) -> Any:
    """Of no tasks there is no launch, as on a GPU."""
    return (lambda *_: None) if ntasks == 0 else _forall(kernel, ntasks, *shape, **named)


class _Bare(NamedTuple):
    """What a grid reads of a kernel; this one is no Numba kernel."""

    fn: Callable[..., Any]
    dynshared_size: int = 0


def run_grid(
    function: Callable[..., Any], blocks: int, threads: int, arguments: list[Any], number: int
) -> None:
    """Run a function of the device library alone, beside what other threads of the process run.

    ``number``: its word MODULE. Faults stay recorded for the next call of the host.
    """
    grid = Grid(_Bare(function), (blocks, 1, 1), (threads, 1, 1), arguments)
    grid.number, grid.internal = number, True
    try:
        grid.run()
    finally:
        running.thread = grid.at = None
    lib.ishmemx_sim_kernel_ends()


def _real_cuda(_module: Any, name: str) -> Any:
    """What only the host uses, ``synchronize`` for one, while another thread's kernel runs."""
    from numba import cuda

    if running_here() is not None or name not in vars(cuda):
        raise AttributeError(f"kernels have no cuda.{name}")
    return vars(cuda)[name]


def _of_kernels(name: str) -> Any:
    """``numba.cuda.NAME`` of kernels that find ``cuda`` elsewhere than in their module's globals.

    It may be a variable of the function around them, or be written out.
    """
    if (thread := running.thread) is None:
        raise AttributeError(f"module 'numba.cuda' has no attribute {name!r}")
    return getattr(thread.grid.module, name)


def _tuple(like: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """A tuple, or a named one, as kernels take them."""
    return type(like)(*items) if hasattr(like, "_fields") else tuple(items)


def _arguments(
    kernel: Any, arguments: tuple[Any, ...], write_back: list[Callable[[], None]]
) -> list[Any]:
    """The arguments as kernels see them. An error's note says which one it is of."""
    given: list[Any] = []
    try:
        for argument in arguments:
            given.append(_argument(kernel, argument, write_back))
    except (TypeError, ValueError) as error:
        code = kernel.fn.__code__
        if len(given) < code.co_argcount:
            name = code.co_varnames[len(given)]
            error.add_note(f"it is argument {name} of kernel {kernel.fn.__qualname__}")
        raise
    return given


def _argument(kernel: Any, argument: Any, write_back: list[Callable[[], None]]) -> Any:
    if isinstance(argument, tuple):
        return _tuple(argument, [_argument(kernel, item, write_back) for item in argument])
    for extension in kernel.extensions:
        _, argument = extension.prepare_args(None, argument, stream=0, retr=write_back)
    if isinstance(argument, np.ma.MaskedArray):
        raise masked("an array given to a kernel")
    if isinstance(argument, (list, dict, set, str, bytes)) or argument is None:
        kind = type(argument).__name__
        raise TypeError(
            f"an argument of a kernel is a {kind}; kernels take arrays, numbers and tuples"
        )
    getattr(argument, "_numba_type_", None)  # which teams and contexts raise, as on a GPU
    if _by_reference(argument):
        return array_seen(argument.view(np.ndarray))
    argument = foreign(argument)
    if isinstance(argument, np.ndarray) and argument.ndim > 0:
        argument = numba_kernel.InOut(argument).to_device(write_back)
    elif isinstance(argument, numba_kernel.ArgHint):
        argument = argument.to_device(write_back)
    if isinstance(argument, numba_kernel.FakeCUDAArray):
        inner = argument._ary
        if isinstance(inner, np.ndarray):
            argument = numba_kernel.FakeCUDAArray(array_seen(inner), argument.stream)
        return numba_kernel.FakeWithinKernelCUDAArray(argument)
    return argument


def _as_it_is(argument: Any) -> Any:
    return argument


#: Arguments as the kernel's signature has them: device cpu converts them by itself.
declared: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]] = language.as_declared
#: Is a kernel's source looked at by its launch? Device cpu does it before it compiles.
looks_at_source = True
#: An array of NumPy's as kernels see it: device cpu has another.
array_seen: Callable[[np.ndarray], Any] = kernel_array
#: Of an argument an array of Numba's where it is another library's: device cpu has another.
foreign: Callable[[Any], Any] = _as_it_is
#: Called with the kernel's name before and after every launch; ``jit.modules`` adds one for faults,
#: which returns the kernel's word MODULE.
launch_checks: list[Callable[[str], int]] = []


class _CurrentThread:
    """Stands in for ``threading`` in Numba's simulator."""

    @staticmethod
    def current_thread() -> SimThread:
        return current()


def install(finish_all: Callable[[], None], compiled: bool) -> None:
    """Patches Numba's simulator. ``pyshmem.device`` does it on import when the simulator is on.

    Args:
        finish_all: waits for all streams.
        compiled: kernels are compiled for the CPU.
    """
    if checks_order():
        from . import record

        greenlets.RECORD = record
        record.install()
    queued.install(finish_all)
    numba_simulator.LAUNCH.replace(_launch)
    numba_simulator.CONFIGURE.replace(configure)
    numba_simulator.FOR_ALL.replace(for_all)
    numba_simulator.COOPERATIVE_BLOCKS.replace(lambda self, *_: 1 << 20)
    numba_simulator.THREADING.replace(_CurrentThread)
    numba_simulator.GRID_SYNC.replace(lambda self: current().grid.wait(current()))
    numba_simulator.STORE.replace(store)
    numba_simulator.SHARED.replace(property(lambda self: current().block.shared))
    numba_simulator.look_up(_real_cuda, _of_kernels)
    additions: dict[str, Callable[..., Any]] = {
        "activemask": lambda self: (1 << current().warp.live) - 1,
        "nanosleep": lambda self, _ns: pause(),
    }
    numba_simulator.add(additions)
    language.install(compiled)
