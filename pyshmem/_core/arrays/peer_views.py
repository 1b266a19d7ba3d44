# SPDX-License-Identifier: BSD-3-Clause
"""Arrays over another PE's copy of a symmetric array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_dtype
from . import cupy_arrays


def view_of_peer(address: int, nbytes: int, array: Any) -> Any:
    """An array like ``array`` over the copy at ``address``; it keeps ``array``. None for 0."""
    if not address:
        return None
    if not isinstance(array, np.ndarray):
        kind = as_dtype(array.dtype)  # torch has its own
        return cupy_arrays.array_over(address, nbytes, array, tuple(array.shape), kind)
    if not nbytes:
        return np.empty(array.shape, array.dtype)
    window = PeerMemory(address, nbytes, array)
    view: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, buffer=np.asarray(window))
    view.flags.writeable = array.flags.writeable
    return view


class PeerMemory:
    """Memory of a peer, which must not outlive the array it mirrors."""

    def __init__(self, address: int, nbytes: int, keep: Any) -> None:
        self.keep = keep
        self.__array_interface__ = {
            "data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
