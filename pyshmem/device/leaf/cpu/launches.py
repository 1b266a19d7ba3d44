# SPDX-License-Identifier: BSD-3-Clause
"""Launches of kernels that are compiled for the CPU: what of the simulator's launch differs.

Arguments, streams, heaps and checks are the simulator's (``leaf.sim.launches``); here its functions
``run_grid`` and ``run_grid_of`` get bodies that compile a kernel and run its threads as fibers.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import callconv, cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.target_extension import target_override
from numba.core.typing import signature
from numba.extending import intrinsic

from ...._core.library import ffi, lib, not_initialized, setting_number
from ...._foreign import numba_cpu, numba_errors, numba_simulator
from ....host.kernels import watch
from ..sim import greenlets, source
from ..sim import launches as simulated
from ..sim.arrays import ndarray_of, require_dtype
from ..sim.greenlets import name_thread
from . import atomics as atomics  # fills the names of cuda
from . import half_math as half_math
from . import kept_code, routines
from . import language as language
from . import libdevice as libdevice
from . import vectors as vectors
from .memory import STATE, STATE_NAME
from .target import (
    DECLARED,
    I32,
    I64,
    NAME,
    POINTER,
    KernelDispatcher,
    compiled,
    dispatcher_of,
    options_of,
    runtime_function,
)

_EXCEPTION = ffi.offsetof("ishmemx_cpu_launch_t", "exception")


def _entry(context: Any, builder: Any, callee: Any, kinds: Any, packed: Any) -> Any:
    """A function of C, ``int32_t entry(void *arguments, void **exception)``, which calls the kernel."""
    module = builder.module
    form = ir.FunctionType(I32, [POINTER, POINTER.as_pointer()])
    entry = ir.Function(module, form, module.get_unique_name("pyshmem_entry"))
    entry.linkage = "internal"
    inner = ir.IRBuilder(entry.append_basic_block("entry"))
    place = inner.bitcast(entry.args[0], packed.as_pointer())
    exception = inner.bitcast(entry.args[1], callee.args[1].type)
    values = []
    for at, kind in enumerate(kinds):
        field = inner.gep(place, [I32(0), I32(at)])
        if isinstance(kind, types.Record):
            values.append(inner.load(field))
        else:
            model = context.data_model_manager[kind]
            values.append(model.load_from_data_pointer(inner, field))
    packer = context.get_arg_packer(kinds)
    result = cgutils.alloca_once(inner, callee.args[0].type.pointee)
    code = inner.call(callee, [result, exception, *packer.as_arguments(inner, values)])
    is_none = inner.icmp_signed("==", code, callconv.RETCODE_NONE)  # a function without a result
    inner.ret(inner.select(is_none, callconv.RETCODE_OK, code))
    return entry


def _packed_form(context: Any, kind: Any) -> Any:
    """Of an argument. A record stays where the host has it, which sees what is written to it."""
    if isinstance(kind, types.Record):
        return context.get_value_type(kind)
    return context.data_model_manager[kind].get_data_type()


def _launcher_of(dispatcher: Any, name: str) -> Any:
    """A compiled function of the launch's address and the kernel's arguments, as a tuple."""

    @intrinsic
    def run(_context: Any, launch: Any, arguments: Any) -> Any:
        kinds = tuple(map(types.unliteral, arguments))

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            dispatcher.compile(kinds)
            overload = dispatcher.overloads[kinds]
            context.active_code_library.add_linking_library(overload.library)
            callee = context.declare_function(builder.module, overload.fndesc)
            packed = ir.LiteralStructType([_packed_form(context, kind) for kind in kinds])
            memory = cgutils.alloca_once(builder, packed)
            for at, kind in enumerate(kinds):
                value = builder.extract_value(args[1], at)
                if not isinstance(kind, types.Record):
                    value = context.data_model_manager[kind].as_data(builder, value)
                builder.store(value, builder.gep(memory, [I32(0), I32(at)]))
            entry = _entry(context, builder, callee, kinds, packed)
            start = runtime_function(
                builder.module, "pysh_cpu_run", I32, [I64, entry.type, POINTER]
            )
            code = builder.call(start, [args[0], entry, builder.bitcast(memory, POINTER)])
            place = builder.inttoptr(builder.add(args[0], I64(_EXCEPTION)), I64.as_pointer())
            numba_cpu.propagate(context, builder, code, builder.load(place))
            return code

        return signature(types.int32, types.int64, arguments), codegen

    def launcher(launch: int, arguments: Any) -> int:
        code: int = run(launch, arguments)
        return code

    launcher.__name__ = launcher.__qualname__ = f"launcher_{name}"
    return compiled(launcher, no_cpython_wrapper=False)


class _Launcher(NamedTuple):
    """``function`` takes the launch's address and the arguments."""

    function: Any
    uses_state: bool


_numbers = itertools.count()
#: Numbers whose Python type alone says Numba's; of others, as times with their units, Numba is asked.
_SCALARS = frozenset([bool, float, complex, *(np.dtype(code).type for code in "?bhilqBHILQefdFD")])


