# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives as C functions, for kernels that run in the simulator: words, time, threads.

The names of ``leaf.cuda.threads``, on the same int64 addresses. Integers are Python's, so values are cut
to the width of their dtype when they reach memory, as a GPU would.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...._core.library import checks_order, lib, not_initialized
from ...._core.type_table import ATOMIC_OPS, ELEMENT_NUMBER
from ...._core.values import (
    OF_A_GROUP,
    WHOLE_NUMBERS,
    Cmp,
    SignalOp,
    is_integer,
    not_whole,
    refuse_misplaced,
)
from ...families import BY_NUMBER, not_an_array
from ...state import MODULE
from . import greenlets
from .arrays import unwrapped
from .messages import label_word, print_bits, print_kind

__all__ = [
    "AMO_SET", "UINT64", "add64", "await_earlier_kernels", "block_index", "block_share",
    "block_sync", "block_threads", "claim", "cold", "cold_large", "compare_swap64", "fence",
    "fetch_add64", "fixed32", "fixed64", "follows_in_block", "grid_blocks", "grid_sync",
    "label_word", "lane", "let_next_kernel_start", "line_block", "line_blocks", "line_rank",
    "line_thread", "line_threads", "load_pair", "nap", "note_call", "now", "opaque", "outline",
    "print_bits", "print_kind", "quotient32", "raise64", "rare", "read64", "read64_acquire",
    "relax", "signal_release_add", "signal_release_set", "state", "state_pe", "store_pair",
    "stride", "thread_in_block", "trap", "warp_share", "warp_sync", "warp_threads", "write64",
]  # fmt: skip

MASK = (1 << 64) - 1
UINT64, AMO_SET = BY_NUMBER["uint64"], ATOMIC_OPS.index("set")
_ADD, _SWAP, COMPARE_SWAP = (ATOMIC_OPS.index(op) for op in ("add", "swap", "compare_swap"))
_UINT64 = ELEMENT_NUMBER["uint64"]

#: The state block; ``jit.modules`` fills it. Empty while no job runs.
STATE: list[int] = []

# -- order, time, control ------------------------------------------------------------------------

fence = lib.ishmemx_leaf_fence
now = lib.ishmemx_leaf_time_awake
relax = greenlets.pause


def opaque(value: int) -> int:
    return value


stride = opaque


def quotient32(a: int, b: int) -> int:
    return a // b


def cold(function: Callable[..., int]) -> Callable[..., int]:
    return function


rare = cold_large = cold


outline = cold


def trap() -> None:
    raise RuntimeError("a kernel used pyshmem.device outside init() .. finalize()")


#: Kernels with the line of their last call that failed or waited for long, by their word MODULE.
CALLS: dict[int, str] = {}
_PACKAGE = str(Path(__file__).parents[3])


def note_call() -> None:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    number, name = state(MODULE), greenlets.current().grid.name
    if frame.f_code.co_filename.startswith(_PACKAGE):  # the library's own, of a call on a stream
        text = f"{name.removesuffix('_on_stream')} on a stream"
    else:
        text = f"{name} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
    CALLS[number] = text
    shown = f"{text}{greenlets.launched}"
    lib.ishmemx_name_set(lib.ISHMEMX_NAME_KERNEL, number, shown.encode())


def read64(address: int) -> int:
    value: int = lib.ishmemx_leaf_load(address, 8)
    return value - (1 << 64) if value >> 63 else value


def fixed32(address: int) -> int:
    value: int = lib.ishmemx_leaf_load(address, 4)
    return value - (1 << 32) if value >> 31 else value


def read64_acquire(address: int) -> int:
    value = read64(address)
    fence()
    return value


fixed64 = read64


def write64(address: int, value: int) -> None:
    lib.ishmemx_leaf_store(address, int(value) & MASK, 8)


def signal_release_set(address: int, value: int) -> None:
    lib.ishmemx_leaf_store_release(address, int(value) & MASK)


def signal_release_add(address: int, value: int) -> None:
    fence()
    lib.ishmemx_leaf_atomic(_ADD, _UINT64, address, int(value) & MASK, 0)


def claim(address: int, value: int) -> int:
    old: int = lib.ishmemx_leaf_atomic(_SWAP, _UINT64, address, int(value) & MASK, 0)
    return old


def fetch_add64(address: int, value: int) -> int:
    old: int = lib.ishmemx_leaf_atomic(_ADD, _UINT64, address, value, 0)
    return old


def add64(address: int, value: int) -> None:
    fetch_add64(address, value)


def compare_swap64(address: int, expected: int, value: int) -> int:
    old: int = lib.ishmemx_leaf_atomic(COMPARE_SWAP, _UINT64, address, value, expected)
    return old


def raise64(address: int, value: int) -> None:
    seen = read64(address)
    while seen < value:
        old = compare_swap64(address, seen, value)
        seen = value if old == seen else old


def load_pair(address: int) -> tuple[int, int]:
    second = read64_acquire(address + 8)
    return read64(address), second


def store_pair(address: int, low: int, high: int) -> None:
    write64(address, low)
    write64(address + 8, high)


nap = greenlets.pause


def state(index: int) -> int:
    if index == MODULE and (number := greenlets.current().grid.number) is not None:
        return number
    try:
        return STATE[index]
    except IndexError:
        raise not_initialized("a kernel uses pyshmem.device") from None


state_pe = state


_OTHER_INTEGERS = frozenset(
    (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64, Cmp, SignalOp)
)


