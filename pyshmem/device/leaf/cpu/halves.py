# SPDX-License-Identifier: BSD-3-Clause
"""float16 and bfloat16, which Numba's CPU lacks: elements that are moved and converted.

Kernels convert bfloat16 to float32 to compute; float16's own arithmetic is in ``half_math``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import datamodel, errors
from numba.core.datamodel.models import FloatModel, PrimitiveModel
from numba.core.imputils import Registry
from numba.core.typeconv import Conversion
from numba.core.typing.templates import Registry as TypingRegistry

from ...._core.dtypes import as_dtype
from ...._foreign import numba_cpu
from ..compiled.llvm import I16, I32

registry, typing_registry = Registry("pyshmem_cpu_halves"), TypingRegistry()


class BFloat16(types.Number):
    """Elements of ml_dtypes' bfloat16."""

    def __init__(self) -> None:
        super().__init__("bfloat16")
        self.bitwidth = 16

    def can_convert_to(self, _context: Any, other: Any) -> Any:
        return Conversion.safe if other in (types.float32, types.float64) else None

    def can_convert_from(self, _context: Any, other: Any) -> Any:
        plain = isinstance(other, (types.Integer, types.Boolean, types.Float))
        return Conversion.unsafe if plain and other != types.float16 else None


bfloat16 = BFloat16()


class _HalfModel(FloatModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        if kind == types.float16:
            PrimitiveModel.__init__(self, manager, kind, ir.HalfType())
        else:
            super().__init__(manager, kind)


class _BFloat16Model(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, I16)


def models() -> Any:
    """Numba's data models with these."""
    made = datamodel.default_manager.copy()
    made.register(types.Float, _HalfModel)
    made.register(BFloat16, _BFloat16Model)
    return made


def round_bfloat16(builder: Any, value: Any) -> Any:
    """A float32 rounded to the nearest, as bits; of a NaN one that is quiet."""
    bits = builder.bitcast(value, I32)
    odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
    rounded = builder.lshr(builder.add(bits, builder.add(odd, I32(0x7FFF))), I32(16))
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.select(is_nan, I32(0x7FFF), rounded), I16)


def rounded_to_odd(builder: Any, exact: Any) -> Any:
    """A float64 as float32 whose last bit says that it was between two: then it can be rounded again."""
    double, word = ir.DoubleType(), ir.IntType(32)
    near = builder.fptrunc(exact, ir.FloatType())
    bits, back = builder.bitcast(near, word), builder.fpext(near, double)
    below_zero = builder.fcmp_ordered("<", exact, double(0))
    further = builder.xor(builder.fcmp_ordered(">", back, exact), below_zero)
    step = builder.select(further, word(-1), word(1))
    is_even = builder.icmp_unsigned("==", builder.and_(bits, word(1)), word(0))
    moved = builder.and_(is_even, builder.fcmp_ordered("!=", back, exact))
    odd = builder.select(moved, builder.add(bits, step), bits)
    return builder.bitcast(odd, ir.FloatType())


@registry.lower_cast(types.float64, types.float16)
def _to_half(_context: Any, builder: Any, _kind: Any, _wanted: Any, value: Any) -> Any:
    """By float32, for which there is an instruction: LLVM's way calls what is in no library here."""
    return builder.fptrunc(rounded_to_odd(builder, value), ir.HalfType())


@registry.lower_cast(BFloat16, types.Float)
def _to_float(context: Any, builder: Any, _kind: Any, wanted: Any, value: Any) -> Any:
    if wanted == types.float16:  # an intrinsic's arguments come here without ``can_convert_to``
        raise errors.TypingError("bfloat16 cannot become float16 in kernels: convert it first")
    bits = builder.shl(builder.zext(value, I32), I32(16))
    number = builder.bitcast(bits, ir.FloatType())
    return context.cast(builder, number, types.float32, wanted)


def _from_number(context: Any, builder: Any, kind: Any, _wanted: Any, value: Any) -> Any:
    return round_bfloat16(builder, context.cast(builder, value, kind, types.float32))


for _kind in (types.Float, types.Integer, types.Boolean):
    registry.lower_cast(_kind, BFloat16)(_from_number)


def install() -> None:
    """Have arrays of these dtypes typed: Numba knows nothing of bfloat16. Numbers of float16 taken."""
    numba_cpu.add_dtype(as_dtype("bfloat16"), bfloat16)
    numba_cpu.take_halves()
