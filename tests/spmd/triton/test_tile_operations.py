# SPDX-License-Identifier: BSD-3-Clause
"""Every operation on tiles of narrow floats: as float32 computes it, or an error, as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import tile_operations as table
from numpy.testing import assert_allclose

import pyshmem
import pyshmem.triton as shmem

X = np.array([1.0, -2.0, 3.0, -0.5, 0.25, 2.5, -3.0, 0.75], np.float32)
Y = np.array([0.5, 1.0, -1.0, 2.0, 4.0, -2.0, 1.5, 3.0], np.float32)


@pytest.fixture
def narrow(job):
    """``narrow(values, dtype)``: on the device heap, as kernels take it."""
    pytest.importorskip("ml_dtypes")
    import ml_dtypes

    names = {
        "fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16,
        "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2,
    }  # fmt: skip

    def make(values, dtype):
        return pyshmem.array(values.astype(names[dtype]), heap="device")

    return make


@pytest.fixture
def outcome(job, place, show, narrow):
    """``outcome(what, dtype)``: what it computes, and what it leaves in its first array."""

    def of(what, dtype):
        kernel, two = table.OPERATIONS[what]
        arrays = [narrow(values, dtype) for values in (X, Y)]
        out = place(np.zeros(8, np.float32))
        given = [shmem.wrap(array, symmetric=True) for array in arrays[: 1 + two]]
        kernel[(1,)](*given, out, WHAT=what)
        show(out)
        return np.concatenate([show(out), pyshmem.to_numpy(arrays[0]).astype(np.float32)])

    return of


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("what", table.OPERATIONS)
def test_halves_are_computed_as_float32(outcome, what, dtype):
    if what in table.REFUSED[dtype]:
        with pytest.raises(Exception, match=r"."):
            outcome(what, dtype)
    else:
        wanted = outcome(what, "fp32")
        assert_allclose(outcome(what, dtype), wanted, rtol=2**-6, atol=0.02)


@pytest.mark.parametrize("dtype", ["fp8e4nv", "fp8e5"])
@pytest.mark.parametrize("what", table.OPERATIONS)
def test_fp8_is_moved_and_cast_and_else_refused(outcome, what, dtype):
    if what in table.REFUSED[dtype]:
        with pytest.raises(Exception, match=r"."):
            outcome(what, dtype)
    else:
        assert_allclose(outcome(what, dtype), outcome(what, "fp32"), rtol=0.13, atol=0.02)
