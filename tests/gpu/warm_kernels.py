# SPDX-License-Identifier: BSD-3-Clause
"""Compiles all kernels for streams into the cache, each PE its share; then tests and figures need not.

Run: python -m pyshmem run -n 16 --device cuda tests/gpu/warm_kernels.py    (PEs may share GPUs)
"""

from __future__ import annotations

import time

import pyshmem
from pyshmem._core.dtypes import as_dtype, kind_of
from pyshmem._core.type_table import ELEMENTS
from pyshmem.host.kernels import stream_kernels

with pyshmem.init(heap_size="16M", device_heap_size="64M") as job:
    begin, keys = time.perf_counter(), set()
    for name, routine in stream_kernels._ROUTINES.items():
        for element in ELEMENTS:
            family = routine.dtype if len(routine.dtype) == 1 else "r"
            if family in element.families and element.dtype != "longdouble":
                keys.update(stream_kernels._keys(name, kind_of(as_dtype(element.dtype)).dtype))
    mine = sorted(keys)[job.my_pe :: job.n_pes]
    for key in mine:
        stream_kernels.load(key)
    print(
        f"PE {job.my_pe}: {len(mine)} of {len(keys)} kernels, {time.perf_counter() - begin:.0f} s"
    )
