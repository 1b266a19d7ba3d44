# SPDX-License-Identifier: BSD-3-Clause
"""The native library: only this file imports the extension and makes exceptions of statuses.

A call that returns a status goes ``status = lib.f(...)``, ``if status: fail(status)``, or
``check(lib.f(...))`` where 50 ns do not matter. A call that returns a value returns a marker when
it may have failed: ``if value == marker: check_value()``.
"""

from __future__ import annotations

import importlib.util
import linecache
import operator
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from . import errors
from .contract import HASH
from .settings import SETTINGS, fused_rows
from .values import refuse_masked, shown

try:
    from . import _native
except ImportError as error:
    _folder = Path(__file__).parents[1]
    _hint = "install pyshmem again"
    if (_folder / "_core" / "ffi_build.py").exists():  # only sources have it
        _hint = f"{_folder} is the source folder: run `make dev`, or start from another folder"
    raise ImportError(f"the native part of pyshmem cannot be loaded ({error}); {_hint}") from error

ffi: Any = _native.ffi
lib: Any = _native.lib

if lib.ishmemx_contract() != int(HASH, 16):
    raise ImportError(
        "the native part of pyshmem is another version's than its Python files; install pyshmem again"
    )

__version__: str = ffi.string(lib.PYSHMEM_VERSION_TEXT).decode()

#: The heaps, by the name users give.
HEAPS: dict[str, int] = {"host": lib.ISHMEMX_HEAP_HOST, "device": lib.ISHMEMX_HEAP_DEVICE}
#: The accelerators, by the name users give.
ACCELERATORS: dict[str, int] = {
    "none": lib.ISHMEMX_DEVICE_NONE,
    "cuda": lib.ISHMEMX_DEVICE_CUDA,
    "sim": lib.ISHMEMX_DEVICE_SIM,
    "cpu": lib.ISHMEMX_DEVICE_SIM,
}
#: Those without a GPU: kernels run on the CPU, interpreted or compiled.
SIMULATED = ("sim", "cpu")


class ThreadLevel(IntEnum):
    """Which threads may call routines, and when."""

    SINGLE = lib.ISHMEMX_THREAD_SINGLE
    FUNNELED = lib.ISHMEMX_THREAD_FUNNELED
    SERIALIZED = lib.ISHMEMX_THREAD_SERIALIZED
    MULTIPLE = lib.ISHMEMX_THREAD_MULTIPLE


#: What a Python signal handler raised while a call waited; the extension sets it.
interruption: BaseException | None = None

#: The PE of which this process is a child of ``fork``; ``runtime`` sets it.
forked_by: int | None = None

#: Whether this process has left a job; ``runtime`` sets it.
has_ended = False

_format_fault: Callable[[dict[str, int]], str] | None = None

#: Called with each exception that is made of a fault.
fault_watchers: list[Callable[[Exception], None]] = []

_EXCEPTIONS: dict[int, type[Exception]] = {
    lib.ISHMEMX_ERR_ARGUMENT: ValueError,
    lib.ISHMEMX_ERR_TYPE: TypeError,
    lib.ISHMEMX_ERR_MEMORY: errors.HeapExhausted,
    lib.ISHMEMX_ERR_MISMATCH: errors.MismatchError,
    lib.ISHMEMX_ERR_LEFT: errors.MismatchError,
    lib.ISHMEMX_ERR_PEER: errors.PeerDied,
    lib.ISHMEMX_ERR_TIMEOUT: errors.ShmemTimeout,
    lib.ISHMEMX_ERR_UNSUPPORTED: errors.UnsupportedError,
}


def native_file() -> str:
    """The extension's own file; a name of the library is found by it, as it is linked to that."""
    return str(_native.__file__)


def check(status: int) -> None:
    """Raise the exception of a status that is not OK."""
    if status:
        fail(status)


def owned(end: Any) -> Any:
    """A cell for what a call of the library makes: a block, a team, a context, a request, a stream.

    The call writes it there; so it has an owner before any Python code runs that a signal's handler
    may interrupt. When nobody holds the cell any more, ``end``, one of the extension's ``end_*``, gets
    it, and gives back what it holds. A cell with 0 holds nothing.
    """
    return ffi.gc(ffi.new("uintptr_t *"), end)


def finished(undo: Callable[[], None]) -> None:
    """Call ``undo``, which does no harm twice, until no interrupt ends it early; then raise that.

    For a ``finally``. What it undoes is done inside the ``try``, not in front of it: the interpreter
    looks for signals behind each call, so also between a call and a ``try`` that follows.
    """
    try:
        undo()
    except Exception:
        raise
    except BaseException:  # KeyboardInterrupt, or what a handler of the program raises
        finished(undo)
        raise


def check_value() -> None:
    """Raise if the last value-returning call of this thread failed."""
    check(lib.status_of_last_value())


