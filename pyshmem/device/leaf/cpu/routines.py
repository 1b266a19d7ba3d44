# SPDX-License-Identifier: BSD-3-Clause
"""Device routines compiled once on a host: kernels that call one compile what is their own.

A file has a public routine for the types of its arguments, with all that it calls, optimised. Its name
is a digest of what makes it. What is short is LLVM's bitcode, which kernels take in; what is longer is
machine code, loaded once by a process, which they call by the file's name. What routines call and never
have inlined is machine code of its own, which all of them call.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors

from ...._core import kept_files, library
from ...._core.dtypes import as_dtype
from ...._core.library import ffi, lib
from ...._foreign import numba_cpu
from ...._foreign.numba_types import scalars, written
from ...families import FAMILY_DTYPES
from ...routine import ROUTINES
from ..sim.threads import arrays_of, numbers_of_group, read_only
from . import halves, kept_code
from .target import I64, KernelDispatcher, self_pointer

#: Bytes of bitcode from which on a routine is called. Calls of puts and gets take nanoseconds more than
#: their code in the kernel, whose compilation would take a fifth of a second.
_CALLED = 12_000
#: Where the runtime has what a thread calls with its group, and what it gives for a number left out.
_CALL, _GIVEN = (ffi.offsetof("ishmemx_cpu_thread_t", name) for name in ("call", "given"))
_LEFT_OUT = -(1 << 63)
scalars().setdefault("bfloat16", halves.bfloat16)


class _Routine(NamedTuple):
    """A routine as kernels take it: the type of its result, and Numba's library of it."""

    returns: Any
    library: Any


#: Routines that only move elements: of the dtype of ``dest`` and ``source`` the size counts.
_MOVES = (
    "put",
    "get",
    "iput",
    "iget",
    "ibput",
    "ibget",
    "broadcast",
    "collect",
    "fcollect",
    "alltoall",
)
#: Those to which an integer's sign makes no difference.
_SIGNLESS = "and_", "or_", "xor_", "sum_", "prod_"
_BY_SIZE = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
_routines: dict[str, _Routine] = {}
_loaded: set[str] = set()


