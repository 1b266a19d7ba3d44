# SPDX-License-Identifier: BSD-3-Clause
"""Loads and stores of bits by PTX."""

from llvmlite import ir
from numba.cuda import cgutils

from ..compiled.llvm import BITS, I16, I64, VOID, join, split
from ..ptx import asm, instruction

# PTX type suffix and register constraint by width; bytes travel in 16-bit registers.
WIDTH = {1: ("u8", "h"), 2: ("u16", "h"), 4: ("u32", "r"), 8: ("u64", "l")}


def load_bits(builder, nbytes: int, address, order: str = "relaxed"):
    if nbytes == 16:
        kind = ir.LiteralStructType([I64, I64])
        text = "ld.relaxed.sys.global.v2.u64 {$0, $1}, [$2];"
        pair = asm(builder, kind, text, "=l,=l,l", [address])
        return join(builder, 16, *cgutils.unpack_tuple(builder, pair, 2))
    suffix, register = WIDTH[nbytes]
    text = f"ld.{order}.sys.global.{suffix} $0, [$1];"
    bits = asm(builder, BITS[max(2, nbytes)], text, f"={register},l", [address])
    return builder.trunc(bits, BITS[nbytes])


def store_bits(builder, nbytes: int, address, bits) -> None:
    if nbytes == 16:
        text = "st.relaxed.sys.global.v2.u64 [$0], {$1, $2};"
        asm(builder, VOID, text, "l,l,l", [address, *split(builder, bits)])
        return
    suffix, register = WIDTH[nbytes]
    text = f"st.relaxed.sys.global.{suffix} [$0], $1;"
    bits = builder.zext(bits, BITS[max(2, nbytes)])
    asm(builder, VOID, text, f"l,{register}", [address, bits])


def round_bfloat16(builder, value):
    """A float32 rounded to the nearest, as bits."""
    return asm(builder, I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [value])


load16 = instruction("ld.relaxed.sys.global.v2.u64 {$0, $1}, [$2];", "l", results=2)
store16_near = instruction("st.global.v2.u64 [$0], {$1, $2};", "lll")