def fail(status: int) -> NoReturn:
    """Raise the exception of ``status``, with the library's text."""
    global interruption
    text = ffi.string(lib.ishmemx_error()).decode(errors="replace")
    if status == lib.ISHMEMX_ERR_INTERRUPTED:
        raised, interruption = interruption, None
        try:
            raise raised if raised is not None else KeyboardInterrupt
        finally:  # this frame is in its traceback: no cycle that keeps the frames' arrays
            del raised
    if status == lib.ISHMEMX_ERR_FAULT:
        raise take_fault() or errors.KernelFault(text)
    if status == lib.ISHMEMX_ERR_STATE and not lib.ishmemx_initialized():
        raise errors.NotInitialized(text)
    error = _EXCEPTIONS.get(status, errors.ShmemError)(text)
    if isinstance(error, errors.ShmemError):
        error.status = status
    raise error


_given_up: list[Any] = []


def fail_transfer(status: int, local: Any) -> NoReturn:
    """As ``fail``, for a put or get of the array ``local``.

    One that was given up, at a deadline or by Ctrl-C, may still be under way to another host: what the
    conduit reads then must be no other array's memory, so this one stays for good.
    """
    if status in (lib.ISHMEMX_ERR_TIMEOUT, lib.ISHMEMX_ERR_INTERRUPTED):
        _given_up.append(local)
    fail(status)


def not_initialized(what: str) -> errors.NotInitialized:
    """The error of using ``what`` outside init and finalize."""
    if forked_by is not None:
        return errors.NotInitialized(
            f"{what}, but PE {forked_by} forked this process while its job ran: it is no PE, and "
            "only the process that called init can call pyshmem: have this one return what that is to "
            "put"
        )
    if has_ended:
        return errors.NotInitialized(
            f"{what}, and no job runs any more: it ended by finalize, with the `with` of init, or by "
            "torch's destroy_process_group; move the call before that, or call pyshmem.init() again"
        )
    if called := _called_for_launch():
        return errors.NotInitialized(f"{what}, but this process is no PE: {called}")
    return errors.NotInitialized(f"{what}, but pyshmem is not initialised; call pyshmem.init()")


