# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of Iris' programs in the tests: torch's, or without torch NumPy's."""

from __future__ import annotations

import numpy as np

from pyshmem.interop import iris

torch = iris.host._torch()


def dtype_of(name):
    return getattr(torch, name) if torch else np.dtype(name)


def values(array):
    return array.float().cpu().numpy() if torch else np.array(array)


def put_in(array, given):
    array[...] = torch.from_numpy(given).to(array) if torch else given


def matrices(ctx, m, n, k):
    """Of all ranks alike: A and B of small integers, and their product."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-2, 3, size).astype(np.float32) for size in ((m, k), (k, n)))
    return a, b, a @ b


def on_heap(ctx, given):
    array = ctx.zeros(given.shape, dtype=dtype_of("float32"), device="cuda")
    put_in(array, given)
    ctx.barrier()
    return array
