# SPDX-License-Identifier: BSD-3-Clause
"""A target of Numba: its CPU's, where ``numba.cuda`` means what it means in kernels.

Nothing of it is seen by ``numba.njit``: names, options and implementations belong to this target alone.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import cuda, types
from numba.core import cgutils, errors, typing
from numba.core.decorators import jit
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import Registry
from numba.core.registry import CPUTarget
from numba.core.target_extension import (
    CPU,
    CUDA,
    dispatcher_registry,
    jit_registry,
    target_registry,
)
from numba.cuda.simulator.kernel import FakeCUDAKernel
from numba.extending import intrinsic
from numba.extending import register_jitable as register_jitable
from numba.extending import register_model as _register_of_numba
from numba.np import arrayobj

from ...._core.library import ffi, lib, setting_number
from ...._foreign import numba_cpu, numba_extending
from ....host.kernels.host_only import Language
from ..sim import source
from ..sim.arrays import DIVISION, ELEMENTS
from ..sim.callees import REDUCTIONS
from ..sim.language import DECLARED as DECLARED
from . import halves
from .numba_cuda import interface

NAME = "pyshmem_cpu"
#: How calls that Numba lowers by itself are lowered here; ``language`` fills it.
LOWER: dict[str, Any] = {}
#: What ``numba.cuda`` has in kernels, by name; ``language`` fills it.
LANGUAGE: dict[str, Any] = {}
#: Implementations that differ from those of Numba's CPU; ``language`` fills it.
OWN = Registry("pyshmem_cpu")
#: What stands for a value of Numba's in kernels, or None; ``libdevice`` and ``vectors`` add to it.
MEANINGS: list[Callable[[Any], Any]] = []
RANK = ffi.offsetof("ishmemx_cpu_thread_t", "rank")

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = I8.as_pointer()
VOID = ir.VoidType()

_OPTIONS = {
    "error_model": "numpy", "_nrt": False, "nogil": True, "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True, "boundscheck": False, "pipeline_class": numba_cpu.KernelCompiler,
}  # fmt: skip


_LANGUAGE = Language("pyshmem.device", lambda: False)


def _refuse_host_routine(value: Any) -> None:
    """TypingError: it is one of the package's, of which Numba says only that it knows no type of it."""
    name = getattr(value, "__name__", "")
    if name and getattr(sys.modules["pyshmem"], name, None) is value:
        advice = _LANGUAGE.advice(name, method=False)
        raise errors.TypingError(f"pyshmem.{name} is a host routine; {advice}")


def _check_source(function: Any) -> None:
    """TypingError: a function that a kernel calls has what no GPU compiles."""
    try:
        source.check(function, True)
    except TypeError as error:
        raise errors.TypingError(str(error)) from None


def _missing(name: str, known: Iterable[str] = ()) -> Exception:
    owner, _, last = name.rpartition(".")
    if last not in known and (near := difflib.get_close_matches(last, known, 1, 0.75)):
        return errors.TypingError(f"{owner} has no {last}: did you mean {near[0]}?")
    return errors.TypingError(
        f"{name} is not compiled for the CPU yet: run with --device sim, which interprets kernels"
    )


#: Statements that change a whole array, which Numba's CPU compiles, and its CUDA target does not.
_IN_PLACE = frozenset(
    [
        operator.iadd,
        operator.isub,
        operator.imul,
        operator.ifloordiv,
        operator.imod,
        operator.ipow,
    ]
)


def _not_on_gpus(what: str) -> Exception:
    return errors.TypingError(f"{what}: compilers for GPUs do not take it, {ELEMENTS}")


numba_cpu.refuse_divisions(lambda: _not_on_gpus(DIVISION))


class KernelTarget(CUDA, CPU):  # type: ignore[misc, unused-ignore]
    """What overloads of any target apply to, of the target ``cuda`` before the CPU's."""


class _Captured(types.Array):
    """Of a device array that a function names: Numba makes constants of others."""

    def copy(self, *_given: Any, **_named: Any) -> types.Array:
        return types.Array(self.dtype, self.ndim, self.layout)


