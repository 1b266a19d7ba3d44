# SPDX-License-Identifier: BSD-3-Clause
"""Tracebacks as users read them: their own lines, and how a routine is called that was called wrongly.

A mistake in a program is told by a ``raise`` of this package; the frames from the program's line to it
say nothing of the program. Where something in the package fails that no ``raise`` foresaw, all frames
stay: then they are what a report about it needs. A kernel that was launched with other arguments than it
takes is such a mistake, too. ``PYSHMEM_TRACEBACKS=full`` keeps them always.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import os
import re
import sys
import sysconfig
import threading
import traceback as written
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ..._core.library import ffi, lib, setting
from . import meant_calls

#: Files of the library begin so.
PACKAGE = str(Path(__file__).parents[2]) + "/"
_LIBRARIES = (sysconfig.get_path("stdlib") + "/", "/site-packages/", "<frozen ")
#: Elements of simulated kernels: NumPy says what is wrong with them, and the program's line has them.
_ELEMENTS = PACKAGE + "device/leaf/sim/arrays.py"
#: Between a kernel's line and what refuses it: of the libraries that interpret kernels.
_INTERPRETERS = ("/triton/runtime/", "/triton/language/", "/numba/cuda/simulator/")
#: What Python says of a call that does not fit the routine.
_UNFIT = re.compile(r"^([\w.]+)\(\) (?:takes|missing|got) ")
#: How notes of errors in kernels begin, and the package that has these kernels' routines.
_OF_KERNELS = {"in simulated kernel": "device", "in interpreted kernel": "triton"}
#: Of ``init`` with ranks and numbers of PEs, as other libraries take them.
_STARTED = (
    "who and how many the PEs are says what starts them: python -m pyshmem run -n 4 program.py"
)
#: A line that calls the program's function with what the program has given.
_PASSED_ON = re.compile(r"\(\*+[\w.]+(?:, \*\*[\w.]+)?\)$")


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(PACKAGE)


def _interprets(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in _INTERPRETERS)


def program_frame(frame: FrameType | None) -> FrameType | None:
    """From ``frame`` outwards the innermost of the program; where there is none, of another package."""
    others: FrameType | None = None
    while frame is not None:
        if not _is_ours(frame):
            if not any(part in frame.f_code.co_filename for part in _LIBRARIES):
                return frame
            others = others or frame
        frame = frame.f_back
    return others


def _know_libraries() -> Any:
    """Tell the C side whose files are none of the program's, for reports of waits."""
    names = [ffi.new("char[]", os.fsencode(name)) for name in (PACKAGE, *_LIBRARIES)]
    table = ffi.new("char *[]", [*names, ffi.NULL])
    lib.know_libraries(table)
    return names, table  # which have to live


_known = _know_libraries()


def launched_at(frame: FrameType | None) -> str:
    """Of a launch that returns when its kernel has ended: what reports say behind the kernel's name."""
    found = program_frame(frame)
    if found is None:
        return ""
    file = found.f_code.co_filename.rpartition("/")[2]  # by each launch, so without pathlib
    return f", launched at {file}:{found.f_lineno}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, and those that a traceback shows before it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        hidden = error.__suppress_context__ or error.__cause__ is not None
        error = error.__cause__ if hidden else error.__context__


def _steps(error: BaseException) -> list[TracebackType]:
    """From the outermost frame to that in which it was raised."""
    found, step = [], error.__traceback__
    while step is not None:
        found.append(step)
        step = step.tb_next
    return found


def _own_lines(error: BaseException) -> TracebackType | None:
    """Its traceback without frames of this package, where these say nothing; else as it is."""
    steps = _steps(error)
    kept = [step for step in steps if not _is_ours(step.tb_frame)]
    if not kept or len(kept) == len(steps):
        return error.__traceback__
    last = steps[-1]
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno)
    passed_on = _UNFIT.match(str(error)) and _PASSED_ON.search(line.rstrip())
    told = line.lstrip().startswith("raise") or passed_on or isinstance(error, KeyboardInterrupt)
    if _is_ours(last.tb_frame) and not told and last.tb_frame.f_code.co_filename != _ELEMENTS:
        return error.__traceback__
    made = None
    for step in reversed(kept):
        if _is_ours(last.tb_frame) and _interprets(step.tb_frame):
            continue
        made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made


def of_program(error: BaseException) -> TracebackType | None:
    """Its traceback with the program's frames alone: it was raised wherever these were."""
    made = None
    for step in reversed(_steps(error)):
        file = step.tb_frame.f_code.co_filename
        if not _is_ours(step.tb_frame) and not any(part in file for part in _LIBRARIES):
            made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made


def _public(name: str) -> Any:
    """``put``, ``Team.split``: what users call by it; None: nothing."""
    package = sys.modules[__name__.partition(".")[0]]
    first, _, rest = name.partition(".")
    if first not in package.__all__:
        return None
    found = getattr(package, first, None)
    return getattr(found, rest, None) if rest else found


def _of_part(name: str) -> tuple[Any, str]:
    """A routine of a part of the package that the program has imported, and its name with the part's."""
    for part in ("fused", "interop.torch"):
        there = sys.modules.get(f"{__name__.partition('.')[0]}.{part}")
        if there is not None and name in there.__all__:
            return getattr(there, name), f"{part}.{name}"
    return None, name


def _shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    plain = default is None or isinstance(default, (bool, int, str))
    written = "" if default is inspect.Parameter.empty else f"={default!r}" if plain else "=..."
    return f"{parameter.name}{written}"


def call_of(name: str, routine: Callable[..., Any]) -> str:
    """How a routine is called: its parameters, and what need not be given."""
    return f"pyshmem.{name}({', '.join(_parameters(routine))})"


