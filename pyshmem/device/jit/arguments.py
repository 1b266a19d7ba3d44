# SPDX-License-Identifier: BSD-3-Clause
"""Arrays, teams and contexts as kernel arguments."""

from typing import Any

import numpy as np

from ..._core import library
from ..._core.arrays import dlpack
from ..._core.arrays.checks import heap_number, masked
from ..._core.dtypes import AsBits, as_dtype
from ..._core.library import lib
from ...host.teams.contexts import Context, slot_of
from ...host.teams.team import Channel, Team
from ..leaf.backend import SIM
from ..state import P2P


def _kernels_reach(array: np.ndarray) -> bool:
    if not SIM:
        return hasattr(array, "__cuda_array_interface__")
    heap = lib.heap_of(array.__array_interface__["data"][0], max(array.nbytes, 1))
    return heap == heap_number("device") or (heap >= 0 and not library.device_state()[P2P])


def as_argument(array: Any) -> Any:
    """What a kernel is given for a team, a channel of one, a context or an array.

    A team, a channel or a context is the number of a team's slot, an int32, valid until that is
    destroyed. None, of a split where this PE is no member, is a TypeError.

    An array is returned in the form that costs least to pass, for launches in a loop.

    A kernel takes a device-heap array as it is, but on a GPU Numba then wraps the CuPy array anew in
    every launch. The result shares the memory; the symmetric array must stay alive.

    Raises: TypeError (it is none of these, or in memory that kernels do not reach), ValueError (a team
    or context that has been destroyed).
    Example: ``kernel[1, 32](shmem.as_argument(pyshmem.TEAM_WORLD))``
    """
    if array is None or isinstance(array, (Team, Channel, Context)):
        return np.int32(slot_of(array))
    # Arrays of the library and of others have one of these; NumPy's scalars have neither.
    if not any(hasattr(array, name) for name in ("__dlpack__", "__cuda_array_interface__")):
        kind = type(array).__name__
        raise TypeError(
            f"as_argument is given a {kind}; it takes a team, a channel of one, a context or an array"
        )
    if isinstance(array, np.ma.MaskedArray):
        raise masked("array")
    if why := dlpack.other_than_bytes(array):
        raise TypeError(f"as_argument is given a {type(array).__name__} {why}")
    if isinstance(array, np.ndarray) and not _kernels_reach(array):
        raise TypeError(
            "as_argument is given an array in host memory; kernels on GPUs take arrays of the device"
            " heap, and with PYSHMEM_P2P=0 of the host heap"
        )
    if SIM:
        return array
    from numba import cuda

    if str(array.dtype).removeprefix("torch.") != "bfloat16":
        return cuda.as_cuda_array(array, sync=False)
    # No type string of array interfaces means bfloat16: Numba learns it from the dtype.
    return cuda.as_cuda_array(AsBits(array), sync=False).view(as_dtype("bfloat16"))
