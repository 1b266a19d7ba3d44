# SPDX-License-Identifier: BSD-3-Clause
"""Machine code of kernels, kept by what makes it: one PE of a host compiles, the others load it.

The name of a file is a digest of the kernel, of the functions and constants that it names, of the types
of its arguments, of this package, of the compilers and of the processor. A kernel that names what has no
digest is compiled each time.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import itertools
import os
import types as python_types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import llvmlite.binding as ll
import numba
import numpy as np
from numba import types
from numba.core import errors
from numba.core.dispatcher import Dispatcher
from numba.cuda.simulator.kernel import FakeCUDAKernel

from ...._core import kept_files
from ...._foreign import numba_cpu, numba_extending
from .target import DECLARED

T = TypeVar("T")


class Code(NamedTuple):
    """An object file; its function that Python calls, and the place of that one's environment.

    ``needs``: the routines whose machine code it calls.
    """

    code: bytes
    entry: str
    environment: str
    uses_state: bool
    needs: list[str]


class Refusal(NamedTuple):
    """In place of code: the class of the exception that tells why there is none, and its text."""

    kind: str
    text: str


class Refused(Exception):
    """A kernel is asked for that is known to be refused: ``args[0]`` tells of it."""


_TELLING: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(AttributeError, NameError, NotImplementedError, TypeError, ValueError),
        errors.TypingError,
    )
}


def refusal_of(error: Exception) -> Refusal | None:
    """What is kept of ``error``; None: it is of no such class, or code of the process decides."""
    name = type(error).__name__
    if _TELLING.get(name) is not type(error) or numba_cpu.FOREIGN_CODE:
        return None
    return Refusal(name, str(error))


class NoDigest(Exception):
    """Something that a kernel names cannot be told from another by its content."""


# -- what makes a kernel -------------------------------------------------------------------------


#: Covered by their versions: this package, Numba, NumPy and Python's.
_OWN = frozenset(
    ["pyshmem", "numba", "numpy", "ml_dtypes", "builtins", "math", "operator", "cmath"]
)


def _modules_own(value: Any) -> bool:
    owner = (getattr(value, "__module__", None) or "").partition(".")[0]
    return owner in _OWN


#: What is told already, so that circles end: functions, and modules with what is asked of them.
Seen = set[object]


def _module_parts(module: Any, seen: Seen, names: frozenset[str]) -> Iterator[str]:
    """Of a program's module what has one of the names that a function uses: constants, functions."""
    if (id(module), names) in seen:
        return
    if "__getattr__" in vars(module) or type(module) is not python_types.ModuleType:
        raise NoDigest(repr(module))  # what it gives for a name is not there to be looked at
    seen.add((id(module), names))
    for name in sorted(names & vars(module).keys()):
        yield name
        yield from _parts(vars(module)[name], seen, names)


#: Of a function's code, besides constants: they tell which variables are arguments, and of what kind.
_CODE = (
    *("co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_kwonlyargcount"),
    *("co_flags", "co_firstlineno", "co_exceptiontable"),
)


_PLAIN: tuple[Any, ...] = (bool, int, float, complex, str, bytes)


def _parts(value: Any, seen: Seen, names: frozenset[str] = frozenset()) -> Iterator[str]:
    """Texts that tell a value from others. ``names``: those that the function uses which names it."""
    if isinstance(value, FakeCUDAKernel):
        yield from _parts(value.fn, seen)
        yield f"fastmath {value._fastmath} debug {value._debug} {getattr(value, DECLARED, '')}"
        yield f"device {getattr(value, '_device', False)}"
    elif isinstance(value, Dispatcher):
        yield from _parts(value.py_func, seen)
        yield repr(sorted(value.targetoptions.items(), key=str))
    elif isinstance(value, python_types.FunctionType):
        yield from _function_parts(value, seen)
    elif isinstance(value, python_types.CodeType):
        yield value.co_code.hex()
        yield repr([getattr(value, word) for word in _CODE])
        yield value.co_filename
        for constant in value.co_consts:
            yield from _parts(constant, seen)
    elif isinstance(value, python_types.ModuleType):
        yield f"module {value.__name__}"
        if value.__name__.partition(".")[0] not in _OWN:
            yield from _module_parts(value, seen, names)
    elif isinstance(value, type) and issubclass(value, enum.Enum):
        yield f"{value.__module__} {value.__qualname__}"
        for member in value:
            yield from _parts(member, seen)
    elif isinstance(value, type) and hasattr(value, "_fields"):
        yield f"{value.__module__} {value!r} {value._fields}"
        yield from _parts(tuple(getattr(value, "_field_defaults", {}).items()), seen)
    elif isinstance(value, (tuple, frozenset)):
        yield f"{type(value).__name__} {len(value)} {getattr(value, '_fields', '')}"
        for item in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            yield from _parts(item, seen)
    elif isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.hasobject:
            raise NoDigest(repr(value))
        yield f"{value.dtype!r} {value.shape}"
        yield value.tobytes().hex()
    elif isinstance(value, enum.Enum):
        yield f"{type(value).__module__} {type(value).__qualname__} {value.name}"
        yield from _parts(value.value, seen)
    elif isinstance(value, (type, np.dtype, types.Type)):
        yield f"{getattr(value, '__module__', '')} {value!r}"
    elif value is None or value is Ellipsis:
        yield f" {value!r}"
    elif isinstance(value, _PLAIN):
        plain = next(kind for kind in _PLAIN if isinstance(value, kind))
        yield f"{type(value).__name__} {plain.__repr__(value)}"  # a class of its own may say less
    elif _modules_own(value):
        yield f"{type(value).__name__} {getattr(value, '__qualname__', '')}"
        if not getattr(value, "__qualname__", ""):
            raise NoDigest(repr(value))
    else:
        raise NoDigest(repr(value))


