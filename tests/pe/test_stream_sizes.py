# SPDX-License-Identifier: BSD-3-Clause
"""Counts on streams whose bytes have no room in 64 bits: refused before anything is queued."""

from __future__ import annotations

from collections.abc import Callable

#: Calls of the C library. ``d`` and ``s`` are of 64 int64 elements, ``TWO(n)`` is 2**n.
CALLS = [
    "iput_on_stream(CTX, d, s, TWO(20), TWO(20), 1, TWO(41) + 1, 8, 0, STREAM)",
    "iput_on_stream(CTX, d, s, TWO(61), TWO(61), 1, 9, 8, 0, STREAM)",
    "iput_on_stream(CTX, d, s, 1, TWO(61), 1, 9, 8, 0, STREAM)",  # of the source alone
    "iget_on_stream(CTX, d, s, TWO(61), 1, 1, 9, 8, 0, STREAM)",
    "iget_on_stream(CTX, d, s, TWO(61), TWO(61), TWO(61), 2, 8, 0, STREAM)",
    "iget_on_stream(CTX, d, s, 1, 1, TWO(61) + 1, 1, 8, 0, STREAM)",
    "broadcast_on_stream(WORLD, d, s, TWO(63) + 8, 0, STREAM)",
    "fcollect_on_stream(WORLD, d, s, TWO(63) + 8, STREAM)",
    "fcollect_on_stream(WORLD, d, s, TWO(62), STREAM)",
    "collect_on_stream(WORLD, d, TWO(63) + 8, s, TWO(63) + 8, STREAM)",
    "alltoall_on_stream(WORLD, d, s, TWO(63), STREAM)",
    "alltoalls_on_stream(WORLD, d, s, 1, 1, TWO(63) + 1, 8, STREAM)",
    "alltoalls_on_stream(WORLD, d, s, TWO(60), 1, 2, 8, STREAM)",
    "alltoalls_on_stream(WORLD, d, s, 1, TWO(60), 2, 8, STREAM)",
    "reduce_on_stream(WORLD, SUM, INT64, d, s, TWO(61) + 1, STREAM)",
    "reduce_scatter_on_stream(WORLD, SUM, INT64, d, s, TWO(61) + 1, STREAM)",
    "reduce_scatter_on_stream(WORLD, SUM, INT64, d, s, TWO(60), STREAM)",
    "sum_scan_on_stream(WORLD, 0, INT64, d, s, TWO(61) + 1, STREAM)",
    "wait_set_on_stream(WAIT_ALL, INT64, s, TWO(61) + 1, EQ, 0, NULL, NULL, STREAM)",
    "put_on_stream(CTX, d, s, TWO(63) + 8, 0, STREAM)",
]

PROGRAM = """
import numpy as np, pyshmem
from pyshmem._core import library
from pyshmem._core.contract import CMP
from pyshmem._core.type_table import ELEMENTS
CALLS = {calls!r}
ffi, lib = library.ffi, library.lib
with pyshmem.init(heap_size="1M", device="sim") as job:
    arrays = [pyshmem.ones(64, dtype=np.int64, heap="device") for _ in range(2)]
    d, s = (array.__array_interface__["data"][0] for array in arrays)
    place = ffi.new("uintptr_t *")
    library.check(lib.ishmemx_stream_create(place))
    names = dict(CTX=lib.ctx_default(), WORLD=lib.team_world(), SUM=5, EQ=CMP.EQ, NULL=0, d=d, s=s,
        WAIT_ALL=lib.ISHMEMX_KERNEL_WAIT_ALL, STREAM=place[0], TWO=lambda n: 1 << n,
        INT64=[e.name for e in ELEMENTS].index("int64"))
    for call in CALLS:
        name, _, given = call.partition("(")
        try:
            library.check(getattr(lib, "ishmemx_" + name)(*eval("(" + given, names)))
            print("taken:", call)
        except ValueError as error:
            print("refused")
        except Exception as error:
            print("no refusal:", call, error)
    library.check(lib.ishmemx_stream_finish(place[0]))
    assert all((array == 1).all() for array in arrays)
    arrays[1][:] = 7  # the stride of a single block, of any size, leads nowhere
    single = 1 << 61, 1 << 60, 1, 1, 8, job.my_pe
    library.check(lib.ishmemx_iput_on_stream(names["CTX"], d, s, *single, place[0]))
    library.check(lib.ishmemx_stream_finish(place[0]))
    assert arrays[0].tolist() == [7] + 63 * [1]
"""


def test_bytes_that_wrap_are_refused_before_anything_is_queued(run_pes: Callable) -> None:
    done = run_pes(2, PROGRAM.format(calls=CALLS), check=True)
    assert done.stdout.split("\n").count("refused") == 2 * len(CALLS), done.stdout
