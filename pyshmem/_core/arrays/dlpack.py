# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of other libraries through DLPack, those included whose dtype or device NumPy does not take.

What is read is the description of a tensor. The capsule that holds it is dropped unused, so the memory
stays its owner's.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..dtypes import as_dtype

#: Devices by their numbers in ``dlpack.h``: those whose memory has an address that we can use.
HOST, CUDA, CUDA_PINNED, CUDA_MANAGED = 1, 2, 3, 13

#: Letters of NumPy's dtypes, by DLPack's numbers of kinds; a number of bits follows.
_LETTERS = {0: "i", 1: "u", 2: "f", 5: "c"}
#: Dtypes that have a number of their own.
_NAMES = {
    4: "bfloat16", 6: "bool", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}  # fmt: skip
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("ordinal", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; none: C-contiguous
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)


def other_than_bytes(array: Any) -> str:
    """What makes the values of a tensor others than its bytes are; empty: nothing that is known.

    torch exports a view with the negative bit as it lies, and on GPUs one with the conjugate bit too.
    """
    for bit, asked, way_out in (
        ("negative", "is_neg", "resolve_neg"),
        ("conjugate", "is_conj", "resolve_conj"),
    ):
        ask = getattr(array, asked, None)
        if callable(ask) and hasattr(array, way_out) and ask():
            return f"with the {bit} bit, whose memory has other values; give its {way_out}()"
    if hasattr(array, "get_mask") and hasattr(array, "get_data"):  # torch.masked
        return "of which elements do not count; give its get_data(), or to_tensor(...)"
    return ""


def describe(array: Any) -> tuple[dict[str, Any], np.dtype[Any], int]:
    """A tensor as an array interface, its dtype and its device.

    Raises: TypeError (no dtype that NumPy or ml_dtypes has, memory without an address).
    """
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library of before DLPack 1.0
        capsule = array.__dlpack__()
    name = _name_of(capsule)
    address, flags = _pointer_in(capsule, name), 0
    if name == b"dltensor_versioned":
        versioned = _Versioned.from_address(address)
        tensor, flags = versioned.tensor, versioned.flags
    else:
        tensor = _Tensor.from_address(address)
    dtype = dtype_of(tensor.kind, tensor.bits, tensor.lanes)
    if tensor.device not in (HOST, CUDA, CUDA_PINNED, CUDA_MANAGED):
        raise TypeError(
            f"a tensor on DLPack's device {tensor.device}; use one on the host or a GPU"
        )
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    interface = {
        "data": ((tensor.data or 0) + tensor.byte_offset, bool(flags & _READ_ONLY)),
        "shape": tuple(tensor.shape[: tensor.ndim]),
        "strides": strides and tuple(dtype.itemsize * stride for stride in strides),
        "version": 2,  # names no stream: the default one waits for what is at work on the tensor
    }
    return interface, dtype, tensor.device


def dtype_of(kind: int, bits: int, lanes: int) -> np.dtype[Any]:
    """NumPy's dtype, or ml_dtypes', of what DLPack says of elements.

    Raises: TypeError (neither has one).
    """
    letter = _LETTERS.get(kind)
    name = _NAMES.get(kind) if letter is None else f"{letter}{bits // 8}"
    if name is None or lanes != 1:
        raise TypeError(f"DLPack's dtype {kind} ({bits} bits, {lanes} lanes)")
    return as_dtype(name)