def _form(argument: Any) -> Any:
    """What Numba's type of an argument follows from, found in less time; None: Numba is asked."""
    kind = type(argument)
    if kind is np.ndarray:
        dtype = argument.dtype
        plain = dtype.names is None and dtype.kind not in "mM"
        return (dtype, argument.ndim, argument.flags.num) if plain else None
    if kind is int:
        return int if -(1 << 63) <= argument < 1 << 63 else None
    if kind is tuple:
        forms = tuple(map(_form, argument))
        return None if any(form is None for form in forms) else forms
    return kind if kind in _SCALARS else None


class Compiled:
    """A function's launchers as a kernel of some options, by the types of its arguments."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.launchers: dict[Any, _Launcher] = {}
        self.by_form: dict[Any, _Launcher] = {}
        self.text = ffi.new("char[]", kernel.fn.__qualname__.encode())
        name, code = kernel.fn.__qualname__, kernel.fn.__code__
        self.place = f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"
        if isinstance(kernel, _Function):  # the library's own
            self.place = f"{name.removesuffix('_on_stream')} on a stream"

    def launcher(self, arguments: tuple[Any, ...]) -> _Launcher:
        """For arguments of these types: known, kept in the store, or compiled now."""
        form = _form(arguments)
        made = None if form is None else self.by_form.get(form)
        if made is None:
            made = watch.compiling(self._for_types, typeof(arguments), arguments)
            if form is not None:
                self.by_form[form] = made
        return made

    def _for_types(self, kinds: Any, arguments: tuple[Any, ...]) -> _Launcher:
        made = self.launchers.get(kinds)
        if made is None:
            with global_compiler_lock:
                made = self.launchers[kinds] = self._make(kinds, arguments)
        return made

    def _compiled(self, kinds: Any, name: str) -> tuple[_Launcher, kept_code.Code | None]:
        """Raises: what is refused is told in a few lines."""
        try:
            return numba_cpu.with_room(self._compile, kinds, name)
        except Exception as error:
            failed = error
        raise numba_errors.short(self.kernel.fn, failed)

    def _make(self, kinds: Any, arguments: tuple[Any, ...]) -> _Launcher:
        """What is refused is kept, too: the other PEs, and the next job, need not compile to be told.

        A kernel whose code is kept has a source that no check refused, and what it names is the same.
        """
        name = kept_code.digest_of(self.kernel.fn, kinds, repr(options_of(self.kernel)))
        own: list[_Launcher] = []
        told: list[Exception] = []

        def make() -> kept_code.Code | kept_code.Refusal | None:
            source.check(self.kernel.fn, False)
            source.check_arguments(self.kernel.fn, arguments)
            try:
                made, code = self._compiled(kinds, name or f"own{next(_numbers)}")
            except Exception as error:
                told.append(error)
                if name and (refusal := kept_code.refusal_of(error)):
                    return refusal
                raise
            own.append(made)
            return code

        def use(kept: kept_code.Code) -> _Launcher | None:
            return own[0] if own else _load(kept)

        made = None
        try:
            made = kept_code.kept(name, make, use) if name else None
        except kept_code.Refused as refused:
            told.append(refused.args[0])
        if told:
            raise told[0]
        if made is None and not own:
            make()
        return made or own[0]

    def _compile(self, kinds: Any, name: str) -> tuple[_Launcher, kept_code.Code | None]:
        dispatcher = _launcher_of(dispatcher_of(self.kernel), name)
        with target_override(NAME):  # what lowering alone calls for is of this target, too
            dispatcher.compile((types.int64, kinds))
        result = dispatcher.overloads[types.int64, kinds]
        text = result.library.get_llvm_str()
        needs = result.library.needs()  # routines of the library, which all look at the state
        made = _Launcher(result.entry_point, bool(needs) or STATE_NAME in text)
        if "numba.dynamic.globals" in text:  # addresses of this process
            return made, None
        code = numba_cpu.object_code(result.library)
        entry, environment = result.fndesc.llvm_cpython_wrapper_name, result.fndesc.env_name
        return made, kept_code.Code(code, entry, environment, made.uses_state, needs)


def _load(kept: kept_code.Code) -> _Launcher | None:
    """None: a routine that it calls is not kept any more."""
    if not routines.load(kept.needs):
        return None
    context = KernelDispatcher.targetdescr.target_context
    owner = sys.modules[__name__]
    function = numba_cpu.loaded(context, kept.code, kept.entry, kept.environment, owner)
    return _Launcher(function, kept.uses_state)


def compiled_kernel(kernel: Any) -> Compiled:
    made = vars(kernel.fn).get("__pyshmem_launcher__")
    if made is None:
        kernel.fn.__pyshmem_launcher__ = made = {}
    options = bool(kernel._fastmath), bool(kernel._debug)
    if options not in made:
        made[options] = Compiled(kernel)
    return made[options]


def _as_declared(kernel: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers as the kernel's signature has them, which a GPU's launch makes of what it is given."""
    numbers = numba_cpu.numbers_of(getattr(kernel, DECLARED, ()))
    if numbers is None or len(numbers) != len(given):
        return given
    return tuple(
        value if dtype is None else np.asarray(value).astype(dtype)[()]
        for dtype, value in zip(numbers, given, strict=True)
    )


