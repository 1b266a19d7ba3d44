# SPDX-License-Identifier: BSD-3-Clause
"""``__cuda_array_interface__`` where kernels are compiled for the CPU: arrays of others, and for them.

The device is the host: an interface's address is one of this process's memory, which is tried before a
kernel gets it. Numba's streams do everything at once; a number tells one from another.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import weakref
from typing import Any

import numpy as np
from numba import types
from numba.cuda.core import config
from numba.cuda.np import numpy_support
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

from ....._foreign import numba_simulator
from .....host import streams
from ...sim import launches, queued

INTERFACE = "__cuda_array_interface__"
#: The numbers of the default streams of the driver, in interfaces.
_DEFAULT_STREAMS = 1, 2
_numbers = itertools.count(1)


class Stream:
    """``cuda.stream()``. What it is given is done at once; ``handle`` is the number that arrays name."""

    external = False

    def __init__(self, handle: int = 0) -> None:
        self.external = bool(handle)
        self.handle = handle or id(Stream) + next(_numbers)
        if not handle:
            _known[self.handle] = self

    def synchronize(self) -> None:
        """Wait for what is on it: a stream of the library's, by its number, has work of its own."""
        if not self.external or self.handle in _known:
            return
        if self.handle in _DEFAULT_STREAMS:
            streams.finish_all()
        else:
            queued.finish(self.handle)

    def auto_synchronize(self) -> Any:
        """A context: at its end all is done."""
        return _AtTheEnd(self)


#: Streams that programs have made and hold.
_known: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()


class _AtTheEnd:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __enter__(self) -> Stream:
        return self._stream

    def __exit__(self, *_why: object) -> None:
        self._stream.synchronize()


class Memory:
    """``gpu_data`` of an array: where it begins, and who holds it."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.device_ctypes_pointer = ctypes.c_void_p(address)
        self.size, self.owner = nbytes, owner

    @property
    def device_pointer(self) -> int:
        return self.device_ctypes_pointer.value or 0

    def __eq__(self, other: object) -> bool:
        place = self.device_pointer, self.size
        return isinstance(other, Memory) and place == (other.device_pointer, other.size)

    def __hash__(self) -> int:
        return hash((self.device_pointer, self.size))


class _Described:
    """What NumPy makes an array of, which keeps it, and with it the memory's owner."""

    def __init__(self, address: int, shape: Any, strides: Any, nbytes: int, owner: Any) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": tuple(shape), "typestr": f"|V{nbytes}", "version": 3,
            "strides": None if strides is None else tuple(strides),
        }  # fmt: skip
        self.owner = owner


def array_at(address: int, shape: Any, strides: Any, dtype: Any, owner: Any) -> FakeCUDAArray:
    """An array of Numba's over memory that ``owner`` holds."""
    kind = np.dtype(dtype)
    if not address:  # of no elements
        return FakeCUDAArray(np.empty(shape, kind))
    described = _Described(address, shape, strides, kind.itemsize, owner)
    return FakeCUDAArray(np.asarray(described).view(kind))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0]) if array.size else 0


def _memory(array: FakeCUDAArray) -> Memory:
    inner = array._ary
    return Memory(_address(inner), inner.nbytes, inner)


def _number(stream: Any) -> int | None:
    handle = getattr(stream, "handle", stream)
    return int(handle) if isinstance(handle, int) and handle else queued.handle_of(stream) or None


def _interface(array: FakeCUDAArray) -> dict[str, Any]:
    inner = array._ary
    described = dict(inner.__array_interface__)
    whole = inner.flags.c_contiguous
    return {
        "shape": tuple(inner.shape), "strides": None if whole else tuple(inner.strides),
        "data": (_address(inner), not inner.flags.writeable), "typestr": described["typestr"],
        "descr": described["descr"], "stream": _number(array.stream), "version": 3,
    }  # fmt: skip


def _extent(address: int, shape: Any, strides: Any, itemsize: int) -> tuple[int, int]:
    """The first and the last byte."""
    if strides is None:
        return address, address + int(np.prod(shape, dtype=np.int64)) * itemsize - 1
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    low = sum(step for step in steps if step < 0)
    return address + low, address + sum(step for step in steps if step > 0) + itemsize - 1


