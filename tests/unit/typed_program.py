# SPDX-License-Identifier: BSD-3-Clause
"""Read by type checkers only (``make lint``): what an editor knows of arrays and results."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import pyshmem
from pyshmem.typing import DeviceArray


def arrays(heap: str) -> None:
    """What comes back goes by the heap, where that is a literal."""
    assert_type(pyshmem.zeros(3), pyshmem.SymmetricArray)
    assert_type(pyshmem.full(3, 1.0, heap="host"), pyshmem.SymmetricArray)
    assert_type(pyshmem.empty((3, 4), np.float32, heap="device", align=64), DeviceArray)
    assert_type(pyshmem.new_signal(heap="device"), DeviceArray)
    assert_type(pyshmem.array([1, 2], heap=heap), pyshmem.SymmetricArray | DeviceArray)
    assert_type(pyshmem.zeros_like(np.ones(3)), pyshmem.SymmetricArray)
    assert_type(pyshmem.realloc(pyshmem.zeros(3), 4), pyshmem.SymmetricArray)


def routines(tensor: DeviceArray) -> None:
    """Arrays of both heaps and of NumPy are taken; what is no array is not."""
    pyshmem.put(pyshmem.zeros(3), np.ones(3), 0)
    pyshmem.get(tensor, tensor, 0)
    pyshmem.put(pyshmem.zeros(3), "text", 0)  # type: ignore[arg-type]
    pyshmem.free(7)  # type: ignore[arg-type]


def launched() -> None:
    """Results have the function's type."""

    def number(x: int) -> float:
        return x / 2

    assert_type(pyshmem.launch(number, 2, 3), list[float])