#: In place of an argument that is not given.
_LEFT_OUT = object()


def public_routine(function: Any) -> Any:
    """``function`` as kernels call it: the thread is in it meanwhile.

    It takes NumPy's integers but int64, from arguments and arrays of kernels, as ours.
    """
    name, arrays, whole = function.__name__, arrays_of(function), _whole(function)
    parameters = tuple(inspect.signature(function).parameters)
    numbers = numbers_of_group(function)
    seen: Callable[..., Any] | None = None
    if checks_order():
        from . import record

        seen = record.recorded(function)

    @functools.wraps(function)
    def public(*arguments: Any, **named: Any) -> Any:
        thread = greenlets.current(name)
        for position, parameter, default in whole:
            given = (
                arguments[position] if position < len(arguments) else named.get(parameter, default)
            )
            if type(given) is not int and given is not default:
                refuse_misplaced(parameter, given, name)
                if not _is_whole(given):
                    what = f"{given!r} ({type(given).__name__})"
                    if isinstance(array := unwrapped(given), np.ndarray):
                        what = f"an array of shape {array.shape}, {array.dtype}"
                    raise TypeError(not_whole(name, parameter, what, parameters))
        for position, parameter, is_written in arrays:
            given = (
                arguments[position]
                if position < len(arguments)
                else named.get(parameter, _LEFT_OUT)
            )
            if given is _LEFT_OUT:
                continue  # Python says so
            if not isinstance(given := unwrapped(given), np.ndarray):
                what = "None" if given is None else f"{given!r:.40} ({type(given).__name__})"
                raise TypeError(f"{name}: {parameter}: {not_an_array(what)}")
            if is_written and not given.flags.writeable:
                raise ValueError(read_only(name, parameter))
        outer, thread.routine = thread.routine, name
        try:
            if named or not _OTHER_INTEGERS.isdisjoint(map(type, arguments)):
                for parameter, given in (*zip(parameters, arguments, strict=False), *named.items()):
                    refuse_misplaced(parameter, given, name)
                arguments = tuple(map(_plain, arguments))
                named = {key: _plain(value) for key, value in named.items()}
            if numbers:
                known = dict(zip(parameters, arguments, strict=False)) | named
                thread.given = {each: known[each] for each in numbers if each in known}
            if seen is not None and not outer:
                return seen(thread, arguments, named)
            return function(*arguments, **named)
        finally:
            thread.routine = outer

    return public


def read_only(routine: str, parameter: str) -> str:
    """The message for an array that a routine writes to and that may not be written to."""
    return f"{routine}: {parameter} is read-only"


def arrays_of(function: Any) -> list[tuple[int, str, bool]]:
    """The parameters that are arrays, and whether a routine writes to them, here or at a PE."""
    written = {"dest", "fetch", "lock", "indices"}
    if not function.__name__.startswith(("signal_fetch", "signal_wait")):
        written.add("sig_addr")
    names = written | {"source", "ivar", "ivars", "sig_addr", "cmp_values", "pes"}
    parameters = inspect.signature(function).parameters
    return [(at, name, name in written) for at, name in enumerate(parameters) if name in names]


def _whole(function: Any) -> list[tuple[int, str, Any]]:
    """The parameters that are whole numbers, and what stands for those that are left out."""
    parameters = inspect.signature(function).parameters
    return [
        (at, name, _LEFT_OUT if parameter.default is parameter.empty else parameter.default)
        for at, (name, parameter) in enumerate(parameters.items())
        if name in WHOLE_NUMBERS
    ]


def numbers_of_group(function: Any) -> list[str]:
    """Of a routine of a group the parameters for which all its threads have to give the same number."""
    if not function.__name__.endswith(("_warp", "_work_group", "_grid")):
        return []
    return [name for name in inspect.signature(function).parameters if name in OF_A_GROUP]


def _is_whole(given: Any) -> bool:
    return is_integer(given) or isinstance(given, np.bool_)


def _plain(value: Any) -> Any:
    return int(value) if type(value) in _OTHER_INTEGERS else value


# -- who is running --------------------------------------------------------------------------------


def thread_in_block() -> int:
    return greenlets.current().thread_id


def follows_in_block() -> int:
    return thread_in_block()


def block_threads() -> int:
    return greenlets.current().block.size


def block_index() -> int:
    return greenlets.current().block.index


def grid_blocks() -> int:
    return greenlets.current().grid.blocks


# Grids and blocks of one dimension.
line_thread, line_threads = thread_in_block, block_threads
line_block, line_blocks = block_index, grid_blocks


def line_rank() -> int:
    return block_index() * block_threads() + thread_in_block()


def await_earlier_kernels() -> None:
    """Kernels of a stream run one behind the other here."""


let_next_kernel_start = await_earlier_kernels


def grid_sync() -> None:
    thread = greenlets.current()
    thread.grid.wait(thread, thread.routine)


def lane() -> int:
    return greenlets.current().thread_id & 31


def warp_threads() -> int:
    return greenlets.current().warp.size


def block_sync() -> None:
    thread = greenlets.current()
    thread.block.wait(thread, thread.routine)


def warp_sync() -> None:
    thread = greenlets.current()
    thread.warp.wait(thread, thread.routine)


def block_share(value: int) -> int:
    thread = greenlets.current()
    shared: int = thread.block.gather(thread, value, thread.routine)[0]
    return shared


def warp_share(value: int) -> int:
    thread = greenlets.current()
    shared: int = thread.warp.gather(thread, value, thread.routine)[0]
    return shared