def _called_for_launch() -> str:
    """Of ``launch(work(), 2)``, which calls ``work`` here and not on the PEs, what is meant."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (outer := frame.f_back) is not None:
        name = re.escape(frame.f_code.co_name)
        line = linecache.getline(outer.f_code.co_filename, outer.f_lineno)
        if re.search(rf"\blaunch\(\s*(?:\w+\.)*{name}\(", line):
            name = frame.f_code.co_name
            return f"launch is given the function, launch({name}, n_pes), not what {name}() returns"
        frame = outer
    return ""


# ---- kernels -----------------------------------------------------------------------------------


def set_fault_formatter(formatter: Callable[[dict[str, int]], str]) -> None:
    """``host.faults`` puts what a kernel recorded into words, whichever compiler made it."""
    global _format_fault
    _format_fault = formatter


def take_fault() -> Exception | None:
    """The fault that a kernel recorded, as an exception, and clear it; None when there is none."""
    record = ffi.new("ishmemx_fault_t *")
    if lib.ishmemx_fault_take(record) or record.kind == lib.ISHMEMX_FAULT_NONE:
        return None
    fields = ("kind", "op", "pe", "module", "block", "thread", "a", "b")
    fault = {name: int(getattr(record, name)) for name in fields}
    text = _format_fault(fault) if _format_fault is not None else f"a kernel failed: {fault}"
    own = fault["module"] < 0 and fault["a"] in (
        lib.ISHMEMX_ERR_MISMATCH,
        lib.ISHMEMX_ERR_LEFT,
        lib.ISHMEMX_ERR_PEER,
    )
    error = _EXCEPTIONS[fault["a"]](text) if own else errors.KernelFault(text)
    for watcher in tuple(fault_watchers):
        watcher(error)
    return error


def raise_pending_fault() -> None:
    """Raise the fault that a kernel recorded, if there is one."""
    if fault := take_fault():
        raise fault


def device_state() -> list[int]:
    """The words of the state block that kernels read."""
    words = ffi.new("int64_t[]", lib.ISHMEMX_STATE_WORDS)
    check(lib.ishmemx_device_state(words))
    return list(words)


# ---- settings ----------------------------------------------------------------------------------


def setting(name: str) -> tuple[str, str]:
    """The text of setting ``name`` (without ``PYSHMEM_``) and where it came from.

    Raises: ValueError (not UTF-8).
    """
    text, origin = ffi.new("const char **"), ffi.new("const char **")
    check(lib.ishmemx_setting(name.encode(), text, origin))
    given, where = ffi.string(text[0]), ffi.string(origin[0]).decode()
    try:
        return given.decode(), where
    except UnicodeDecodeError:
        raise ValueError(f"{where} is {shown(given)}, which is no text in UTF-8") from None


def check_texts() -> None:
    """Raise ValueError for settings that are no text, or not of their form; the library has more."""
    for row in SETTINGS:
        setting(row.name)
    fused_rows(setting("FUSED")[0])


def check_cache_folder() -> None:
    """Raise ValueError if ``PYSHMEM_CACHE_DIR`` is no folder, nor one that can be made."""
    chosen = setting("CACHE_DIR")[0]
    there = Path(chosen)
    while not os.path.lexists(there):
        there = there.parent
    made = there == Path(chosen)
    if not there.is_dir():
        what = "which is no folder" if made else f"but {shown(str(there))} is no folder"
        raise ValueError(f"PYSHMEM_CACHE_DIR is {shown(chosen)}, {what}")
    if not made and not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(
            f"PYSHMEM_CACHE_DIR is {shown(chosen)}, which cannot be made: "
            f"{shown(str(there))} cannot be written"
        )


def tell_of_ucx() -> None:
    """Tell the library where UCX is, if it is installed as a package (libucx-cu13 or -cu12)."""
    found = importlib.util.find_spec("libucx")
    if found and found.origin:
        path = Path(found.origin).parent / "lib" / "libucp.so.0"
        lib.ishmemx_ucx_package(os.fsencode(path))


def text_of_file(path: Path, named_by: str) -> str:
    """The text of a file that ``named_by``, a variable, names.

    Raises: ValueError (it cannot be read, is a device or a pipe, which may have no end, or is no text).
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(
                "Is a directory" if path.is_dir() else "it is no file but a device or a pipe"
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{named_by} is {shown(str(path))}, which is no text in UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{named_by} is {shown(str(path))}, which cannot be read: {why}") from None


def cache_folder() -> Path:
    """Where what can be made again is kept: ``PYSHMEM_CACHE_DIR``, else in the user's cache.

    A user without a home, as in some containers, has a folder for temporary files.
    """
    if chosen := setting("CACHE_DIR")[0]:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyshmem"
    except RuntimeError:
        return Path(tempfile.gettempdir(), f"pyshmem-{os.geteuid()}")


def setting_number(name: str) -> int:
    """Setting ``name`` as a number: bytes, nanoseconds, 0 or 1, position of the choice."""
    value = ffi.new("int64_t *")
    check(lib.ishmemx_setting_number(name.encode(), value))
    return int(value[0])


def number_in(variable: str, text: str) -> int:
    """``text`` as the number that it is in an environment variable; 0: it is empty, or no number."""
    value = ffi.new("int64_t *")
    check(lib.ishmemx_setting_check(os.fsencode(variable), os.fsencode(text), value))
    return int(value[0])


def checks_args() -> bool:
    """Is what costs time to look at in arguments looked at?"""
    return bool(setting_number("CHECK") & lib.ISHMEMX_CHECK_ARGS)


#: What PYSHMEM_CHECK asks for that is found in records.
RECORDED = lib.ISHMEMX_CHECK_ORDER | lib.ISHMEMX_CHECK_DELIVER | lib.ISHMEMX_CHECK_STRICT


def checks_order() -> bool:
    """Is it recorded what accesses memory, and what orders that? A text that init refuses: no."""
    value = ffi.new("int64_t *")
    failed = lib.ishmemx_setting_number(b"CHECK", value)
    return not failed and bool(value[0] & RECORDED)


def checks_deliver() -> bool:
    """Is what may be late late, PYSHMEM_CHECK=deliver, in a job that records?"""
    return checks_order() and bool(setting_number("CHECK") & lib.ISHMEMX_CHECK_DELIVER)


def refuse_order(what: str) -> None:
    """Raise UnsupportedError where PYSHMEM_CHECK=order would not see what a part of the package does."""
    if checks_order():
        raise errors.UnsupportedError(f"PYSHMEM_CHECK=order does not follow {what} yet")


def size_text(nbytes: int) -> str:
    """Bytes for people: ``512 B``, ``1.5 MiB``, ``1 GiB``."""
    size, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def parse_size(size: int | str, name: str = "") -> int:
    """Bytes of ``4096`` or ``"1.5G"``. ``name``: of the argument, for errors."""
    if isinstance(size, str):
        parsed = ffi.new("int64_t *")
        try:
            check(lib.ishmemx_parse_size(size.encode(), parsed))
        except ValueError as error:
            raise ValueError(f"{name}: {error}" if name else str(error)) from None
        return int(parsed[0])
    refuse_masked(size, "a size")
    try:
        nbytes = operator.index(size)
    except TypeError:
        raise TypeError(
            f"a size is {size!r} ({type(size).__name__}); give bytes or a text such as '512M'"
        ) from None
    if not 0 <= nbytes < 1 << 63:
        raise ValueError(f"a size is {nbytes} bytes; give 0 to 2**63 - 1, or a text such as '512M'")
    return nbytes
