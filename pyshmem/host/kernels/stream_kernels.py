# SPDX-License-Identifier: BSD-3-Clause
"""The kernels that calls with ``stream=`` launch: compiled once, kept on disk, loaded outside captures.

A file of the cache is a line of JSON and a cubin. Its name has all that the code depends on: the
contract, the version, the text of kernels and device library, Numba's version, the architecture and
the kernel.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._core import kept_files
from ..._core.arrays.checks import StreamLike, stream_handle
from ..._core.contract import HASH, STREAM_KERNEL, STREAM_KEY
from ..._core.dtypes import Kind, as_dtype, bits_of, integer, kind_of
from ..._core.errors import ShmemError, ShmemTimeout, UnsupportedError
from ..._core.library import SIMULATED, __version__, check, ffi, lib, setting_number
from ..._core.type_table import ELEMENT_NUMBER, ELEMENTS, REDUCE_OPS
from ..._foreign import environment
from ..job import runtime
from . import provider

#: ``stream`` of a call that waits for the library's own stream: ISHMEMX_STREAM_OWN.
OWN = (1 << 64) - 1
#: How long a load waits for kernels that run, and for one that waits in the library; seconds.
_MOMENT, _PATIENCE, _NAP = 1.0, 10.0, 100e-6
_TEXT_BYTES = 512
#: Front ends' ``f()``: may a kernel that they have launched still run?
_running: list[Callable[[], bool]] = []

_UINT8, _UINT64 = ELEMENT_NUMBER["uint8"], ELEMENT_NUMBER["uint64"]
_BY_WIDTH = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complexd"}


class _Routine(NamedTuple):
    kind: int
    op: int = 0
    dtype: str = ""  # "": as bytes; "width": any of that width; else a family of the type table
    wide: bool = False
    by_proxy: bool = False  # there is another one for teams with members out of reach


_REDUCTIONS = {"reduce": STREAM_KERNEL.REDUCE, "reduce_scatter": STREAM_KERNEL.REDUCE_SCATTER}
_ROUTINES = {
    "barrier_all": _Routine(STREAM_KERNEL.BARRIER_ALL, by_proxy=True),
    "sync_all": _Routine(STREAM_KERNEL.TEAM_SYNC, by_proxy=True),
    "quiet": _Routine(STREAM_KERNEL.QUIET),
    "broadcast": _Routine(STREAM_KERNEL.BROADCAST, wide=True, by_proxy=True),
    "fcollect": _Routine(STREAM_KERNEL.FCOLLECT, wide=True, by_proxy=True),
    "collect": _Routine(STREAM_KERNEL.COLLECT, wide=True),
    "alltoall": _Routine(STREAM_KERNEL.ALLTOALL, wide=True, by_proxy=True),
    "alltoalls": _Routine(STREAM_KERNEL.ALLTOALLS, dtype="width", wide=True),
    "sum_inscan": _Routine(STREAM_KERNEL.SCAN, 0, "s", wide=True),
    "sum_exscan": _Routine(STREAM_KERNEL.SCAN, 1, "s", wide=True),
    "wait_until": _Routine(STREAM_KERNEL.WAIT, dtype="a"),
    "wait_until_all": _Routine(STREAM_KERNEL.WAIT_ALL, dtype="a"),
    "wait_until_any": _Routine(STREAM_KERNEL.WAIT_ANY, dtype="a"),
    "wait_until_some": _Routine(STREAM_KERNEL.WAIT_SOME, dtype="a"),
    "put": _Routine(STREAM_KERNEL.REQUEST),
    **{
        f"{op}_{name}": _Routine(kind, number, family, wide=True, by_proxy=True)
        for name, kind in _REDUCTIONS.items()
        for number, (op, family) in enumerate(zip(REDUCE_OPS, "tttmmss", strict=True))
    },
}
#: Those with a kernel of their own for few bytes, and the elements that it does not take.
_MOVES = {STREAM_KERNEL.BROADCAST, STREAM_KERNEL.FCOLLECT, STREAM_KERNEL.ALLTOALL}
_SMALL = _MOVES | set(_REDUCTIONS.values())
_TOO_LARGE = ("complex128", "longdouble")
#: Other names of the same.
_ALIASES = {"fence": "quiet", "signal_wait_until": "wait_until", "sync": "sync_all"}
#: What needs a kernel for PEs out of reach only: one that asks the host, whatever the operation.
_ASKED = (
    *("put", "get", "p", "iput", "iget", "ibput", "ibget", "put_nbi", "get_nbi", "put_signal"),
    *("put_signal_nbi", "signal_set", "signal_add", "signal_op"),
    *(f"atomic_{op}" for op in ("set", "add", "inc", "and", "or", "xor")),
    *(f"atomic_fetch_{op}_nbi" for op in ("add", "inc", "and", "or", "xor")),
    *("atomic_fetch_nbi", "atomic_swap_nbi", "atomic_compare_swap_nbi"),
)
_ALIASES |= dict.fromkeys(_ASKED, "put")
_NAMES = {(r.kind, r.op): name for name, r in _ROUTINES.items()}


def _keys(name: str, dtype: Any, by_proxy: bool = False) -> list[int]:
    """The keys of a routine's kernels for a dtype; ``by_proxy``: those for PEs out of reach, too."""
    routine = _ROUTINES[_ALIASES.get(name, name)]
    element = _UINT8
    if name == "signal_wait_until":
        element = _UINT64
    elif routine.dtype:
        if dtype is None:
            raise TypeError(f"{name} has a kernel for each dtype: give dtype=")
        kind = kind_of(as_dtype(dtype))
        if routine.dtype == "width":
            element = ELEMENT_NUMBER[_BY_WIDTH[kind.dtype.itemsize]]
        elif kind.element < 0 or routine.dtype not in ELEMENTS[kind.element].families:
            raise TypeError(f"{name} does not take dtype {kind.dtype}")
        else:
            element = kind.element
    elif routine.kind < STREAM_KERNEL.BROADCAST or routine.kind == STREAM_KERNEL.REQUEST:
        element = 0
    key = routine.kind | routine.op << STREAM_KEY.OP_SHIFT | element << STREAM_KEY.TYPE_SHIFT
    keys = [key, key | STREAM_KEY.WIDE] if routine.wide else [key]
    if routine.kind in _SMALL and ELEMENTS[element].dtype not in _TOO_LARGE:
        keys.append(key | STREAM_KEY.LEAN)
    if routine.kind in _MOVES:  # by copy engines: meetings with copies between
        keys.append(STREAM_KERNEL.TEAM_SYNC)
    return [*keys, key | STREAM_KEY.FAR] if routine.by_proxy and by_proxy else keys


