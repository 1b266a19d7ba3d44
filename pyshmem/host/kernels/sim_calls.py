# SPDX-License-Identifier: BSD-3-Clause
"""Calls of Python in the order of a simulator's stream."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..._core.library import check, ffi, lib
from ..job import tracebacks


class _Call(NamedTuple):
    name: str
    function: Callable[[], None]
    captured: bool  # a graph has it, which may be replayed until the job ends


_calls: dict[int, _Call] = {}
_numbers = itertools.count()


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
        with tracebacks.shortened(error):
            traceback.print_exception(error)
        lib.ishmemx_abort(1, f"{name} on a stream failed: {error!r}".encode())


@ffi.callback("ishmemx_sim_call_t")  # type: ignore[untyped-decorator, unused-ignore]
def _run(number: int) -> None:
    call = _calls.get(number)
    if call is None:  # the job has ended
        return
    if not call.captured:
        del _calls[number]
    with ends_job(call.name):
        call.function()
