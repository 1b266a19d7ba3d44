# SPDX-License-Identifier: BSD-3-Clause
"""Each routine for kernels has an example in its documentation, which kernels can call."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

#: One ends the program; the others are called by the host.
NOT_RUN = ("abort", "as_argument", "prepare")
HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(lambda a, b, c, d: 0)
NAMES = [name for name in shmem.__all__ if callable(getattr(shmem, name))]

KERNEL = """
@cuda.jit
def kernel(dest, source, counter, fetched, flags, found, members, sig, handler):
    right = (shmem.my_pe() + 1) % shmem.n_pes()
    {}
"""


@pytest.fixture
def arguments(job):
    if job.device != "sim":
        pytest.skip("what compilers make of each routine test_sm90.py sees")
    words = [pyshmem.zeros(n * job.n_pes, np.int64, heap="device") for n in (4, 4, 1, 1, 4, 4, 1)]
    handler = pyshmem.register_handler(HANDLER)
    yield [*words, pyshmem.new_signal(heap="device"), handler]
    pyshmem.unregister_handler(handler)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_routine_runs_in_a_kernel(name, arguments):
    (example,) = re.findall(r"^ *Example: ``(.*)``$", getattr(shmem, name).__doc__, re.MULTILINE)
    assert re.search(rf"\bshmem\.{name}\(", example)
    compile(example, name, "exec")
    if name not in NOT_RUN:
        names = {"cuda": cuda, "shmem": shmem}
        exec(KERNEL.format(example), names)
        names["kernel"][1, 1](*arguments)
        pyshmem.barrier_all()
