# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that communicate: in the simulator, or on GPUs when the job runs there."""

from __future__ import annotations

import numpy as np
import pytest

import pyshmem
from pyshmem._core import library
from pyshmem.device import state


@pytest.fixture(autouse=True)
def needs_a_device(job):
    if job.device == "none":
        pytest.skip("the job has no device heap")


@pytest.fixture
def p2p(job):
    """Do kernels reach their peers by loads and stores?"""
    return bool(library.device_state()[state.P2P])


@pytest.fixture
def near(job):
    """``near(pe)``: do kernels of this PE reach the device heap of ``pe`` by loads and stores?"""
    words = library.device_state()
    return lambda pe: words[state.DELTA + pe] != state.FAR


@pytest.fixture
def heap(job, near):
    """The heap of arrays for kernels: with PYSHMEM_P2P=0 real GPUs are served on the host heap."""
    return "device" if near(job.my_pe) or job.device in library.SIMULATED else "host"


@pytest.fixture
def place(job, heap):
    """``place(array)``: a symmetric array, where kernels reach it, with these contents on this PE."""

    def make(values, dtype=None):
        values = np.ascontiguousarray(values, dtype=dtype)
        array = pyshmem.zeros(values.shape, dtype=values.dtype, heap=heap)
        pyshmem.put(array, values, job.my_pe)
        pyshmem.barrier_all()
        return array

    return make


@pytest.fixture
def show():
    """The contents of a device array, after everybody's kernels are done."""

    def contents(array):
        from numba import cuda

        cuda.synchronize()
        pyshmem.barrier_all()
        return pyshmem.to_numpy(array)

    return contents