def _decode(key: int) -> tuple[str, str] | None:
    """Name of the routine, and the dtype that ``prepare`` has to be given; None: no such kernel."""
    kind, op = key & ((1 << STREAM_KEY.OP_SHIFT) - 1), key >> STREAM_KEY.OP_SHIFT & 0xFF
    element, name = key >> STREAM_KEY.TYPE_SHIFT & 0xFF, _NAMES.get((kind, op))
    if not 0 <= key < 2 * STREAM_KEY.FAR or name is None or element >= len(ELEMENTS):
        return None
    return name, ELEMENTS[element].dtype if _ROUTINES[name].dtype else ""


def _known(key: int) -> tuple[str, str]:
    """The same of a key that the library has made."""
    decoded = _decode(key)
    assert decoded is not None, hex(key)
    return decoded


def describe(key: int) -> str | None:
    """The kernel in words; None: there is none of that key."""
    decoded = _decode(key)
    if decoded is None:
        return None
    name, dtype = decoded
    return f"{name}(stream=)" + (f" of {dtype}" if dtype else "")


def named(number: int) -> str | None:
    """The same by the word MODULE of a record of faults; None: it is no kernel for streams."""
    return describe(number - STREAM_KEY.MODULE)


# ---- the cache ---------------------------------------------------------------------------------