def _in_a_file(function: Any) -> bool:
    """Its name tells it from other functions: neither made in a function, nor of a text by ``exec``."""
    inside = "<locals>" in function.__qualname__
    return not inside and not function.__code__.co_filename.startswith("<")


def _function_parts(function: Any, seen: Seen) -> Iterator[str]:
    yield f"{function.__module__} {function.__qualname__}"
    if id(function) in seen or (_modules_own(function) and _in_a_file(function)):
        return
    seen.add(id(function))
    yield from _parts(function.__code__, seen)
    yield from _parts(function.__defaults__, seen)
    yield from _parts(tuple(sorted((function.__kwdefaults__ or {}).items())), seen)
    for cell in function.__closure__ or ():
        yield from _parts(cell.cell_contents, seen)
    names = _names(function.__code__)
    for name in sorted(names):
        if name in function.__globals__:
            yield name
            yield from _parts(function.__globals__[name], seen, frozenset(names))


def _names(code: Any) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, python_types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


@functools.cache
def _processor() -> str:
    return f"{ll.get_host_cpu_name()} {ll.get_host_cpu_features().flatten()}"


#: Of Numba's configuration what machine code depends on.
_TOLD = (
    *("OPT", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "LOOP_VECTORIZE", "SLP_VECTORIZE"),
    *("BOUNDSCHECK", "DEBUGINFO_DEFAULT"),
)


def made_by() -> str:
    """The package, the compilers, what they were told and the processor."""
    told = [getattr(numba.config, word, None) for word in _TOLD]
    return f"{kept_files.origin()} {_processor()} {np.__version__} {told}"


def _fields(kind: Any) -> list[Any]:
    """Of the named tuples in a type, whose names say nothing of their fields."""
    inner = [_fields(one) for one in getattr(kind, "types", ())]
    return [getattr(kind, "fields", ()), *inner]


_NUMBA = str(Path(numba.__file__).parent) + os.sep


def _of_numba(function: Any) -> bool:
    """Is it of one of its files? Some that it makes of texts have no module."""
    return bool(function.__code__.co_filename.startswith(_NUMBA))


class _Extensions:
    """What programs have registered with Numba, of some thousand functions there.

    Numba, and this package with each kernel, register more meanwhile: what was looked at is not again.
    """

    def __init__(self) -> None:
        self._how_many = tuple(0 for _ in numba_extending.how_many())
        self._of_programs: list[list[Any]] = [[] for _ in self._how_many]  # of each list
        self._digest = ""

    def digest(self) -> str:
        how_many = numba_extending.how_many()
        if how_many != self._how_many or not self._digest:
            for at, function in numba_extending.registered(self._how_many):
                if not (_modules_own(function) or _of_numba(function)):
                    self._of_programs[at].append(function)
            self._how_many = how_many
            digest = hashlib.sha256()
            for function in itertools.chain.from_iterable(self._of_programs):
                for part in _parts(function, set()):
                    digest.update(part.encode() + b"\n")
            self._digest = digest.hexdigest()
        return self._digest


_extensions = _Extensions()


def digest_of(function: Any, kinds: Any, options: str) -> str:
    """The name of the machine code; empty when it is not kept."""
    digest = hashlib.sha256(f"{made_by()} {kinds} {_fields(kinds)} {options}".encode())
    try:
        digest.update(_extensions.digest().encode())
        for part in _parts(function, set()):
            digest.update(part.encode() + b"\n")
    except (NoDigest, ValueError):  # ValueError: a variable of the function around it is not set
        return ""
    return digest.hexdigest()[:40]


# -- files ---------------------------------------------------------------------------------------


def kept(
    name: str, make: Callable[[], Code | Refusal | None], use: Callable[[Code], T | None]
) -> T | None:
    """What ``use`` makes of the code of that name, compiled once on a host; None: it is not kept.

    ``use`` says None of code that needs what is not there: it is made again. So is what was refused
    where all that Numba says of it is to be shown. Raises: Refused.
    """

    def made() -> kept_files.File | None:
        code = make()
        if code is None:
            return None
        if isinstance(code, Refusal):
            return {"refused": list(code)}, b""
        about = code._asdict()
        return about, about.pop("code")

    def used(file: kept_files.File) -> T | None:
        about, code = file
        if (refusal := about.get("refused")) is not None:
            if numba.config.FULL_TRACEBACKS or refusal[0] not in _TELLING:
                return None
            raise Refused(_TELLING[refusal[0]](refusal[1]))
        try:
            return use(Code(code, *(about[field] for field in Code._fields[1:])))
        except KeyError:
            return None

    return kept_files.kept(kept_files.folder() / f"cpu-{name}.o", made, used)
