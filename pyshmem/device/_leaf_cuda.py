# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives as Numba intrinsics: inline PTX for order and atomicity, LLVM vectors for bulk.

Addresses, sizes and offsets are int64 everywhere: Numba turns uint64 + int64 into float64.
``simulator.leaves`` has the same names with C bodies; nothing above these two files knows which it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import cuda
from numba.core import errors
from numba.cuda import types
from numba.cuda.extending import intrinsic
from numba.cuda.np import arrayobj
from numba.cuda.typing import signature

from .._types import ATOMIC_OPS
from ._families import BY_NUMBER, outside_family
from ._ptx import (
    I32,
    I64,
    array_type,
    dtype_name,
    i64,
    instruction,
    shared_symbol,
)
from ._state import SYMBOL, WORDS

__all__ = [
    "AMO_SET", "UINT64", "address_of", "array_from", "block_index", "block_share", "block_sync",
    "block_threads", "claim", "cold", "fence", "fetch_add64", "grid_blocks", "grid_sync", "lane",
    "nap", "note_call", "now", "opaque", "outline", "raise64", "read64", "read64_acquire", "relax",
    "require", "same_dtype", "signal_release_add", "signal_release_set", "state", "state_pe",
    "thread_in_block", "trap", "warp_share", "warp_sync", "warp_threads", "write64",
]  # fmt: skip

UINT64, AMO_SET = BY_NUMBER["uint64"], ATOMIC_OPS.index("set")

# -- order, time, control ------------------------------------------------------------------------

fence = instruction("fence.acq_rel.sys;", 0)
now = instruction("mov.u64 $0, %globaltimer;", 0, result=True)
opaque = instruction("mov.b64 $0, $1;", 1, result=True)  # hides a value from loop unrolling
trap = instruction("trap;", 0)
read64 = instruction("ld.relaxed.sys.global.u64 $0, [$1];", 1, result=True)
read64_acquire = instruction("ld.acquire.sys.global.u64 $0, [$1];", 1, result=True)
write64 = instruction("st.relaxed.sys.global.u64 [$0], $1;", 2)
# Release at system scope: pairs with the acquire that ends a wait of the receiving PE.
signal_release_set = instruction("st.release.sys.global.u64 [$0], $1;", 2)
signal_release_add = instruction("red.release.sys.global.add.u64 [$0], $1;", 2)
# The ring: tickets are the own GPU's affair; `raise64` also goes to memory that the host reads.
fetch_add64 = instruction("atom.relaxed.gpu.global.add.u64 $0, [$1], $2;", 2, result=True)
raise64 = instruction("red.relaxed.sys.global.max.u64 [$0], $1;", 2)
nap = instruction("nanosleep.u32 1000;", 0)
# Leaves the given value in the word and returns the old one.
claim = instruction("atom.relaxed.sys.global.exch.b64 $0, [$1], $2;", 2, result=True)


@intrinsic
def relax(_context: Any) -> Any:
    """One turn of a spin wait: nothing to do on a GPU, whose other warps run anyway."""
    return signature(types.void), lambda context, _b, _s, _a: context.get_dummy_value()


def _with_arity(arity: int, typing: Callable[..., Any]) -> Any:
    """An intrinsic of ``arity`` arguments: Numba reads the number from the function's signature."""
    names = ", ".join(f"a{i}" for i in range(arity))
    namespace: dict[str, Any] = {"typing": typing}
    exec(f"def routine(context, {names}): return typing({names})", namespace)
    return intrinsic(namespace["routine"])


def cold(function: Callable[..., int]) -> Any:
    """``function``, of int64 to int64, as a call that is never inlined.

    For what hardly ever runs: inlined, it would stand between the instructions that do run, and the
    short loops of waits would no longer fit the instruction cache.
    """
    arity = function.__code__.co_argcount
    kind = signature(i64, *([i64] * arity))

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        compiled = context.compile_subroutine(builder, function, kind)
        callee = compiled.fndesc.declare_function(builder.module)
        with builder.goto_entry_block():  # Numba's own helper would store a zero every time
            result = builder.alloca(I64)  # functions return through a pointer
        call = builder.call(callee, [result, *args])
        call.attributes.add("noinline")
        return builder.load(result)

    return _with_arity(arity, lambda *_types: (kind, codegen))


def outline(function: Callable[..., int]) -> Any:
    """``function``, of any arguments to int64, as a call that is never inlined.

    For the parts of collectives: a kernel has as many registers as the largest of its functions, and
    inlined into one they would have more than a block of 1,024 threads can have.
    """

    def typing(*kinds: Any) -> Any:
        kind = signature(i64, *map(types.unliteral, kinds))

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            compiled = context.compile_subroutine(builder, function, kind)
            callee = compiled.fndesc.declare_function(builder.module)
            cast = [
                context.cast(builder, *row) for row in zip(args, sig.args, kind.args, strict=True)
            ]
            _, value = context.call_conv.call_function(builder, callee, i64, kind.args, cast)
            for made in builder.function.basic_blocks[-1].instructions + builder.block.instructions:
                if isinstance(made, ir.CallInstr) and made.callee is callee:
                    made.attributes.add("noinline")
            return value

        return kind, codegen

    return _with_arity(function.__code__.co_argcount, typing)


# -- the state block -----------------------------------------------------------------------------


class _ConstantSymbol(ir.GlobalVariable):
    """A global that is ``externally_initialized``, which llvmlite cannot say.

    Without it link-time optimisation folds the zero initialiser and deletes the symbol.
    """

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append("".join(text).replace("global ", "externally_initialized global ", 1))


