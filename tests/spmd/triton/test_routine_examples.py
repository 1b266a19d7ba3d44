# SPDX-License-Identifier: BSD-3-Clause
"""Each routine for Triton kernels has an example in its documentation, which a kernel can run."""

from __future__ import annotations

import ctypes
import importlib.util
import re

import numpy as np
import pytest
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem
from pyshmem._core.library import lib

BLOCK = 16
HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(lambda a, b, c, d: 0)
#: What the host calls before it launches.
ON_HOST = ("channel", "context", "team_number", "wrap")
#: Types, of which those routines make some, and what is a constant.
NO_ROUTINES = ("Channel", "Context", "Wrapped")
NAMES = [
    name
    for name in shmem.__all__
    if name not in NO_ROUTINES and not isinstance(getattr(shmem, name), tl.constexpr)
]

MODULE = """
import triton
import triton.language as tl
import pyshmem.triton as shmem

@triton.jit
def kernel(dest, source, counter, sig, words, handler, ctx, BLOCK: tl.constexpr):
    right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
    offs = tl.arange(0, BLOCK)
    {}
"""


def example_of(name):
    text = getattr(shmem, name).__doc__
    (example,) = re.findall(r"^ *Example: ``(.*)``$", text, re.MULTILINE)
    assert re.search(rf"\bshmem\.{name}\(", example)
    return example


@pytest.fixture
def kernel_of(tmp_path):
    """``kernel_of(name)``: a kernel that runs the example of a routine."""

    def made(name):
        path = tmp_path / f"example_{name}.py"  # Triton reads a kernel's source
        path.write_text(MODULE.format(example_of(name)))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return made


@pytest.fixture
def arguments(job, place):
    handler = pyshmem.register_handler(HANDLER)
    several = [place(np.ones(max(4, job.n_pes) * BLOCK, np.int64)) for _ in range(2)]
    ones = [place(np.ones(1, kind)) for kind in (np.int64, np.uint64)]
    yield [*several, *ones, shmem.channel(1, 8 * BLOCK), handler]
    pyshmem.unregister_handler(handler)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ON_HOST])
def test_the_example_of_a_routine_runs_in_a_kernel(name, job, kernel_of, arguments, ctx, near):
    if job.device != "sim":
        pytest.skip("what compilers make of each routine test_triton_ptx.py sees")
    if name == "ptr" and (not near or lib.ishmemx_has_far_pes()):
        pytest.skip("there are PEs that loads and stores do not reach")
    kernel = kernel_of(name)
    if name != "abort":  # which ends the job
        kernel[(1,)](*arguments, ctx, BLOCK=BLOCK)
        pyshmem.barrier_all()


@pytest.mark.parametrize("name", ON_HOST)
def test_the_example_of_what_the_host_calls_runs(name, job):
    exec(example_of(name), {"pyshmem": pyshmem, "shmem": shmem})