def _path(key: int, capability: int) -> Path:
    name = f"{HASH}-{__version__}-{kept_files.origin()}-sm{capability}-{key:x}.cubin"
    return kept_files.folder() / name


def _file(key: int, capability: int) -> kept_files.File:
    """What is written of a kernel that was just compiled."""
    code, entry, stack = _compile(key, capability)
    return {"entry": entry, "stack": stack}, code


def _image(file: kept_files.File) -> tuple[bytes, str, int] | None:
    """Code, entry and stack of a file; None: it is no kernel's."""
    about, code = file
    entry, stack = about.get("entry"), about.get("stack")
    return (code, entry, stack) if isinstance(entry, str) and isinstance(stack, int) else None


# ---- loading -----------------------------------------------------------------------------------


def _compile(key: int, capability: int) -> tuple[bytes, str, int]:
    try:
        compile_for = provider.compiler()
    except ImportError as error:
        name, _ = _known(key)
        raise UnsupportedError(
            f"{name} on a GPU needs numba-cuda to compile its kernel ({error}): "
            "pip install 'pyshmem-openshmem[cuda]'"
        ) from error
    return compile_for(key, capability)


def _wanted(key: int) -> str:
    """The arguments of ``prepare`` for a kernel."""
    name, dtype = _known(key)
    return f"{name!r}, dtype={dtype!r}" if dtype else f"{name!r}"


def ask_before_loads(may_run: Callable[[], bool]) -> None:
    """Ask ``may_run`` too whether a kernel runs, before another one is loaded."""
    _running.append(may_run)


def _busy(handle: int) -> bool:
    """May a kernel run on the GPU, as far as somebody knows? Of all front ends on the default stream."""
    finished = ffi.new("int *", 1)
    if handle != OWN:
        check(lib.ishmemx_stream_finished(handle, finished))
    busy = not finished[0] or lib.ishmemx_default_stream_busy()
    return bool(busy) or any(may_run() for may_run in _running)


def _let_kernels_end(key: int, handle: int) -> None:
    """Until no kernel runs, or a moment has passed; ShmemError where one goes on waiting in the library.

    A GPU loads nothing while kernels run. A kernel that waits for what this PE does next would wait for
    ever, and this PE for the load; one that waits for a PE out of reach waits for the proxy, which can
    copy nothing while the load waits, so it has more time.
    """
    began, text = time.monotonic(), ffi.new("char[]", _TEXT_BYTES)
    by_proxy = handle != OWN and lib.ishmemx_has_far_pes()
    moment = _PATIENCE if by_proxy else _MOMENT
    while True:
        waits = lib.ishmemx_kernel_waits(text, _TEXT_BYTES)
        passed = time.monotonic() - began
        if waits and passed > _PATIENCE:
            raise ShmemError(
                f"the kernel of {_known(key)[0]} is not loaded, and a GPU loads nothing while kernels "
                f"run: one has waited for {passed:.0f} s ({ffi.string(text).decode(errors='replace')}). "
                f"If it waits for what this PE does next, call "
                f"pyshmem.streams.prepare({_wanted(key)}) before it is launched"
            )
        if not waits and (passed > moment or not _busy(handle)):
            return
        time.sleep(_NAP)


def _told(what: str, instead: str) -> str:
    return (
        f"{what} waits for the kernels that run: a GPU loads nothing beside them. If one goes on until "
        f"this PE has done something, in a loop of its own, neither ends: {instead} before that is "
        "launched"
    )


