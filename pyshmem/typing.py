# SPDX-License-Identifier: BSD-3-Clause
"""Types for annotations in programs that use pyshmem.

``AnyArray`` is what the routines take, ``DeviceArray`` an array on the device heap (CuPy's, or in the
simulator a ``SymmetricArray``), ``Heap`` the name of a heap. The protocols say what each kind of array
has to have.
"""

from ._core.arrays.types import (
    AnyArray,
    DeviceArray,
    SupportsArrayInterface,
    SupportsCudaArrayInterface,
    SupportsDLPack,
)
from .host.memory.heap import Heap, Shape

__all__ = [
    "AnyArray", "DeviceArray", "Heap", "Shape", "SupportsArrayInterface",
    "SupportsCudaArrayInterface", "SupportsDLPack",
]  # fmt: skip