def _state_symbol(module: ir.Module) -> ir.GlobalVariable:
    try:
        return module.get_global(SYMBOL)
    except KeyError:
        kind = ir.ArrayType(I64, WORDS)
        symbol = _ConstantSymbol(module, kind, SYMBOL, addrspace=4)
        symbol.linkage, symbol.initializer, symbol.align = "weak", ir.Constant(kind, None), 64
        return symbol


def _load_state(builder: Any, index: Any) -> Any:
    symbol = _state_symbol(builder.module)
    word = builder.load(builder.gep(symbol, [I64(0), index], inbounds=True))
    # The host changes it between kernels only, so it may be read before a barrier or a loop.
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@intrinsic
def state(_context: Any, index: Any) -> Any:
    """Word ``index`` of the state block: one load from constant memory."""
    return signature(i64, i64), lambda _c, builder, _s, args: _load_state(builder, args[0])


@intrinsic
def state_pe(_context: Any, index: Any) -> Any:
    """The same as int32: PE arithmetic such as ``(me + 1) % n`` is slow in 64 bits."""

    def codegen(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.trunc(_load_state(builder, args[0]), I32)

    return signature(types.int32, i64), codegen


# -- arrays --------------------------------------------------------------------------------------


@intrinsic
def address_of(_context: Any, array: Any) -> Any:
    """Address of the first element."""
    array_type(array)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.ptrtoint(arrayobj.make_array(array)(context, builder, args[0]).data, I64)

    return signature(i64, array), codegen


def array_from(locate: Callable[[Any, Any], int]) -> Any:
    """``f(array, pe)``: an array like ``array`` whose first element is at ``locate(array, pe)``.

    An intrinsic, since Numba lets no ordinary device function return an array it was not given.
    """

    def typing(_context: Any, array: Any, pe: Any) -> Any:
        kind = types.unliteral(pe)

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            address = context.compile_internal(
                builder, locate, signature(i64, array_type(array), kind), args
            )
            view = arrayobj.make_array(array)(context, builder, value=args[0])
            view.data = builder.inttoptr(address, view.data.type)
            return view._getvalue()

        return signature(array, array, kind), codegen

    return intrinsic(typing)


@intrinsic
def same_dtype(_context: Any, dest: Any, source: Any) -> Any:
    """Compiles to nothing, or fails to compile when the dtypes differ."""
    if array_type(dest).dtype != array_type(source).dtype:
        raise errors.TypingError(f"dest holds {dest.dtype} but source holds {source.dtype}")
    return signature(types.void, dest, source), lambda c, _b, _s, _a: c.get_dummy_value()


def require(family: str) -> Any:
    """A device function that fails to compile for arrays outside the family's table of types."""

    def check(_context: Any, array: Any) -> Any:
        if message := outside_family(dtype_name(array), family):
            raise errors.TypingError(message)
        return signature(types.void, array), lambda c, _b, _s, _a: c.get_dummy_value()

    return intrinsic(check)


# -- who is running --------------------------------------------------------------------------------


def _device(function: Callable[..., Any]) -> Callable[..., Any]:
    from numba.cuda.extending import register_jitable

    return register_jitable(function)


@_device
def note_call():
    """The simulator remembers the calling line here; on a GPU reports have the kernel's."""


@_device
def thread_in_block():
    """Linear index of the thread in its block, int32."""
    return cuda.threadIdx.x + cuda.blockDim.x * (
        cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z
    )


@_device
def block_threads():
    """Threads of the block, int32."""
    return cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z


@_device
def block_index():
    """Linear index of the block in the grid."""
    return cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)


@_device
def grid_blocks():
    """Blocks of the grid."""
    return cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z


@_device
def grid_sync():
    """Barrier of the grid, in a cooperative launch."""
    cuda.cg.this_grid().sync()


@_device
def lane():
    """Index of the thread in its warp."""
    return thread_in_block() & 31


@_device
def warp_threads():
    """Threads of the calling warp: 32, or fewer in a block's last one."""
    return min(32, block_threads() - (thread_in_block() & ~31))


@_device
def block_sync():
    """Barrier of the block."""
    cuda.syncthreads()


@intrinsic
def _share_word(_context: Any) -> Any:
    """Address of a word of shared memory, one in a kernel."""

    def codegen(_context: Any, builder: Any, _s: Any, _args: Any) -> Any:
        return shared_symbol(builder, "pyshmem_share_word", 8)

    return signature(i64), codegen


_store_shared = instruction(
    "{.reg .u64 t; cvta.to.shared.u64 t, $0; st.volatile.shared.u64 [t], $1;}", 2
)
_load_shared = instruction(
    "{.reg .u64 t; cvta.to.shared.u64 t, $1; ld.volatile.shared.u64 $0, [t];}", 1, result=True
)


@_device
def block_share(value):
    """The first thread's int64 ``value``, on every thread of the block; a barrier."""
    word = _share_word()
    if thread_in_block() == 0:
        _store_shared(word, value)
    cuda.syncthreads()
    shared = _load_shared(word)
    cuda.syncthreads()
    return shared


@_device
def warp_share(value):
    """The first lane's int64 ``value``, on every lane of the warp; a barrier."""
    return cuda.shfl_sync(0xFFFFFFFF >> (32 - warp_threads()), value, 0)


@_device
def warp_sync():
    """Barrier of the warp."""
    cuda.syncwarp()
