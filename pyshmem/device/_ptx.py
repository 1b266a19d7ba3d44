# SPDX-License-Identifier: BSD-3-Clause
"""What the leaf primitives for GPUs are made of: inline PTX, and values as bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import errors
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic
from numba.cuda.typing import signature

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
BITS = {1: I8, 2: I16, 4: I32, 8: I64}
VOID = ir.VoidType()
i64 = types.int64


def asm(builder: Any, result: Any, text: str, constraints: str, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), args)


def instruction(text: str, operands: int, result: bool = False) -> Any:
    """One PTX instruction on int64 operands as a device function."""
    arguments = ["l"] * operands
    constraints = ",".join((["=l"] if result else []) + arguments)
    kind = signature(i64 if result else types.void, *([i64] * operands))

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        value = asm(builder, I64 if result else VOID, text, constraints, list(args))
        return value if result else context.get_dummy_value()

    # An intrinsic reads its arity from the signature of the function, hence one def for each.
    def nullary(_context: Any) -> Any:
        return kind, codegen

    def unary(_context: Any, a: Any) -> Any:
        return kind, codegen

    def binary(_context: Any, a: Any, b: Any) -> Any:
        return kind, codegen

    return intrinsic((nullary, unary, binary)[operands])


def shared_symbol(builder: Any, name: str, nbytes: int) -> Any:
    """Address of ``nbytes`` of shared memory by a weak name, which all modules of a kernel share.

    Numba's own shared arrays have names that clash when two of its libraries each have one.
    """
    kind = ir.ArrayType(I8, nbytes)
    try:
        symbol = builder.module.get_global(name)
    except KeyError:
        symbol = ir.GlobalVariable(builder.module, kind, name, addrspace=3)
        symbol.linkage, symbol.align = "weak", 16
        symbol.initializer = ir.Constant(kind, ir.Undefined)
    return builder.ptrtoint(builder.addrspacecast(symbol, ir.PointerType(kind)), I64)


def array_type(kind: Any) -> Any:
    if not isinstance(kind, types.Array):
        raise errors.TypingError(f"pyshmem.device routines take arrays, not {kind}")
    if kind.layout not in "CF" and kind.ndim > 0:
        raise errors.TypingError(
            "pyshmem.device routines take contiguous arrays: this one has strides "
            f"({kind}); pass a contiguous slice, or copy it first"
        )
    return kind


def dtype_name(array: Any) -> str:
    """The name of an array's dtype in the type table; Numba has one of its own for bfloat16."""
    return str(array_type(array).dtype).removeprefix("__nv_")


def reinterpret(builder: Any, value: Any, kind: Any) -> Any:
    """The bits of ``value`` as LLVM type ``kind`` of the same size."""
    if value.type == kind:
        return value
    slot = cgutils.alloca_once(builder, value.type)
    builder.store(value, slot)
    return builder.load(builder.bitcast(slot, kind.as_pointer()))


def from_bits(context: Any, builder: Any, dtype: Any, bits: Any) -> Any:
    model = context.data_model_manager[dtype]
    return model.from_data(builder, reinterpret(builder, bits, model.get_data_type()))


def to_bits(context: Any, builder: Any, dtype: Any, value: Any, kind: Any) -> Any:
    cast_value = context.cast(builder, value, kind, dtype)
    data = context.data_model_manager[dtype].as_data(builder, cast_value)
    nbytes = context.get_abi_sizeof(data.type)
    return reinterpret(builder, data, BITS.get(nbytes, ir.IntType(8 * nbytes)))


# PTX type suffix and register constraint by width; bytes travel in 16-bit registers.
WIDTH = {1: ("u8", "h"), 2: ("u16", "h"), 4: ("u32", "r"), 8: ("u64", "l")}


def load_bits(builder: Any, nbytes: int, address: Any, order: str = "relaxed") -> Any:
    if nbytes == 16:
        pair = asm(
            builder, ir.LiteralStructType([I64, I64]),
            "ld.relaxed.sys.global.v2.u64 {$0, $1}, [$2];", "=l,=l,l", [address],
        )  # fmt: skip
        wide = ir.IntType(128)
        low, high = (builder.zext(builder.extract_value(pair, i), wide) for i in (0, 1))
        return builder.or_(low, builder.shl(high, wide(64)))
    suffix, register = WIDTH[nbytes]
    bits = asm(
        builder, I16 if nbytes == 1 else BITS[nbytes],
        f"ld.{order}.sys.global.{suffix} $0, [$1];", f"={register},l", [address],
    )  # fmt: skip
    return builder.trunc(bits, I8) if nbytes == 1 else bits


def store_bits(builder: Any, nbytes: int, address: Any, bits: Any) -> None:
    if nbytes == 16:
        low = builder.trunc(bits, I64)
        high = builder.trunc(builder.lshr(bits, ir.IntType(128)(64)), I64)
        text = "st.relaxed.sys.global.v2.u64 [$0], {$1, $2};"
        asm(builder, VOID, text, "l,l,l", [address, low, high])
        return
    suffix, register = WIDTH[nbytes]
    if nbytes == 1:
        bits = builder.zext(bits, I16)
    text = f"st.relaxed.sys.global.{suffix} [$0], $1;"
    asm(builder, VOID, text, f"l,{register}", [address, bits])
