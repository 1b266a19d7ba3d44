# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of Triton-distributed's programs in the tests: torch's, or without torch what kernels take."""

from __future__ import annotations

import numpy as np

import pyshmem
from pyshmem.interop.triton_dist import utils

torch = utils._torch()


def dtype_of(name):
    return getattr(torch, name) if torch else np.dtype(name)


def tensor(given, dtype=None):
    """A symmetric tensor with the values of a NumPy array."""
    made = utils.nvshmem_create_tensor(given.shape, dtype_of(dtype or str(given.dtype)))
    if torch:
        made.copy_(torch.from_numpy(given))
    else:
        made.array[...] = given
    utils.nvshmem_barrier_all_on_stream()
    return made


def values(made):
    utils._synchronize()
    return made.float().cpu().numpy() if torch else np.array(pyshmem.to_numpy(made.array))