class _Typing(typing.Context):
    """Types of what kernels name."""

    def load_additional_registries(self) -> None:
        super().load_additional_registries()
        self.install_registry(halves.typing_registry)

    def resolve_module_constants(self, typ: Any, attr: str) -> Any:
        if typ.pymod is not cuda:
            name = typ.pymod.__name__
            if name.startswith("numba.cuda.") and not hasattr(typ.pymod, attr):
                raise _missing(f"{name.removeprefix('numba.')}.{attr}")
            found = super().resolve_module_constants(typ, attr)
            return found.copy() if isinstance(found, _Captured) else found
        if attr == "laneid":
            return types.int32
        if attr in LANGUAGE:
            return self.resolve_value_type(LANGUAGE[attr])
        value = vars(cuda).get(attr)
        if value is not None:
            try:
                return self.resolve_value_type(value)
            except ValueError:
                pass
        raise _missing(f"cuda.{attr}", {"laneid", *LANGUAGE, *vars(cuda)})

    def resolve_function_type(self, func: Any, args: tuple[Any, ...], kws: Any) -> Any:
        if args and isinstance(args[0], types.Array):
            called = getattr(func, "typing_key", func)
            if called in _IN_PLACE:
                raise _not_on_gpus(f"{called.__name__[1:]} of a whole array")
            if called is operator.getitem and isinstance(args[1], types.NoneType):
                raise _not_on_gpus("array[None]")
        if args and isinstance(args[0], (types.Number, types.Boolean)):
            called = getattr(func, "typing_key", func)
            if called in REDUCTIONS:
                raise _not_on_gpus(f"numpy.{called.__name__} of a number")
        return super().resolve_function_type(func, args, kws)

    def resolve_value_type(self, val: Any) -> Any:
        if isinstance(val, FakeCUDAKernel):
            _check_source(val.fn)
            return types.Dispatcher(dispatcher_of(val))
        if isinstance(val, Dispatcher) and not isinstance(val, KernelDispatcher):
            _check_source(val.py_func)
            return types.Dispatcher(_dispatcher_of_njit(val))
        if (array := interface.captured(val)) is not None:
            kind = interface.type_of(array)
            return _Captured(kind.dtype, kind.ndim, kind.layout)
        for meaning in MEANINGS:
            if (found := meaning(val)) is not None:
                self.refresh()  # it may have been made now
                return super().resolve_value_type(found)
        try:
            return super().resolve_value_type(val)
        except ValueError:
            _refuse_host_routine(val)
            raise


class _Context(numba_cpu.KernelContext):
    def init(self) -> None:
        super().init()
        self.data_model_manager = halves.models()
        self._held: list[Any] = []

    def load_additional_registries(self) -> None:
        super().load_additional_registries()
        self.install_registry(halves.registry)
        self.install_registry(OWN)

    def get_getattr(self, typ: Any, attr: str) -> Any:
        if not isinstance(typ, types.Module) or typ.pymod is not cuda:
            return super().get_getattr(typ, attr)
        kind = self.typing_context.resolve_module_constants(typ, attr)
        if isinstance(kind, types.Dummy):
            return None
        if attr == "laneid":
            return lambda context, builder, *_: builder.and_(thread_word(builder, RANK), I32(31))
        value = LANGUAGE.get(attr, vars(cuda).get(attr))
        return lambda context, builder, *_: context.get_constant_generic(builder, kind, value)

    def make_constant_array(self, builder: Any, typ: Any, ary: Any) -> Any:
        """A device array that a function names is where it is; its memory is kept from now on."""
        if (array := interface.captured(ary)) is None:
            return super().make_constant_array(builder, typ, ary)
        self._held.append(array)
        inner = array._ary
        made = self.make_array(typ)(self, builder)
        address = self.add_dynamic_addr(builder, inner.ctypes.data, info="device array")
        arrayobj.populate_array(
            made,
            data=builder.bitcast(address, made.data.type),
            shape=[I64(size) for size in inner.shape],
            strides=[I64(step) for step in inner.strides],
            itemsize=I64(inner.itemsize),
            meminfo=None,
        )
        return made._getvalue()

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Printing as kernels do it: Numba's runs Python, on the fiber's stack."""
        if fn is print:
            return functools.partial(LOWER["print"], self, sig)
        return super().get_function(fn, sig, _firstcall)


class _Target(CPUTarget):
    @functools.cached_property
    def _toplevel_target_context(self) -> Any:
        return _Context(self.typing_context, self._target_name)

    @functools.cached_property
    def _toplevel_typing_context(self) -> Any:
        return _Typing()


class KernelDispatcher(numba_cpu.KernelDispatcher):
    targetdescr = _Target(NAME)


def _register_model(kind: Any) -> Callable[[Any], Any]:
    """``numba.cuda.extending.register_model``: of the host's functions and of kernels."""

    def register(model: Any) -> Any:
        KernelDispatcher.targetdescr.target_context.data_model_manager.register(kind, model)
        made: Any = _register_of_numba
        return made(kind)(model)

    return register


halves.install()
numba_extending.install(_register_model)
target_registry[NAME] = KernelTarget
dispatcher_registry[KernelTarget] = KernelDispatcher


def compiled(*given: Any, **options: Any) -> Any:
    """``numba.jit`` for this target."""
    options.pop("_target", None)
    made: Any = jit  # its types say nothing of other targets
    return made(*given, _target=NAME, **{**_OPTIONS, **options})


jit_registry[KernelTarget] = compiled


