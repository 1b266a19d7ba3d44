# SPDX-License-Identifier: BSD-3-Clause
"""Bulk copies: loads and stores of up to 16 bytes, which the compiler joins and unrolls."""

from llvmlite import ir
from numba import types
from numba.extending import register_jitable

from ..compiled.llvm import I32, I64, by_width, leaf
from ..compiled.small_values import make_near
from .memory import load16, load_bits, store16_near, store_bits

__all__ = [
    "bulk_copy", "bulk_room", "copy16", "copy16x2", "copy16x4", "copy_narrow", "copy_narrow_x4",
    "load16_near", "load_near", "no_bulk_copies", "pull16", "pull16x2", "pull16x4", "pull_narrow",
    "pull_narrow_x4", "store16_near", "store_near",
]  # fmt: skip

_VECTOR = ir.VectorType(I32, 4)


def _make_copies(count: int) -> tuple:
    """See ``leaf.cuda.copies``: all loads come first."""

    def wide(builder, dest, source, step) -> None:
        offsets = [builder.mul(step, I64(k)) for k in range(count)]
        values = []
        for offset in offsets:
            place = builder.inttoptr(builder.add(source, offset), _VECTOR.as_pointer())
            values.append(builder.load(place))
            values[-1].align = 16
        for offset, value in zip(offsets, values, strict=True):
            place = builder.inttoptr(builder.add(dest, offset), _VECTOR.as_pointer())
            builder.store(value, place).align = 16

    def narrow(builder, width: int, dest, source, step) -> None:
        offsets = [builder.mul(step, I64(k)) for k in range(count)]
        values = [load_bits(builder, width, builder.add(source, offset)) for offset in offsets]
        for offset, value in zip(offsets, values, strict=True):
            store_bits(builder, width, builder.add(dest, offset), value)

    @leaf(types.void)
    def copy16(_context, builder, dest, source, step) -> None:
        wide(builder, dest, source, step)

    @leaf(types.void)
    def copy_narrow(_context, builder, dest, source, step, nbytes) -> None:
        by_width(builder, nbytes, lambda width: narrow(builder, width, dest, source, step))

    return copy16, copy_narrow


copy16, copy_narrow = _make_copies(1)
copy16x2, _ = _make_copies(2)
copy16x4, copy_narrow_x4 = _make_copies(4)
pull16, pull16x2, pull16x4 = copy16, copy16x2, copy16x4
pull_narrow, pull_narrow_x4 = copy_narrow, copy_narrow_x4


load_near, store_near = make_near(load_bits, store_bits)


load16_near = load16


@register_jitable
def bulk_room():
    """There is no copy unit."""
    return 0


@register_jitable
def bulk_copy(_dest, _source, _nbytes, _room):
    """Nothing: ``bulk_room`` keeps everybody away."""


@register_jitable
def no_bulk_copies():
    """There are none."""
