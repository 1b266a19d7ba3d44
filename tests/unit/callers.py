# SPDX-License-Identifier: BSD-3-Clause
"""Every public routine with arguments that it takes, by the names of its parameters.

For tests of what all routines have in common: they walk ``pyshmem.__all__``, so that a new routine is in
them. A parameter that has no value here is an error of the test until it has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pyshmem

#: Routines that end the process or the job, start another, or take no such arguments.
APART = {
    "abort", "global_exit", "init", "finalize", "launch", "choose_device", "register_handler",
    "unregister_handler", "unregister", "array", "arange", "heap_info", "heap_sites", "current",
}  # fmt: skip

#: Makes an argument, by the name of its parameter. ``h``: the heap.
ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "dest": lambda h: pyshmem.zeros(4, np.int64, heap=h),
    "source": lambda h: pyshmem.ones(4, np.int64, heap=h),
    "array": lambda h: pyshmem.zeros(4, np.int64, heap=h),
    "prototype": lambda h: pyshmem.zeros(4, np.int64, heap=h),
    "sig_addr": lambda h: pyshmem.full(1, 1, np.uint64, heap=h),
    "ivar": lambda h: pyshmem.ones(1, np.int64, heap=h),
    "ivars": lambda h: pyshmem.ones(4, np.int64, heap=h),
    "fetch": lambda h: pyshmem.zeros(1, np.int64, heap=h),
    "found": lambda h: pyshmem.zeros(1, np.int64, heap=h),
    "indices": lambda h: pyshmem.zeros(4, np.int64, heap=h),
    "lock": lambda h: pyshmem.zeros(1, np.int64),
    "value": lambda h: 1, "cond": lambda h: 0, "pe": lambda h: 0, "root": lambda h: 0,
    "pes": lambda h: [0],
    "signal": lambda h: 1, "sig_op": lambda h: int(pyshmem.SIGNAL_SET), "nelems": lambda h: 4,
    "cmp": lambda h: int(pyshmem.CMP_EQ), "cmp_value": lambda h: 1, "cmp_values": lambda h: [1, 1, 1, 1],
    "dst": lambda h: 1, "sst": lambda h: 1, "bsize": lambda h: 1, "nblocks": lambda h: 1,
    "shape": lambda h: 4,
    "fill_value": lambda h: 1, "align": lambda h: 64, "hints": lambda h: 0, "level": lambda h: 1,
    "status": lambda h: [0, 0, 0, 0],
}  # fmt: skip

#: Parameters that are integers, and how they are called in messages where that is another way.
NUMBERS = {
    "pe": "pe", "root": "root", "signal": "signal", "sig_op": "sig_op", "nelems": "nelems", "cmp": "cmp",
    "cmp_value": "cmp_value", "dst": "dst", "sst": "sst", "bsize": "bsize", "nblocks": "nblocks",
    "shape": "shape", "align": "align", "hints": "hints", "level": "level",
}  # fmt: skip
#: Parameters that are arrays which a call writes to, here or on other PEs.
WRITTEN = {"dest", "fetch", "sig_addr", "lock", "found", "indices"}
#: Routines that only read a signal word.
READERS = {"signal_fetch", "signal_wait_until"}
#: Only with ``stream=``.
STREAM_ONLY = {"found", "indices"}
#: The others, of which these tests say nothing.
OTHERS = {"ctx", "team", "stream", "heap", "dtype", "arguments"}


def routines() -> Iterator[tuple[str, Callable[..., Any], list[str]]]:
    """Name, routine, parameters."""
    for name in sorted(pyshmem.__all__):
        routine = getattr(pyshmem, name)
        if callable(routine) and not isinstance(routine, type) and name not in APART:
            yield name, routine, list(inspect.signature(routine).parameters)


def cases(of: Any) -> list[tuple[str, str, bool]]:
    """Each routine with each of its parameters that is in ``of``, without and with a stream."""
    found = []
    for name, _, parameters in routines():
        for parameter in parameters:
            if parameter in of:
                streamed = [parameter in STREAM_ONLY]
                if "stream" in parameters and parameter != "status":
                    streamed = [False, True] if parameter not in STREAM_ONLY else [True]
                found += [(name, parameter, on_stream) for on_stream in streamed]
    return found


def call(name: str, on_stream: bool, **given: Any) -> Any:
    """Call a routine with what it takes, but for what is given."""
    routine = getattr(pyshmem, name)
    heap = "device" if on_stream else "host"
    arguments: dict[str, Any] = {}
    for parameter, described in inspect.signature(routine).parameters.items():
        required = described.default is inspect.Parameter.empty
        if parameter in given:
            arguments[parameter] = given[parameter]
        elif parameter in STREAM_ONLY:
            if on_stream:
                arguments[parameter] = ARGUMENTS[parameter](heap)
        elif required and described.kind is not inspect.Parameter.VAR_POSITIONAL:
            arguments[parameter] = ARGUMENTS[parameter](heap)
    if on_stream:
        arguments["stream"] = 0
    if name.endswith("_nb"):
        return routine(**arguments).wait()
    positional = [
        arguments.pop(p)
        for p, described in inspect.signature(routine).parameters.items()
        if described.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p in arguments
    ]
    result = routine(*positional, **arguments)
    if "nbi" in name:
        pyshmem.quiet()
    return result