def _refuse_strange(addresses: tuple[int, int]) -> None:
    """ValueError: there is no memory of this process, as of an array on a GPU.

    A pipe takes a byte from each of them: the kernel of the system says what is none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    reader, writer = os.pipe()
    try:
        for address in addresses:
            if libc.write(writer, ctypes.c_void_p(address), ctypes.c_size_t(1)) != 1:
                raise ValueError(
                    f"an array's {INTERFACE} names memory at {address:#x}, which is none of this "
                    "process: under --device cpu kernels reach the host's"
                )
    finally:
        os.close(reader)
        os.close(writer)


def from_interface(
    described: dict[str, Any], owner: Any = None, sync: bool = True
) -> FakeCUDAArray:
    """``cuda.from_cuda_array_interface``. ``sync``: wait for the stream that it names.

    Raises: NotImplementedError (it has a mask), ValueError (its memory is not this process's).
    """
    if described.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    kind = np.dtype(described["typestr"])
    if kind.kind == "V" and described.get("descr"):
        named = np.dtype([tuple(field) for field in described["descr"]])
        kind = named if named.names and named.itemsize == kind.itemsize and named.names[0] else kind
    shape, strides = described["shape"], described.get("strides")
    address = int(described["data"][0] or 0)
    if address and 0 not in shape:
        _refuse_strange(_extent(address, shape, strides, kind.itemsize))
    made = array_at(address, shape, strides, kind, owner)
    made._ary.flags.writeable = not described["data"][1]
    number = described.get("stream") if described.get("version", 0) >= 3 else None
    if number:
        made.stream = Stream(int(number))
        if sync and config.CUDA_ARRAY_INTERFACE_SYNC:
            made.stream.synchronize()
    return made


def is_cuda_array(given: Any) -> bool:
    """``cuda.is_cuda_array``: kernels take it as an array."""
    return hasattr(given, INTERFACE)


def as_cuda_array(given: Any, sync: bool = True) -> FakeCUDAArray:
    """``cuda.as_cuda_array``: the same memory as an array of Numba's. TypeError: it has no interface."""
    if not is_cuda_array(given):
        raise TypeError(f"a {type(given).__name__} has no {INTERFACE}")
    return from_interface(getattr(given, INTERFACE), given, sync)


def device_nd_array(
    shape: Any, strides: Any, dtype: Any, stream: Any = 0, gpu_data: Any = None
) -> FakeCUDAArray:
    """``DeviceNDArray(...)``: an array over ``gpu_data``, or in memory of its own."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    steps = (strides,) if isinstance(strides, int) else tuple(strides)
    if gpu_data is None:
        low, high = _extent(0, sizes, steps, np.dtype(dtype).itemsize)
        owner = np.empty(high - low + 1, np.uint8)
        gpu_data = Memory(owner.ctypes.data - low, owner.nbytes, owner)
    made = array_at(gpu_data.device_pointer, sizes, steps, dtype, gpu_data)
    made.stream = stream
    return made


def foreign(argument: Any) -> Any:
    """An argument of a kernel: an array of another library as one of Numba's."""
    if isinstance(argument, (np.ndarray, np.generic, FakeCUDAArray)) or not is_cuda_array(argument):
        return argument
    return as_cuda_array(argument)


def captured(value: Any) -> FakeCUDAArray | None:
    """A variable that a kernel names, where it is an array that it reads and writes in its place."""
    if isinstance(value, FakeCUDAArray):
        return value if isinstance(value._ary, np.ndarray) else None
    if isinstance(value, (np.ndarray, np.generic, type)) or not is_cuda_array(value):
        return None
    return as_cuda_array(value)


def type_of(array: FakeCUDAArray) -> types.Array:
    """As a kernel's argument it would have the same."""
    inner = array._ary
    layout = "C" if inner.flags.c_contiguous else "F" if inner.flags.f_contiguous else "A"
    return types.Array(numpy_support.from_dtype(inner.dtype), inner.ndim, layout)


def _managed(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C", stream: Any = 0,
    attach_global: bool = True,
) -> FakeCUDAArray:  # fmt: skip
    """``cuda.managed_array``: all memory is the host's and the device's."""
    return FakeCUDAArray(np.ndarray(shape, dtype, strides=strides, order=order), stream)


def _no_copies_backwards(plain: Any) -> Any:
    def copy_to_host(self: Any, ary: Any = None, stream: Any = 0) -> Any:
        if any(step < 0 for step in self._ary.strides):
            raise NotImplementedError(
                f"copy_to_host of an array with negative strides {self._ary.strides}: GPUs' are not "
                "copied"
            )
        return plain(self, ary, stream)

    return copy_to_host


def _no_conversions(plain: Any) -> Any:
    """What of NumPy's arrays those on a GPU have not, and ufuncs for the target ``cuda`` ask for."""

    def look_up(self: Any, attrname: str) -> Any:
        if attrname == "astype":
            raise AttributeError("device arrays have no astype")
        return plain(self, attrname)

    return look_up


def install() -> None:
    """Give Numba's arrays the interface, and ``numba.cuda`` what takes others by it."""
    numba_simulator.add_to_arrays(
        {
            INTERFACE: property(_interface),
            "gpu_data": property(_memory),
            "device_ctypes_pointer": property(lambda self: _memory(self).device_ctypes_pointer),
        }
    )
    numba_simulator.add_to_package(
        {
            "is_cuda_array": is_cuda_array,
            "as_cuda_array": as_cuda_array,
            "from_cuda_array_interface": from_interface,
            "managed_array": _managed,
        }
    )
    numba_simulator.COPY_TO_HOST.wrap(_no_copies_backwards)
    numba_simulator.ATTRIBUTE.wrap(_no_conversions)
    numba_simulator.take_streams(Stream, device_nd_array)
    launches.foreign = foreign