def options_of(kernel: Any) -> dict[str, Any]:
    """In checking mode indices are looked at, of users' functions: the library has views of its own.

    A debug kernel raises when it divides by zero, as on a GPU.
    """
    made = {"fastmath": bool(kernel._fastmath), "boundscheck": bool(setting_number("CHECK"))}
    return {**made, "error_model": "python"} if kernel._debug else made


def _made(function: Any, options: dict[str, Any], signatures: tuple[Any, ...] = ()) -> Any:
    made = vars(function).get("__pyshmem_cpu__")
    if made is None:
        function.__pyshmem_cpu__ = made = {}
    key = (signatures, *options.items())
    if key not in made:
        made[key] = compiled(function, **options)
        for arguments, result in signatures:
            made[key].compile(arguments if result is None else typing.signature(result, *arguments))
        if signatures:
            made[key].disable_compile()
    return made[key]


def dispatcher_of(kernel: Any) -> Any:
    """What compiles a function under ``cuda.jit``: one for all configurations of it.

    Of a device function with signatures: for those alone, to which calls convert what they give.
    """
    declared = getattr(kernel, DECLARED, ()) if getattr(kernel, "_device", False) else ()
    return _made(kernel.fn, options_of(kernel), declared)


def _dispatcher_of_njit(dispatcher: Any) -> Any:
    """The same of a function under ``numba.njit``, which kernels call as one of their own."""
    fastmath = bool(dispatcher.targetoptions.get("fastmath"))
    return _made(dispatcher.py_func, {"fastmath": fastmath})


# -- functions of the library that compiled code calls -------------------------------------------

_FUNCTIONS = (
    "pysh_cpu_run", "pysh_cpu_self", "pysh_cpu_sync", "pysh_cpu_sync_count", "pysh_cpu_warp",
    "pysh_cpu_live_lanes", "pysh_cpu_grid_sync", "pysh_cpu_yield", "pysh_cpu_went_on",
    "pysh_cpu_shared", "pysh_cpu_no_state", "pysh_cpu_print", "ishmemx_leaf_atomic",
    "ishmemx_leaf_time_awake", "ishmemx_leaf_now", "pysh_cpu_out_of_bounds", "pysh_cpu_rounded",
    "pysh_cpu_rounded_f", "pysh_cpu_narrowed", "pysh_cpu_of_integer", "pysh_cpu_of_integer_f",
    "pysh_cpu_meet", "pysh_cpu_warp_meet",
)  # fmt: skip
for _name in _FUNCTIONS:  # by name, in this process's code and in what the store keeps
    llvmlite.binding.add_symbol(_name, lib.ishmemx_cpu_symbol(_name.encode()))


def runtime_function(
    module: ir.Module, name: str, result: Any, arguments: list[Any], *, pure: bool = False
) -> Any:
    """A function of ``native/src/fiber/fiber.h``. ``pure``: a thread's value is constant."""
    try:
        return module.get_global(name)
    except KeyError:
        function = ir.Function(module, ir.FunctionType(result, arguments), name)
        function.attributes.add("nounwind")
        if pure:
            function.attributes.add("readnone")
        return function


def call(builder: Any, name: str, result: Any, *arguments: Any, pure: bool = False) -> Any:
    kinds = [argument.type for argument in arguments]
    function = runtime_function(builder.module, name, result, kinds, pure=pure)
    return builder.call(function, arguments)


def self_pointer(builder: Any) -> Any:
    """The thread's ``ishmemx_cpu_thread_t``."""
    return call(builder, "pysh_cpu_self", POINTER, pure=True)


def _report_bounds(builder: Any, where: str, index: Any, axis: Any, size: Any) -> None:
    text = cgutils.global_constant(
        builder.module, "pyshmem_access", cgutils.make_bytearray(where.encode() + b"\0")
    )
    place = builder.bitcast(text, POINTER)
    number = I64(axis) if isinstance(axis, int) else axis
    call(builder, "pysh_cpu_out_of_bounds", VOID, place, index, number, size)


numba_cpu.report_bounds(_report_bounds)


def thread_word(builder: Any, offset: int, kind: Any = I32) -> Any:
    """A field of the thread, which is constant while it lives."""
    place = builder.gep(self_pointer(builder), [I64(offset)])
    word = builder.load(builder.bitcast(place, kind.as_pointer()))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def with_arity(arity: int, typing: Callable[..., Any]) -> Any:
    """An intrinsic of ``arity`` arguments: Numba reads the number from the function's signature."""

    def routine(_context: Any, *arguments: Any) -> Any:
        return typing(*arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["context", *(f"a{i}" for i in range(arity))]
    shown = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    setattr(routine, "__signature__", shown)  # noqa: B010  (no attribute that type checkers know)
    return intrinsic(routine)
