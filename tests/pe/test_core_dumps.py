# SPDX-License-Identifier: BSD-3-Clause
"""The heaps are no part of a core dump: a PE maps those of all PEs, and would write out each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FLAGS = """
import pyshmem

with pyshmem.init(heap_size="1M", device_heap_size="1M"):
    flags, mapping = {}, ""
    for line in open("/proc/self/smaps"):
        words = line.split()
        if "-" in words[0]:
            mapping = line
        elif words[0] == "VmFlags:" and "pyshmem-" in mapping and "-heap" in mapping:
            name = "device" if "pyshmem-device-heap" in mapping else "host"
            flags[name] = "dd" in words  # dd: left out of core dumps
    print(flags["host"], flags["device"])
"""


@pytest.mark.parametrize("core_heaps", ["0", "1"])
def test_core_dumps_hold_heaps_only_when_asked(core_heaps: str, run_pes: Callable) -> None:
    done = run_pes(2, FLAGS, device="sim", env={"PYSHMEM_CORE_HEAPS": core_heaps}, check=True)
    left_out = str(core_heaps == "0")
    assert done.stdout.split() == [left_out] * 4