@contextlib.contextmanager
def telling(what: str, instead: str) -> Iterator[None]:
    """A load in here tells on stderr what it waits for, when it takes long beside kernels that run.

    Args:
        what: what is loaded, as the line begins.
        instead: what to do before such kernels are launched.
    """
    if not _busy(OWN):
        yield
        return

    def tell() -> None:
        print(f"pyshmem: {_told(what, instead)}", file=sys.stderr, flush=True)

    timer = threading.Timer(_PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _load_beside(key: int, load_now: Callable[[], None]) -> None:
    """Load while a kernel runs, by a thread of its own: the driver may wait until that has ended.

    The caller can be interrupted meanwhile, and gives up when ``PYSHMEM_TIMEOUT`` is over; the driver
    goes on, and has loaded the kernel once it can. ShmemTimeout: it could not in that time.
    """
    done, failed = threading.Event(), []

    def run_it() -> None:
        try:
            load_now()
        except BaseException as error:  # the caller raises it
            failed.append(error)
        finally:
            done.set()

    what, instead = (
        f"{_known(key)[0]}, whose kernel is not loaded,",
        f"call pyshmem.streams.prepare({_wanted(key)})",
    )
    limit = setting_number("TIMEOUT") * 1e-9 or None
    threading.Thread(target=run_it, name="pysh-load", daemon=True).start()
    with telling(what, instead):
        if not done.wait(limit):
            raise ShmemTimeout(f"after {limit:.0f} s: {_told(what, instead)}")
    if failed:
        raise failed[0]


def load(key: int, handle: int = OWN) -> None:
    """Load the kernel of ``key``, from the cache or compiled; ``handle``: of the stream it is for.

    Raises: UnsupportedError (no Numba), ImportError (Numba without its simulator), ShmemError.
    """
    if lib.ishmemx_kernel_loaded(key):
        return
    if runtime.device_name() in SIMULATED:
        provider.simulate()
        check(lib.ishmemx_kernel_load(key, 0, b"", 0))
        return
    capability = ffi.new("int *")
    check(lib.ishmemx_cuda_capability(capability))
    # The PEs of a host start their kernels together: one compiles, the others wait for its file.
    image = kept_files.kept(
        _path(key, capability[0]), functools.partial(_file, key, capability[0]), _image
    )
    assert image is not None
    _let_kernels_end(key, handle)
    code, entry, stack = image

    def load_now() -> None:
        buffer = ffi.from_buffer(code)
        check(lib.ishmemx_kernel_load(key, lib.address_of(buffer), entry.encode(), stack))

    if _busy(handle):
        _load_beside(key, load_now)
    else:
        load_now()


def load_missing(handle: int) -> None:
    """Load what the last call of this thread lacked; not while its stream is captured."""
    key = lib.ishmemx_kernel_missing()
    capturing = ffi.new("int *")
    if handle != OWN:
        check(lib.ishmemx_stream_capturing(handle, capturing))
    if capturing[0]:
        raise ShmemError(
            f"the kernel of {_known(key)[0]} is not loaded, which cannot be done while a stream is "
            f"captured: call pyshmem.streams.prepare({_wanted(key)}) before the capture"
        )
    load(key, handle)


def run(function: Callable[..., int], *arguments: Any) -> None:
    """Call ``function``, whose last argument is the stream's handle; load what it lacks."""
    status = function(*arguments)
    if status == lib.ISHMEMX_ERR_UNPREPARED:
        load_missing(arguments[-1])
        status = function(*arguments)
    check(status)


@functools.cache
def _has_numba() -> bool:
    # Looking for a module asks the file system for each folder of sys.path: milliseconds on some.
    return environment.has_module("numba")


def for_kernels(routine: str, given: tuple[int, ...]) -> bool:
    """Whether kernels can do it: they need Numba, and GPUs have no long double."""
    typed = routine in ("reduce", "reduce_scatter", "sum_scan")
    return _has_numba() and not (typed and given[2] == ELEMENT_NUMBER["longdouble"])


@functools.cache
def _kind_of_element(number: int) -> Kind:
    return kind_of(np.dtype(ELEMENTS[number].dtype))


def wait_on_stream(
    element: str, address: int, cmp: int, value: int, stream: StreamLike, driver: bool = False
) -> None:
    """A wait for one word, by its element, in the order of a stream.

    ``driver``: by the driver if it can, whatever is set, beside kernels that fill the GPU too.
    """
    number = ELEMENT_NUMBER[element]
    bits = bits_of(_kind_of_element(number), value, name="cmp_value")
    wait = lib.ishmemx_wait_by_driver if driver else lib.ishmemx_wait_until_on_stream
    run(wait, number, address, integer("cmp", cmp), bits, stream_handle(stream))


def prepare(*routines: str | Callable[..., Any], dtype: Any = None) -> None:
    """Compile, and load, the kernels that routines launch with ``stream=`` or on device arrays.

    A first use does it too, in up to some seconds; inside a capture of a stream it cannot. A GPU
    loads nothing until the kernels that run have ended: prepare what comes behind a kernel, or a
    stream's ``wait_until_any`` and the like, that waits for what this PE does next. A first use beside
    a kernel that has waited in the library for 10 s raises ShmemError and says what to prepare.
    Compiled kernels are kept in
    ``PYSHMEM_CACHE_DIR``. Where PEs are out of reach of loads and stores (on another host), copies,
    atomics and signals to them have a kernel too. Not collective.

    Args:
        routines: routines of ``pyshmem``, or their names: collectives, ``barrier_all``, ``sync_all``,
            ``quiet``, waits. None: those that need no dtype. Others need no kernel of their own.
        dtype: of the arrays, for reductions, scans, ``alltoalls`` and waits; or a list of dtypes.

    Raises: TypeError (dtype missing or not of the routine), ValueError (no such routine),
        UnsupportedError (no Numba), NotInitialized, ShmemError.
    Example: ``pyshmem.streams.prepare("sum_reduce", dtype="float32")``
    Extension.
    """
    runtime.current()
    names = [r if isinstance(r, str) else getattr(r, "__name__", str(r)) for r in routines]
    by_proxy = bool(lib.ishmemx_has_far_pes())
    for name in names:
        if name not in _ROUTINES and name not in _ALIASES:
            raise ValueError(
                f"{name} launches no kernel on a stream; those that do: {', '.join(_ROUTINES)}"
            )
    for name in names or [name for name, routine in _ROUTINES.items() if not routine.dtype]:
        for one in dtype if isinstance(dtype, (list, tuple)) else [dtype]:
            for key in _keys(name, one, by_proxy):
                if by_proxy or key != STREAM_KERNEL.REQUEST:
                    load(key)


def _refill() -> None:
    """Kernels see one state block from begin to end: those on streams are waited for."""
    if runtime.device_name() == "cuda":
        check(lib.ishmemx_streams_settle())
        check(lib.ishmemx_kernels_refill())


#: By their names: who sets signals, and who waits (ISHMEMX_SIGNALS_*; -1: as the setting says).
_SIGNALS = {None: (-1, -1), "driver": (0, 0), "waits": (0, 1), "kernel": (2, 2)}


def set_signals(by: str | None) -> None:
    """Choose who sets signals and waits for words on streams, for calls and captures from now on.

    Kernels of one thread see a signal sooner. The driver's operations need no room on the GPU: choose
    them where kernels fill it until a signal has come (``docs/streams.md``).

    Args:
        by: ``"driver"``; ``"waits"``: waits are kernels; ``"kernel"``: what sets signals too; None: what
            ``PYSHMEM_STREAM_SIGNALS`` says, as after ``init``.

    Raises: ValueError.
    Example: ``pyshmem.streams.set_signals("kernel")``
    Extension.
    """
    if by not in _SIGNALS:
        raise ValueError(f"signals are by 'driver', 'waits' or 'kernel', not {by!r}")
    check(lib.ishmemx_stream_signals(*_SIGNALS[by]))


runtime.on_init(lambda: set_signals(None))
runtime.on_init(_refill)
runtime.on_state_change(_refill)
