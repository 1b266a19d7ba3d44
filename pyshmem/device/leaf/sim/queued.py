# SPDX-License-Identifier: BSD-3-Clause
"""Calls of Python in the order of a simulator's stream; what of Numba's simulator waits for streams."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...._core.arrays.checks import stream_handle
from ...._core.library import check, ffi, lib
from ...._foreign import numba_simulator


class _Call(NamedTuple):
    name: str
    function: Callable[[], None]
    captured: bool  # a graph has it, which may be replayed until the job ends


_calls: dict[int, _Call] = {}
_numbers = itertools.count()


def handle_of(stream: Any) -> int:
    """The stream's handle; 0 for Numba's streams, which do everything at once here."""
    known = hasattr(stream, "__cuda_stream__") or isinstance(stream, int)
    return stream_handle(stream) if known else 0


def is_captured(handle: int) -> bool:
    """Is the stream being captured? Raises what an earlier kernel recorded; ValueError: no stream."""
    captured = ffi.new("int *")
    check(lib.ishmemx_stream_capturing(handle, captured))
    return bool(captured[0])


def put(handle: int, name: str, function: Callable[[], None], *, captured: bool) -> None:
    """Call ``function`` when the stream gets there; in a capture, whenever the graph does."""
    number = next(_numbers)
    _calls[number] = _Call(name, function, captured)
    check(lib.ishmemx_sim_call(_run, number, handle))


def forget() -> None:
    """The job is over, and its streams and graphs with it."""
    _calls.clear()


@contextmanager
def ends_job(name: str) -> Iterator[None]:
    """Print an exception, and end the job as a fault would: nobody called what a stream runs."""
    try:
        yield
    except BaseException as error:
        print(f"pyshmem: {name} on a stream failed", file=sys.stderr)
        traceback.print_exception(error)
        lib.ishmemx_abort(1, f"{name} on a stream failed: {error!r}".encode())


@ffi.callback("ishmemx_sim_call_t")
def _run(number: int) -> None:
    call = _calls.get(number)
    if call is None:  # the job has ended
        return
    if not call.captured:
        del _calls[number]
    with ends_job(call.name):
        call.function()


# -- what waits ----------------------------------------------------------------------------------


def _finish_one(stream: Any, what: str) -> None:
    """Before the host copies in the order of a stream."""
    handle = handle_of(stream)
    if not handle:
        return
    if is_captured(handle):
        raise ValueError(
            f"{what} on a stream that is being captured: the simulator's graphs lack it"
        )
    check(lib.ishmemx_stream_finish(handle))


def install(finish_all: Callable[[], None]) -> None:
    """Patches what of Numba's simulator takes it for granted that everything is done.

    Args:
        finish_all: waits for all streams.
    """

    def to_host(plain: Callable[..., Any]) -> Callable[..., Any]:
        def copy_to_host(self: Any, ary: Any = None, stream: Any = 0) -> Any:
            _finish_one(stream, "copy_to_host")
            return plain(self, ary)

        return copy_to_host

    def to_device(plain: Callable[..., Any]) -> Callable[..., Any]:
        def copy_to_device(self: Any, ary: Any, stream: Any = 0) -> None:
            _finish_one(stream, "copy_to_device")
            plain(self, ary)

        return copy_to_device

    numba_simulator.COPY_TO_HOST.wrap(to_host)
    numba_simulator.COPY_TO_DEVICE.wrap(to_device)
    numba_simulator.EVENT_SYNCHRONIZE.replace(lambda self: finish_all())
    numba_simulator.EVENT_WAIT.replace(lambda self, stream=0: finish_all())
    for synchronize in numba_simulator.SYNCHRONIZE:
        synchronize.replace(finish_all)
