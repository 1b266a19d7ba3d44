# SPDX-License-Identifier: BSD-3-Clause
"""What the leaf primitives for GPUs are made of: inline PTX, and values as bits."""

import re

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.typing import signature

from .compiled.llvm import BITS as BITS
from .compiled.llvm import I8, PAIR
from .compiled.llvm import I16 as I16
from .compiled.llvm import I32 as I32
from .compiled.llvm import I64 as I64
from .compiled.llvm import VOID as VOID
from .compiled.llvm import array_type as array_type
from .compiled.llvm import dtype_name as dtype_name
from .compiled.llvm import from_bits as from_bits
from .compiled.llvm import i64 as i64
from .compiled.llvm import leaf as leaf
from .compiled.llvm import load_constant as load_constant
from .compiled.llvm import reinterpret as reinterpret
from .compiled.llvm import to_bits as to_bits
from .compiled.llvm import with_arity as with_arity

#: Metadata of modules with functions that take many registers: ``jit`` looks for it.
MANY_REGISTERS = "pyshmem.many_registers"


def asm(builder, result, text: str, constraints: str, args: list):
    kind = ir.FunctionType(result, [arg.type for arg in args])
    constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), args)


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
