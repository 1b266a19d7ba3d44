# SPDX-License-Identifier: BSD-3-Clause
"""Runs the kernels for streams in the simulator, in the thread of their stream.

Each has a grid of its own under the scheduler, beside those of other streams and of the program.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.contract import STREAM_KEY
from .._core.dtypes import as_dtype
from .._core.library import check, ffi, lib
from ..device.leaf.sim import launches
from ..host.kernels import sim_calls
from .table import StreamKernel, kernel_of

_ARRAY_WORDS, _SIZE, _ADDRESS = 7, 2, 4  # of an array among the arguments

_kernel = functools.cache(kernel_of)


def _array(address: int, nelems: int, dtype: np.dtype) -> np.ndarray:
    if not nelems:
        return np.empty(0, dtype)
    memory = ffi.buffer(ffi.cast("char *", address), nelems * dtype.itemsize)
    return np.frombuffer(memory, np.uint8).view(dtype)


def _arguments(kernel: StreamKernel, words: Any) -> list[Any]:
    """What the words stand for; memory is by reference."""
    at = 0
    arguments: list[Any] = []
    for letter in kernel.arguments:
        if letter == "i":
            arguments.append(int(words[at]))
            at += 1
            continue
        dtype = np.dtype(np.int64) if letter == "n" else as_dtype(kernel.dtype)
        arguments.append(_array(int(words[at + _ADDRESS]), int(words[at + _SIZE]), dtype))
        at += _ARRAY_WORDS
    return arguments


@ffi.callback("ishmemx_kernel_runner_t")
def _run(key: int, blocks: int, threads: int, words: Any) -> None:
    kernel = _kernel(key)
    with sim_calls.ends_job(kernel.name):
        launches.run_grid(
            kernel.function, blocks, threads, _arguments(kernel, words), STREAM_KEY.MODULE | key
        )


def install() -> None:
    """Have the library call it."""
    check(lib.ishmemx_sim_kernels(_run))
