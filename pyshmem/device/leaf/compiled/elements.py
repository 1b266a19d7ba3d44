# SPDX-License-Identifier: BSD-3-Clause
"""One element: loads, stores, casts, and its bits."""

from numba.cuda import types

from ...families import BY_NUMBER
from . import llvm
from .llvm import I64, i64, leaf
from .memory import load_bits, store_bits

__all__ = [
    "bits_of", "cast", "high_bits_of", "itemsize_of", "narrow", "read", "read_acquire", "to_int64",
    "type_number", "value_of", "write",
]  # fmt: skip


def _read(order: str):
    """``f(address, like)``: the element at ``address``, of the dtype of ``like``."""

    @leaf(lambda address, like: (like.dtype, i64, like))
    def read(context, builder, address, like):
        nbytes = context.get_abi_sizeof(context.get_data_type(like.dtype))
        bits = load_bits(builder, nbytes, address, order)
        return llvm.from_bits(context, builder, like.dtype, bits)

    return read


read = _read("relaxed")  # past the L1 cache
read_acquire = _read("acquire")  # drops the L1 cache, so what comes after reads fresh; 2 to 8 bytes


@leaf(lambda address, like, value: (types.void, i64, like, like.dtype))
def write(context, builder, address, like, value) -> None:
    """Stores ``value``, cast to the dtype of ``like``, at ``address``: relaxed."""
    bits = llvm.to_bits(context, builder, like.dtype, value)
    store_bits(builder, bits.type.width // 8, address, bits)


@leaf(lambda like, value: (like.dtype, like, like.dtype))
def cast(_context, _builder, like, value):
    """``value`` as the dtype of ``like``."""
    return value


@leaf(lambda like, value: (i64, like, like.dtype))
def bits_of(context, builder, like, value):
    """The bits of ``value``, cast to the dtype of ``like``, as int64; of 16 bytes the lower 8."""
    return llvm.split(builder, llvm.to_bits(context, builder, like.dtype, value))[0]


@leaf(lambda like, value: (i64, like, like.dtype))
def high_bits_of(context, builder, like, value):
    """The upper 8 bytes of a value of 16; 0 for others."""
    return llvm.split(builder, llvm.to_bits(context, builder, like.dtype, value))[1]


@leaf(lambda like, low, high: (like.dtype, like, i64, i64))
def value_of(context, builder, like, low, high):
    """The other way: ``low``, and ``high`` of 16 bytes, as the dtype of ``like``."""
    nbytes = context.get_abi_sizeof(context.get_data_type(like.dtype))
    return llvm.from_bits(context, builder, like.dtype, llvm.join(builder, nbytes, low, high))


@leaf(lambda like: (i64, like))
def type_number(_context, _builder, like):
    """Number of the dtype in the type table, a constant."""
    return I64(BY_NUMBER[llvm.dtype_name(like)])


@leaf(lambda like: (i64, like))
def itemsize_of(context, _builder, like):
    """Bytes of an element, a constant: arrays in constant memory have 0 in their own field."""
    return I64(context.get_abi_sizeof(context.get_data_type(like.dtype)))


@leaf(lambda value: (types.int32, types.int32))
def narrow(_context, _builder, value):
    """An int64 as int32, which the numbers of PEs are."""
    return value


@leaf(i64)
def to_int64(_context, _builder, value):
    """An integer's bits, or a float rounded towards zero, as int64 (for reports)."""
    return value