def _parameters(routine: Callable[..., Any]) -> list[str]:
    """Its parameters as they are written, and ``*`` where only names follow."""
    written, named_only = [], False
    for parameter in inspect.signature(routine).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not named_only:
            written.append("*")
            named_only = True
        stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
        stars += "**" * (parameter.kind is parameter.VAR_KEYWORD)
        written.append(stars + _shown(parameter))
        named_only |= parameter.kind is parameter.VAR_POSITIONAL
    return written


def _has_note(error: BaseException, begins: str) -> bool:
    return any(note.startswith(begins) for note in getattr(error, "__notes__", ()))


def _called_by_kernel(error: BaseException, package: str) -> str:
    """The name of the routine that the innermost line of a kernel, which runs as Python, has called."""
    routines = getattr(sys.modules[f"pyshmem.{package}"], "__all__", ())
    told = str(error).partition(":")[0]
    found = told if told in routines else ""
    for step in reversed(_steps(error)):
        name = step.tb_frame.f_code.co_name
        if found == told or not (_is_ours(step.tb_frame) or _interprets(step.tb_frame)):
            break
        found = name if name in routines else found
    return found


def _called(error: TypeError) -> list[str]:
    """What is meant by a call that a routine does not take, and how the routine is called."""
    kernel = next(
        (package for begins, package in _OF_KERNELS.items() if _has_note(error, begins)), ""
    )
    if unfit := _UNFIT.match(str(error)):
        name = unfit[1]
    elif kernel:
        name = _called_by_kernel(error, kernel)
    else:
        code = next((s.tb_frame.f_code for s in _steps(error) if _is_ours(s.tb_frame)), None)
        name = "" if code is None else code.co_qualname
        if getattr(inspect.unwrap(_public(name) or object), "__code__", None) is not code:
            return []
    if kernel:
        return [] if "it is called so" in str(error) else _called_in_kernel(kernel, name)
    if name.startswith("SymmetricArray."):  # NumPy's methods: the message says what is meant
        return []
    if made := meant_calls.made_by(name):
        return [made]
    routine = _public(name)
    if routine is None:
        routine, name = _of_part(name)
    with contextlib.suppress(ValueError, TypeError):  # has no signature
        if callable(routine):
            own = [one.partition("=")[0] for one in _parameters(routine)]
            meant = meant_calls.meant_by(str(error), name, own)
            meant = meant or (_STARTED if name == "init" else "")
            return [*([meant] if meant else []), f"it is called so: {call_of(name, routine)}"]
    return []


def _called_in_kernel(package: str, name: str) -> list[str]:
    """How the routine for kernels is called; of another package's function nothing is known."""
    routine = vars(sys.modules[f"pyshmem.{package}"]).get(name)
    routine = getattr(routine, "fn", routine)  # of what a compiler has wrapped
    with contextlib.suppress(ValueError, TypeError):
        if callable(routine):
            return [f"it is called so: {call_of(f'{package}.{name}', routine)}"]
    return []


def _are_full() -> bool:
    with contextlib.suppress(ValueError):  # no text: which is what init is about to tell
        return setting("TRACEBACKS")[0].lower() == "full"
    return False


@contextlib.contextmanager
def shortened(error: BaseException) -> Iterator[TracebackType | None]:
    """While within, the exception and those it came from have the tracebacks that users read."""
    if _are_full():
        yield error.__traceback__
        return
    before = [(one, one.__traceback__) for one in _chain(error)]
    if isinstance(error, TypeError) and (called := _called(error)):
        note = "\n".join(called)
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    for one, _ in before:
        one.__traceback__ = _own_lines(one)
    try:
        yield error.__traceback__
    finally:
        for one, traceback in before:
            one.__traceback__ = traceback


def shorten(error: BaseException) -> None:
    """The same for good, for what shows the exception later."""
    with shortened(error):
        kept = [(one, one.__traceback__) for one in _chain(error)]
    for one, traceback in kept:
        one.__traceback__ = traceback


def _note_target(error: BaseException, traceback: TracebackType | None) -> None:
    """Of a thread that has no line of the program, as its target is a routine itself."""
    inner = traceback
    while inner is not None and inner.tb_frame.f_code.co_filename == threading.__file__:
        inner = inner.tb_next
    if inner is None and traceback is not None and type(error).__module__.startswith("pyshmem"):
        error.add_note("no line of the program is in it: the thread's target is the routine itself")


def install_in_children() -> None:
    """What a child of fork writes of an error, as multiprocessing does, is told in the program's lines.

    Those who write it make a ``TracebackException`` of it, which is replaced in the child alone: that is
    no PE, so all that this package says there is that it is none.
    """

    class Short(written.TracebackException):
        def __init__(self, kind: Any, error: Any, traceback: Any, **options: Any) -> None:
            own = error is not None and traceback is error.__traceback__
            with shortened(error) if own else contextlib.nullcontext(traceback) as lines:
                super().__init__(kind, error, lines, **options)

    setattr(written, "TracebackException", Short)  # noqa: B010  (the stubs know no other class there)


def install_in_threads() -> None:
    """What ends a thread of the program is told in the program's lines; as ever nothing else ends."""
    if getattr(threading.excepthook, "_pyshmem", False):
        return
    previous = threading.excepthook

    def excepthook(given: threading.ExceptHookArgs) -> None:
        if given.exc_value is None:  # it could not be made
            previous(given)
            return
        own = given.exc_traceback is given.exc_value.__traceback__
        with shortened(given.exc_value) as short:
            _note_target(given.exc_value, short)
            told = (
                given.exc_type,
                given.exc_value,
                short if own else given.exc_traceback,
                given.thread,
            )
            previous(threading.ExceptHookArgs(told))

    excepthook._pyshmem = True  # type: ignore[attr-defined]
    threading.excepthook = excepthook
