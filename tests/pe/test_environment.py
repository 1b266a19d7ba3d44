# SPDX-License-Identifier: BSD-3-Clause
"""What a job reads from the specification's own variables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PROGRAM = """
import pyshmem
pyshmem.init()
print("bytes", pyshmem.heap_info("host").nbytes)
"""


def heap_of(done) -> set[int]:
    return {int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("bytes")}


@pytest.mark.parametrize(("text", "nbytes"), [("3.5m", 7 << 19), ("4096K", 4 << 20)])
def test_the_heap_size_of_the_specification_is_read(
    text: str, nbytes: int, run_pes: Callable
) -> None:
    done = run_pes(2, PROGRAM, env={"SHMEM_SYMMETRIC_SIZE": text}, check=True)
    (size,) = heap_of(done)
    assert nbytes <= size < nbytes + (1 << 20)
    both = {"SHMEM_SYMMETRIC_SIZE": "64M", "PYSHMEM_HEAP_SIZE": text}
    assert heap_of(run_pes(2, PROGRAM, env=both, check=True)) == {size}


def test_a_heap_size_that_is_none_names_its_variable(run_pes: Callable) -> None:
    done = run_pes(2, PROGRAM, env={"SHMEM_SYMMETRIC_SIZE": "much"})
    assert done.returncode != 0
    assert "SHMEM_SYMMETRIC_SIZE is 'much', which is not a size" in done.stderr
