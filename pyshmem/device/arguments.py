# SPDX-License-Identifier: BSD-3-Clause
"""Arrays as kernel arguments."""

from __future__ import annotations

from typing import Any

from ._backend import SIM


def as_argument(array: Any) -> Any:
    """``array`` in the form that costs least to pass to a kernel, for launches in a loop.

    A kernel takes a device-heap array as it is, but on a GPU Numba then wraps the CuPy array anew in
    every launch. The result shares the memory; the symmetric array must stay alive.
    """
    if SIM:
        return array
    from numba import cuda

    return cuda.as_cuda_array(array, sync=False)