def workers() -> int:
    """Threads of the process that run the blocks of a launch."""
    wanted = setting_number("CPU_THREADS")
    if wanted > 0:
        return int(wanted)
    cores = len(os.sched_getaffinity(0))
    n_pes = lib.ishmemx_n_pes() if STATE.filled else 1
    return max(1, cores // max(1, int(n_pes)))


def _plain(argument: Any) -> Any:
    """What the launcher takes: arrays of NumPy, records, numbers and tuples of them."""
    if type(argument) is np.ndarray:
        return argument
    if isinstance(argument, tuple):
        items = [_plain(item) for item in argument]
        return type(argument)(*items) if hasattr(argument, "_fields") else tuple(items)
    if isinstance(argument, (bool, int, float, complex, np.generic)):
        return argument
    try:
        return ndarray_of(argument).view(np.ndarray)
    except TypeError:
        return getattr(argument, "_item", argument)


def run(kernel: Any, dimensions: Any, arguments: list[Any], number: int | None) -> None:
    """Run one launch, and raise what its threads raised."""
    made = compiled_kernel(kernel)
    given = _as_declared(kernel, tuple(_plain(argument) for argument in arguments))
    launcher = made.launcher(given)
    if launcher.uses_state and not STATE.filled:
        raise not_initialized("a kernel uses pyshmem.device")
    launch = ffi.new("ishmemx_cpu_launch_t *")
    launch.blocks, launch.threads = dimensions
    launch.workers, launch.module = workers(), -1 if number is None else number
    launch.shared_bytes = kernel.dynshared_size
    launch.interruptible = threading.current_thread() is threading.main_thread()
    launch.name = made.text
    if number is not None:
        shown = f"{made.place}{greenlets.launched}"
        lib.ishmemx_name_set(lib.ISHMEMX_NAME_KERNEL, number, shown.encode())
    here, address = threading.get_ident(), int(ffi.cast("intptr_t", launch))
    watch.launches[here] = address
    try:
        launcher.function(address, given)
    except Exception as error:
        if kernel._debug:
            name_thread(error, launch.thread, launch.block)
        error.add_note(f"in kernel {kernel.fn.__qualname__}, {_where(launch)}")
        raise
    finally:
        del watch.launches[here]
        language.show_printed(launch.printed, launch.n_printed)
        lib.ishmemx_cpu_forget(launch)
    _raise(kernel, launch)


def _where(launch: Any) -> str:
    return f"block {tuple(launch.block)}, thread {tuple(launch.thread)}"


def _raise(kernel: Any, launch: Any) -> None:
    """What ended the launch, when it was no exception of the kernel's."""
    name = kernel.fn.__qualname__
    if launch.end == lib.ISHMEMX_CPU_NOT_ALL:
        text = ffi.string(launch.text).decode(errors="replace")
        way = "" if text.startswith("threads") else greenlets.of_all(text.partition(" ")[0])
        place = compiled_kernel(kernel).place
        raise RuntimeError(f"{text}, in kernel {place}, block {tuple(launch.block)}{way}")
    if launch.end == lib.ISHMEMX_CPU_INTERRUPTED:
        raise KeyboardInterrupt(f"in kernel {name}")
    if launch.end == lib.ISHMEMX_CPU_GIVEN_UP:
        raise watch.given_up()
    if launch.end == lib.ISHMEMX_CPU_NO_STATE:
        raise not_initialized("a kernel uses pyshmem.device")
    if launch.end == lib.ISHMEMX_CPU_OUT_OF_BOUNDS:
        text = ffi.string(launch.text).decode(errors="replace")
        raise IndexError(f"{text}, in kernel {name}, {_where(launch)}")
    if launch.end == lib.ISHMEMX_CPU_FAILED:
        text = ffi.string(launch.text).decode()
        what = "deadlocked" if " at " in text else "failed"
        raise RuntimeError(f"kernel {name} {what}: {text}")


class _Function:
    """A function of the device library, as a kernel."""

    dynshared_size, _fastmath, _debug = 0, False, False

    def __init__(self, function: Any) -> None:
        self.fn = function


def run_function(
    function: Any, blocks: int, threads: int, arguments: list[Any], number: int
) -> None:
    """A kernel of calls on streams. Faults stay recorded for the next call of the host."""
    run(_Function(function), ((blocks, 1, 1), (threads, 1, 1)), arguments, number)
    lib.ishmemx_sim_kernel_ends()


def _given(array: np.ndarray) -> np.ndarray:
    """``array`` as a launch takes it. TypeError: a GPU's kernels have no such dtype."""
    require_dtype(array)
    return array.view(np.ndarray)


def install() -> None:
    """Have the simulator's launches run compiled kernels."""
    simulated.array_seen, simulated.looks_at_source = _given, False
    simulated.run_grid_of, simulated.run_grid = run, run_function
    simulated.declared = lambda _kernel, given: given
    numba_simulator.keep_signatures(DECLARED, numba_cpu.signatures_of)