def _key(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> list[str] | None:
    """All that a routine's code depends on; None: the store does not keep it."""
    kinds = [written(kind) for kind in arguments]
    if None in kinds:
        return None
    words = [f"{option}={options[option]}" for option in sorted(options)]
    return [name, *map(str, kinds), kept_code.made_by(), *words]


def _name(routine: str, key: list[str]) -> str:
    """Of a routine's file and of its function, which Numba takes for one of C++."""
    plain = f"pyshmem_{routine}_{sha256(json.dumps(key).encode()).hexdigest()[:32]}"
    return f"_ZN{len(plain)}{plain}E"


def _path(name: str) -> Any:
    return kept_files.folder() / "routines" / f"{name}.o"


def _load(name: str, file: kept_files.File) -> bool:
    """Have a routine's machine code found under its name; False: it is not there."""
    about, code = file
    if about.get("name") != name or not load(about["needs"]):
        return False
    if name not in _loaded:
        context = KernelDispatcher.targetdescr.target_context
        address = context.codegen().load(code, name, "", None)
        llvmlite.binding.add_symbol(name, address)
        _loaded.add(name)
    return True


def load(names: list[str]) -> bool:
    """Have the machine code of these routines found; False when a file is not there any more."""
    for name in names:
        if name not in _loaded:
            file = kept_files.read(_path(name))
            if file is None or not _load(name, file):
                return False
    return True


def _file_of(
    key: list[str], name: str, result: Any, called_from: int = _CALLED
) -> kept_files.File | None:
    """What is kept of a routine that was just compiled; None: it needs more than its code.

    Of so many bytes of bitcode and more it is called.
    """
    returns = str(result.signature.return_type)
    if scalars().get(returns) != result.signature.return_type:
        return None
    bitcode = result.library.frozen(result.fndesc.llvm_func_name, name)
    if b"numba.dynamic.globals" in bitcode:  # addresses of this process
        return None
    needs = result.library.needs()
    about = {"key": key, "name": name, "returns": returns, "needs": needs, "called": False}
    if len(bitcode) < called_from:
        return about, bitcode
    about["called"] = True
    return about, result.target_context.codegen().object_of(bitcode)


def _use(key: list[str], name: str, file: kept_files.File) -> _Routine | None:
    """The routine of a file; None when it is another's, or what it needs is not there."""
    about, code = file
    try:
        if about["key"] != key or not load(about["needs"]):
            return None
        if about["called"] and not _load(name, file):
            return None
        called = (*about["needs"], *([name] if about["called"] else []))
        context = KernelDispatcher.targetdescr.target_context
        made = numba_cpu.library_of(context, name, b"" if about["called"] else code, called)
        return _Routine(scalars()[about["returns"]], made)
    except (KeyError, TypeError, RuntimeError):
        return None


def _refuse_read_only(function: Any, arguments: tuple[Any, ...]) -> None:
    """Numba's types know which arrays are read-only; routines write to them by their addresses."""
    for position, parameter, is_written in arrays_of(function):
        given = arguments[position]
        if is_written and isinstance(given, types.Array) and not given.mutable:
            raise errors.TypingError(read_only(function.__name__, parameter))


@functools.cache
def _stand_ins(routine: str) -> dict[Any, Any]:
    """Of the types of elements those that others stand for: a routine's code for both is the same."""
    names: dict[str, str] = {}
    if routine.startswith(_MOVES):
        names = {name: _BY_SIZE[as_dtype(name).itemsize] for name in FAMILY_DTYPES["r"]}
    elif routine.startswith(_SIGNLESS):
        names = {name: f"u{name}" for name in FAMILY_DTYPES["t"] if name.startswith("int")}
    return {scalars()[name]: scalars()[other] for name, other in names.items()}


def _as_compiled(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types that a routine is compiled for in place of these, so that one dtype does for many."""
    places = [at for at, name, _ in arrays_of(function) if name in ("dest", "source")]
    given = [arguments[at] for at in places if isinstance(arguments[at], types.Array)]
    forms = {(kind.dtype, kind.layout) for kind in given}
    if len(given) < 2 or len(forms) != 1:  # which is refused, for what they are
        return arguments
    element, layout = forms.pop()
    stand_in = _stand_ins(function.__name__).get(element)
    if stand_in is None or layout == "A":
        return arguments
    return tuple(
        kind.copy(dtype=stand_in) if at in places else kind for at, kind in enumerate(arguments)
    )


def _is_routine(function: Any) -> bool:
    return getattr(ROUTINES.get(function.__name__), "__wrapped__", None) is function


def _take(function: Any, arguments: Any, options: dict[str, Any], compile_for: Any) -> Any:
    """What Numba is given for a function: of a public routine, its code from the store."""
    arguments = tuple(arguments)
    routine = function.__name__
    if not _is_routine(function):
        return compile_for(arguments)
    _refuse_read_only(function, arguments)
    kinds = _as_compiled(function, arguments)
    key = _key(routine, kinds, options) if library.setting_number("KERNEL_STORE") else None
    if key is None:
        return compile_for(arguments)
    name = _name(routine, key)
    compiled: list[Any] = []

    def make() -> kept_files.File | None:
        try:
            compiled.append(compile_for(kinds))
        except errors.NumbaError:
            if kinds != arguments:
                compile_for(arguments)  # the error names the types that the kernel has
            raise
        return _file_of(key, name, compiled[-1])

    kept = _routines.get(name)
    if kept is None:
        kept = kept_files.kept(_path(name), make, lambda file: _use(key, name, file))
    if kept is None:
        return compiled[-1] if compiled and kinds == arguments else compile_for(arguments)
    _routines[name] = kept
    context = KernelDispatcher.targetdescr.target_context
    return numba_cpu.result_of(context, function, name, kept.returns, arguments, kept.library)


def _part(function: Any, kind: Any, compile_it: Callable[[], Any]) -> tuple[str, Any] | None:
    """Machine code of a function of the package that routines call and have never inlined.

    More than half of what a routine is made of: the ring, flags, what hardly ever runs, of all routines
    the same. None: it is a function of one routine.
    """
    where = f"{function.__module__}.{function.__qualname__}"
    if function.__closure__ or not where.startswith("pyshmem."):
        return None
    key = _key(where, kind.args, {}) if library.setting_number("KERNEL_STORE") else None
    if key is None:
        return None
    name = _name(f"part_{function.__name__}", key)
    if name not in _routines:

        def make() -> kept_files.File | None:
            return _file_of(key, name, compile_it(), 0)

        kept = kept_files.kept(_path(name), make, lambda file: _use(key, name, file))
        if kept is None:
            return None
        _routines[name] = kept
    return name, _routines[name].library


def _store(builder: Any, offset: int, value: Any) -> None:
    place = builder.gep(self_pointer(builder), [I64(offset)])
    builder.store(value, builder.bitcast(place, I64.as_pointer()))


def _begin(
    context: Any, builder: ir.IRBuilder, function: Any, given: dict[str, tuple[Any, Any]]
) -> None:
    """A routine of a warp or a block notes that its thread is in it, and what it is given.

    So threads that meet in others, or with other numbers, are told: ``native/src/fiber/calls.c``.
    """
    if not function.__name__.endswith(("_warp", "_work_group")) or not _is_routine(function):
        return
    names = numbers_of_group(function)[: lib.ISHMEMX_CPU_NUMBERS]
    text = "".join(f"{each}\0" for each in (function.__name__, *names, ""))
    constant = cgutils.make_bytearray(text.encode())
    place = cgutils.global_constant(builder.module, "pyshmem_call", constant)
    _store(builder, _CALL, builder.ptrtoint(place, I64))
    numbers = [I64(_LEFT_OUT)] * lib.ISHMEMX_CPU_NUMBERS
    for at, (kind, value) in enumerate(given[name] for name in names):
        if isinstance(types.unliteral(kind), (types.Integer, types.Boolean)):
            numbers[at] = context.cast(builder, value, kind, types.int64)
    for at, number in enumerate(numbers):
        _store(builder, _GIVEN + 8 * at, number)


numba_cpu.begin_functions(_begin)
numba_cpu.choose_functions(_take)
numba_cpu.choose_parts(_part)
