# SPDX-License-Identifier: BSD-3-Clause
"""What the leaf primitives for GPUs are made of: inline PTX, and values as bits."""

import inspect
import re
from collections.abc import Callable

from llvmlite import ir
from numba.core import errors
from numba.cuda import cgutils, types
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.extending import intrinsic
from numba.cuda.np import numpy_support
from numba.cuda.typing import signature

from ..families import BY_NUMBER, layout_message, not_an_array

#: Metadata of modules with functions that take many registers: ``jit`` looks for it.
MANY_REGISTERS = "pyshmem.many_registers"

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
BITS = {1: I8, 2: I16, 4: I32, 8: I64, 16: ir.IntType(128)}
VOID = ir.VoidType()
i64 = types.int64
PAIR = types.UniTuple(i64, 2)


def asm(builder, result, text: str, constraints: str, args: list):
    kind = ir.FunctionType(result, [arg.type for arg in args])
    constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), args)


def with_arity(arity: int, typing: Callable):
    """An intrinsic of ``arity`` arguments: Numba reads the number from the function's signature."""

    def routine(_context, *arguments):
        return typing(*arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["context", *(f"a{i}" for i in range(arity))]
    shown = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    setattr(routine, "__signature__", shown)  # noqa: B010  (no attribute that type checkers know)
    return intrinsic(routine)


def leaf(kinds) -> Callable:
    """Makes an intrinsic of ``emit(context, builder, *arguments)``, which returns an LLVM value or None.

    ``kinds`` is the type of the result when all arguments are int64; else a function, from the types of
    the arguments to that of the result and those that Numba casts the arguments to. An argument called
    ``like`` is an array whose dtype counts: ``emit`` gets its type.
    """

    def decorate(emit: Callable):
        names = list(inspect.signature(emit).parameters)[2:]

        def typing(*given):
            plain = [array_type if name == "like" else types.unliteral for name in names]
            given = tuple(kind(k) for kind, k in zip(plain, given, strict=True))
            all_int64 = isinstance(kinds, types.Type)
            result, *wanted = (kinds, *([i64] * len(names))) if all_int64 else kinds(*given)

            def codegen(context, builder, _sig, args):
                rows = zip(names, given, args, strict=True)
                args = [kind if name == "like" else value for name, kind, value in rows]
                value = emit(context, builder, *args)
                return context.get_dummy_value() if value is None else value

            return signature(result, *wanted), codegen

        return with_arity(len(names), typing)

    return decorate


def instruction(text: str, operands: str = "", results: int = 0):
    """PTX as a device function of int64 operands: ``l``, or ``r`` for what it takes as 32 bits.

    It returns nothing, an int64, or two.
    """
    kind = (types.void, i64, PAIR)[results]
    wanted = [types.int32 if operand == "r" else i64 for operand in operands]
    constraints = ",".join(["=l"] * results + list(operands))
    register = (VOID, I64, ir.LiteralStructType([I64, I64]))[results]

    def codegen(context, builder, _sig, args):
        value = asm(builder, register, text, constraints, list(args))
        if results == 2:
            return context.make_tuple(builder, kind, cgutils.unpack_tuple(builder, value, 2))
        return value if results else context.get_dummy_value()

    return with_arity(len(operands), lambda *_given: (signature(kind, *wanted), codegen))


def shared_address(builder, name: str, nbytes: int):
    """Address of ``nbytes`` of shared memory, which all modules of a kernel have in common.

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


def has_bulk_copies() -> bool:
    """Is what is being compiled for a GPU with the copy unit of sm_90?"""
    return ConfigStack().top().compute_capability >= (9, 0)


# The buffer of bulk copies, a constant with its size in each module that has some, and the metadata of
# kernels that decline them.
BULK_BUFFER, BULK_SIZE = "pyshmem_bulk_buffer", "pyshmem_bulk_bytes"
NO_BULK_COPIES = "pyshmem.no_bulk_copies"


def without_bulk_copies(text: str) -> str:
    """LLVM text of a module with the size set to 0: with it go the copies, and with them the buffer."""
    return re.sub(rf'(@"?{BULK_SIZE}"? = .*constant i64) \d+', r"\1 0", text)


def array_type(kind):
    if not isinstance(kind, types.Array):
        raise errors.TypingError(not_an_array(kind))
    if kind.layout not in "CF" and kind.ndim > 0:
        raise errors.TypingError(layout_message(f"strides ({kind})"))
    return kind


def dtype_name(array) -> str:
    """The name of an array's dtype in the type table, or NumPy's; Numba has its own for bfloat16."""
    dtype = array_type(array).dtype
    name = str(dtype).removeprefix("__nv_")
    return name if name in BY_NUMBER else str(numpy_support.as_dtype(dtype))


def reinterpret(builder, value, kind):
    """The bits of ``value`` as LLVM type ``kind`` of the same size."""
    if value.type == kind:
        return value
    slot = cgutils.alloca_once(builder, value.type)
    builder.store(value, slot)
    return builder.load(builder.bitcast(slot, kind.as_pointer()))


def from_bits(context, builder, dtype, bits):
    model = context.data_model_manager[dtype]
    return model.from_data(builder, reinterpret(builder, bits, model.get_data_type()))


def to_bits(context, builder, dtype, value):
    data = context.data_model_manager[dtype].as_data(builder, value)
    return reinterpret(builder, data, BITS[context.get_abi_sizeof(data.type)])


def split(builder, bits) -> tuple:
    """The lower 8 bytes, and the upper ones of 16, as int64."""
    if bits.type.width <= 64:
        return builder.zext(bits, I64), I64(0)
    return builder.trunc(bits, I64), builder.trunc(builder.lshr(bits, bits.type(64)), I64)


def join(builder, nbytes: int, low, high):
    """The other way."""
    if nbytes <= 8:
        return builder.trunc(low, BITS[nbytes])
    low, high = (builder.zext(word, BITS[16]) for word in (low, high))
    return builder.or_(low, builder.shl(high, BITS[16](64)))


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


def load_constant(builder, pointer):
    """A load of what changes between kernels only: it may stand before a barrier or a loop."""
    word = builder.load(pointer)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
