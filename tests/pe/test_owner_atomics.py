# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose links have no native atomic operations: the PE that has the word does them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from oshrun import PYTEST
from test_suites import SUITES

TESTS = ("test_locks.py", "test_paths.py")


@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_kernels_with_atomics_by_the_owner(device: str, run_command: Callable[..., object]) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "2", "--device", device]
    command += ["--timeout", "280", *PYTEST, *(str(SUITES / "device" / name) for name in TESTS)]
    run_command(command, 295, check=True, PYSHMEM_P2P_ATOMICS="owner")


TRITON = """
    import numpy as np
    import pyshmem
    import pyshmem.triton as shmem
    import triton
    import triton.language as tl
    from pyshmem.interop import iris

    @triton.jit
    def add(word, set_only, ctx, ADD: tl.constexpr):
        shmem.signal_op(set_only, 5, shmem.SIGNAL_SET, 0, ctx)
        if ADD:
            shmem.atomic_add(word, 1, 0, ctx)

    with pyshmem.init() as job:
        word, other = (pyshmem.zeros(1, dtype=np.int64, heap="device") for _ in range(2))
        for adds in (False, True):
            try:
                add[(1,)](shmem.wrap(word), shmem.wrap(other), shmem.context(), ADD=adds)
                pyshmem.quiet()
            except pyshmem.KernelFault as error:
                print(job.my_pe, "device routine atomic_add: the link to the GPU of PE 0" in str(error))
        pyshmem.barrier_all()
        print(job.my_pe, pyshmem.to_numpy(word)[0], pyshmem.to_numpy(other)[0])
        try:
            iris.iris()
        except pyshmem.UnsupportedError as error:
            print(job.my_pe, "have no native atomic operations" in str(error))
"""


def test_kernels_of_triton_say_that_they_cannot(run_pes: Callable) -> None:
    pytest.importorskip("triton")
    done = run_pes(2, TRITON, device="sim", env={"PYSHMEM_P2P_ATOMICS": "owner"}, check=True)
    assert sorted(done.stdout.splitlines()) == ["0 1 5", "0 True", "1 0 0", "1 True", "1 True"]
