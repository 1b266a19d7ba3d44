# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of Triton kernels share: arrays on the device heap, as kernels take them."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import pyshmem
import pyshmem.triton as shmem


@pytest.fixture(scope="session", autouse=True)
def checks_for_overflow(job):
    """The interpreter's, which take it a fifth of its time, are for jobs of 1 PE."""
    if job.device == "sim" and job.n_pes > 1:
        from triton.runtime.interpreter import interpreter_builder as builder

        builder.options = replace(builder.options, sanitize_overflow=False)


@pytest.fixture
def place(job):
    """``place(values)``: a symmetric array with these values, as an argument of kernels."""

    def make(values):
        return shmem.wrap(pyshmem.array(values, heap="device"), symmetric=True)

    return make


@pytest.fixture
def finish(job):
    """``finish()`` waits for the kernels; what peers still write it does not read."""

    def wait():
        if job.device == "cuda":
            import cupy

            cupy.cuda.Device().synchronize()

    return wait


@pytest.fixture
def show(finish):
    """The values of such an argument, in host memory, when the kernels are done."""

    def values(argument):
        finish()
        return np.array(pyshmem.to_numpy(argument.array))

    return values


@pytest.fixture
def fault(job):
    """``fault(launch)``: the message the host gets: from the launch, or on a GPU from a later call."""

    def message(launch):
        def launch_and_ask():
            launch()
            if job.device == "cuda":
                import cupy

                cupy.cuda.Device().synchronize()
            pyshmem.quiet()

        with pytest.raises(pyshmem.KernelFault) as caught:
            launch_and_ask()
        return str(caught.value)

    return message


@pytest.fixture
def refusal(job):
    """``refusal(launch)``: the texts of what it raises, and of its causes: Triton wraps errors."""

    def message(launch):
        texts = []
        try:
            launch()
        except Exception as raised:
            error: BaseException | None = raised
            while error is not None:
                texts.append(str(error))
                error = error.__cause__
        return "\n".join(texts)

    return message


@pytest.fixture
def ctx(job):
    return shmem.context()


@pytest.fixture
def near():
    """Are peers reached by loads and stores?"""
    return os.environ.get("PYSHMEM_P2P", "1") != "0"
