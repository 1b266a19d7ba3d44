# SPDX-License-Identifier: BSD-3-Clause
"""CuPy arrays over memory of the device heap. The only file that imports CuPy, when it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Whether the job's kernels run on a GPU.
on_gpu = False

_LEGACY_DEFAULT = 1  # CUDA's handle of the stream that is also written 0


def use_gpu(ordinal: int) -> None:
    """Make GPU ``ordinal`` CuPy's current one in this thread."""
    global on_gpu
    import cupy

    on_gpu = True
    cupy.cuda.Device(ordinal).use()


def array_class() -> type:
    """What ``array_over`` makes."""
    import cupy

    found: type = cupy.ndarray
    return found


def array_over(
    address: int, nbytes: int, owner: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """An array over memory that ``owner`` keeps alive; without bytes, an array of its own."""
    import cupy

    if not nbytes:
        return cupy.empty(shape, dtype)
    memory = cupy.cuda.UnownedMemory(address, nbytes, owner)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))


def gone(array: Any) -> str:
    """Why the block of a CuPy array or of its base can no longer be used; empty: it can."""
    owner = getattr(getattr(getattr(array, "data", None), "mem", None), "_owner", None)
    return getattr(owner, "gone", "")


#: The dtypes that CuPy computes with, by NumPy's characters; of others it holds and moves the bytes.
COMPUTED = "?bhilqBHILQefdFD"


def assign(array: Any, values: Any) -> None:
    """Set the elements of a CuPy array; they are set on return."""
    import cupy

    if array.dtype.char in COMPUTED:
        array[...] = cupy.asarray(values, dtype=array.dtype)
    elif array.nbytes:
        if hasattr(values, "__cuda_array_interface__"):
            values = to_numpy(values)
        source = np.broadcast_to(np.asarray(values, dtype=array.dtype), array.shape)
        source = np.ascontiguousarray(source)
        array.data.copy_from_host(source.ctypes.data, array.nbytes)
    cupy.cuda.get_current_stream().synchronize()


def wait_for(interface: dict[str, Any]) -> None:
    """Wait for what may be at work on a local array, as its ``__cuda_array_interface__`` has it.

    Interfaces of before version 3, torch's for one, name no stream: then it is the default one.
    """
    stream = interface.get("stream") or (interface.get("version", 0) < 3 and _LEGACY_DEFAULT)
    if stream and on_gpu:
        synchronize(stream)


def synchronize(stream: int) -> None:
    """Wait for a stream, given as its handle."""
    import cupy

    cupy.cuda.runtime.streamSynchronize(stream)


def to_numpy(array: Any) -> np.ndarray:
    """A copy in host memory of anything with ``__cuda_array_interface__``."""
    import cupy

    # A copy to pageable memory holds the driver while it waits for a kernel, and the proxy, whom
    # the kernel may be waiting for, out of it.
    cupy.cuda.get_current_stream().synchronize()

    return np.asarray(cupy.asnumpy(cupy.asarray(array)))
