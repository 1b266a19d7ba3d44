# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives as Numba intrinsics: inline PTX for order and atomicity, LLVM vectors for bulk.

Addresses, sizes and offsets are int64 everywhere: Numba turns uint64 + int64 into float64.
``_leaf_sim`` has the same names with C bodies; nothing above these two files knows which it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import cuda
from numba.core import errors
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic
from numba.cuda.np import arrayobj
from numba.cuda.typing import signature

from .._types import elements_of
from ._state import SYMBOL, WORDS

__all__ = [
    "address_of", "array_from", "atomic_add", "atomic_and", "atomic_compare_swap",
    "atomic_fetch_add", "atomic_fetch_and", "atomic_fetch_or", "atomic_fetch_xor", "atomic_or",
    "atomic_swap", "atomic_xor", "block_index", "block_share", "block_sync", "block_threads",
    "cast", "claim", "cold", "copy16", "copy16x4", "copy_narrow", "copy_narrow_x4", "fence", "lane",
    "now", "opaque", "pull16", "pull16x4", "pull_narrow", "pull_narrow_x4", "read", "read64",
    "read64_acquire", "read_acquire", "relax", "require", "same_dtype", "signal_release_add",
    "signal_release_set", "state", "state_pe", "thread_in_block", "to_int64", "trap",
    "warp_share", "warp_sync", "warp_threads", "write", "write64",
]  # fmt: skip

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_BITS = {1: _I8, 2: _I16, 4: _I32, 8: _I64}
_VOID = ir.VoidType()
_i64 = types.int64
_GLOBAL, _GENERIC = 1, 0


def _asm(builder: Any, result: Any, text: str, constraints: str, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), args)


def _instruction(text: str, operands: int, result: bool = False) -> Any:
    """One PTX instruction on int64 operands as a device function."""
    arguments = ["l"] * operands
    constraints = ",".join((["=l"] if result else []) + arguments)
    kind = signature(_i64 if result else types.void, *([_i64] * operands))

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        value = _asm(builder, _I64 if result else _VOID, text, constraints, list(args))
        return value if result else context.get_dummy_value()

    # An intrinsic reads its arity from the signature of the function, hence one def for each.
    def nullary(_context: Any) -> Any:
        return kind, codegen

    def unary(_context: Any, a: Any) -> Any:
        return kind, codegen

    def binary(_context: Any, a: Any, b: Any) -> Any:
        return kind, codegen

    return intrinsic((nullary, unary, binary)[operands])


# -- order, time, control ------------------------------------------------------------------------

fence = _instruction("fence.acq_rel.sys;", 0)
now = _instruction("mov.u64 $0, %globaltimer;", 0, result=True)
opaque = _instruction("mov.b64 $0, $1;", 1, result=True)  # hides a value from loop unrolling
trap = _instruction("trap;", 0)
read64 = _instruction("ld.relaxed.sys.global.u64 $0, [$1];", 1, result=True)
read64_acquire = _instruction("ld.acquire.sys.global.u64 $0, [$1];", 1, result=True)
write64 = _instruction("st.relaxed.sys.global.u64 [$0], $1;", 2)
# Release at system scope: pairs with the acquire that ends a wait of the receiving PE.
signal_release_set = _instruction("st.release.sys.global.u64 [$0], $1;", 2)
signal_release_add = _instruction("red.release.sys.global.add.u64 [$0], $1;", 2)
# Leaves the given value in the word and returns the old one.
claim = _instruction("atom.relaxed.sys.global.exch.b64 $0, [$1], $2;", 2, result=True)


@intrinsic
def relax(_context: Any) -> Any:
    """One turn of a spin wait: nothing to do on a GPU, whose other warps run anyway."""
    return signature(types.void), lambda context, _b, _s, _a: context.get_dummy_value()


def cold(function: Callable[[int, int, int, int, int], int]) -> Any:
    """``function``, of five int64 to int64, as a call that is never inlined.

    For what hardly ever runs: inlined, it would stand between the instructions that do run, and the
    short loops of waits would no longer fit the instruction cache.
    """
    kind = signature(_i64, *([_i64] * 5))

    def typing(_context: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            compiled = context.compile_subroutine(builder, function, kind)
            callee = compiled.fndesc.declare_function(builder.module)
            with builder.goto_entry_block():  # Numba's own helper would store a zero every time
                result = builder.alloca(_I64)  # functions return through a pointer
            call = builder.call(callee, [result, *args])
            call.attributes.add("noinline")
            return builder.load(result)

        return kind, codegen

    return intrinsic(typing)


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
        kind = ir.ArrayType(_I64, WORDS)
        symbol = _ConstantSymbol(module, kind, SYMBOL, addrspace=4)
        symbol.linkage, symbol.initializer, symbol.align = "weak", ir.Constant(kind, None), 64
        return symbol


def _load_state(builder: Any, index: Any) -> Any:
    symbol = _state_symbol(builder.module)
    word = builder.load(builder.gep(symbol, [_I64(0), index], inbounds=True))
    # The host changes it between kernels only, so it may be read before a barrier or a loop.
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@intrinsic
def state(_context: Any, index: Any) -> Any:
    """Word ``index`` of the state block: one load from constant memory."""
    return signature(_i64, _i64), lambda _c, builder, _s, args: _load_state(builder, args[0])


@intrinsic
def state_pe(_context: Any, index: Any) -> Any:
    """The same as int32: PE arithmetic such as ``(me + 1) % n`` is slow in 64 bits."""

    def codegen(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.trunc(_load_state(builder, args[0]), _I32)

    return signature(types.int32, _i64), codegen


# -- arrays --------------------------------------------------------------------------------------


def _array(kind: Any) -> Any:
    if not isinstance(kind, types.Array):
        raise errors.TypingError(f"pyshmem.device routines take arrays, not {kind}")
    if kind.layout not in "CF" and kind.ndim > 0:
        raise errors.TypingError(
            "pyshmem.device routines take contiguous arrays: this one has strides "
            f"({kind}); pass a contiguous slice, or copy it first"
        )
    return kind


@intrinsic
def address_of(_context: Any, array: Any) -> Any:
    """Address of the first element."""
    _array(array)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.ptrtoint(arrayobj.make_array(array)(context, builder, args[0]).data, _I64)

    return signature(_i64, array), codegen


def array_from(locate: Callable[[Any, Any], int]) -> Any:
    """``f(array, pe)``: an array like ``array`` whose first element is at ``locate(array, pe)``.

    An intrinsic, since Numba lets no ordinary device function return an array it was not given.
    """

    def typing(_context: Any, array: Any, pe: Any) -> Any:
        kind = types.unliteral(pe)

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            address = context.compile_internal(
                builder, locate, signature(_i64, _array(array), kind), args
            )
            view = arrayobj.make_array(array)(context, builder, value=args[0])
            view.data = builder.inttoptr(address, view.data.type)
            return view._getvalue()

        return signature(array, array, kind), codegen

    return intrinsic(typing)


@intrinsic
def same_dtype(_context: Any, dest: Any, source: Any) -> Any:
    """Compiles to nothing, or fails to compile when the dtypes differ."""
    if _array(dest).dtype != _array(source).dtype:
        raise errors.TypingError(f"dest holds {dest.dtype} but source holds {source.dtype}")
    return signature(types.void, dest, source), lambda c, _b, _s, _a: c.get_dummy_value()


_FAMILY_DTYPES = {letter: {element.dtype for element in elements_of(letter)} for letter in "axb"}
_FAMILY_DTYPES["+"] = _FAMILY_DTYPES["a"] | {"float32", "float64"}  # add: an extension
_FAMILY_DTYPES["signal"] = {"uint64"}


def require(family: str) -> Any:
    """A device function that fails to compile for arrays outside the family's table of types."""
    allowed = _FAMILY_DTYPES[family]

    def check(_context: Any, array: Any) -> Any:
        if str(_array(array).dtype) not in allowed:
            raise errors.TypingError(
                f"{array.dtype} is not among the types of this routine: {', '.join(sorted(allowed))}"
            )
        return signature(types.void, array), lambda c, _b, _s, _a: c.get_dummy_value()

    return intrinsic(check)


# -- one element ---------------------------------------------------------------------------------


def _reinterpret(builder: Any, value: Any, kind: Any) -> Any:
    """The bits of ``value`` as LLVM type ``kind`` of the same size."""
    if value.type == kind:
        return value
    slot = cgutils.alloca_once(builder, value.type)
    builder.store(value, slot)
    return builder.load(builder.bitcast(slot, kind.as_pointer()))


def _from_bits(context: Any, builder: Any, dtype: Any, bits: Any) -> Any:
    model = context.data_model_manager[dtype]
    return model.from_data(builder, _reinterpret(builder, bits, model.get_data_type()))


def _to_bits(context: Any, builder: Any, dtype: Any, value: Any, kind: Any) -> Any:
    cast_value = context.cast(builder, value, kind, dtype)
    data = context.data_model_manager[dtype].as_data(builder, cast_value)
    nbytes = context.get_abi_sizeof(data.type)
    return _reinterpret(builder, data, _BITS.get(nbytes, ir.IntType(8 * nbytes)))


# PTX type suffix and register constraint by width; bytes travel in 16-bit registers.
_WIDTH = {1: ("u8", "h"), 2: ("u16", "h"), 4: ("u32", "r"), 8: ("u64", "l")}


def _load_bits(builder: Any, nbytes: int, address: Any, order: str = "relaxed") -> Any:
    if nbytes == 16:
        pair = _asm(
            builder, ir.LiteralStructType([_I64, _I64]),
            "ld.relaxed.sys.global.v2.u64 {$0, $1}, [$2];", "=l,=l,l", [address],
        )  # fmt: skip
        wide = ir.IntType(128)
        low, high = (builder.zext(builder.extract_value(pair, i), wide) for i in (0, 1))
        return builder.or_(low, builder.shl(high, wide(64)))
    suffix, register = _WIDTH[nbytes]
    bits = _asm(
        builder, _I16 if nbytes == 1 else _BITS[nbytes],
        f"ld.{order}.sys.global.{suffix} $0, [$1];", f"={register},l", [address],
    )  # fmt: skip
    return builder.trunc(bits, _I8) if nbytes == 1 else bits


def _store_bits(builder: Any, nbytes: int, address: Any, bits: Any) -> None:
    if nbytes == 16:
        low = builder.trunc(bits, _I64)
        high = builder.trunc(builder.lshr(bits, ir.IntType(128)(64)), _I64)
        text = "st.relaxed.sys.global.v2.u64 [$0], {$1, $2};"
        _asm(builder, _VOID, text, "l,l,l", [address, low, high])
        return
    suffix, register = _WIDTH[nbytes]
    if nbytes == 1:
        bits = builder.zext(bits, _I16)
    text = f"st.relaxed.sys.global.{suffix} [$0], $1;"
    _asm(builder, _VOID, text, f"l,{register}", [address, bits])


def _read(order: str) -> Any:
    """``f(address, like)``: the element at ``address``, of the dtype of ``like``."""

    def typing(_context: Any, address: Any, like: Any) -> Any:
        dtype = _array(like).dtype

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            nbytes = context.get_abi_sizeof(context.get_data_type(dtype))
            return _from_bits(context, builder, dtype, _load_bits(builder, nbytes, args[0], order))

        return signature(dtype, _i64, like), codegen

    return intrinsic(typing)


read = _read("relaxed")  # past the L1 cache
read_acquire = _read("acquire")  # drops the L1 cache, so what comes after reads fresh; 2 to 8 bytes


@intrinsic
def write(_context: Any, address: Any, like: Any, value: Any) -> Any:
    """Stores ``value``, cast to the dtype of ``like``, at ``address``: relaxed."""
    dtype, kind = _array(like).dtype, types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        bits = _to_bits(context, builder, dtype, args[2], kind)
        _store_bits(builder, bits.type.width // 8, args[0], bits)
        return context.get_dummy_value()

    return signature(types.void, _i64, like, kind), codegen


@intrinsic
def cast(_context: Any, like: Any, value: Any) -> Any:
    """``value`` as the dtype of ``like``."""
    dtype, kind = _array(like).dtype, types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        return context.cast(builder, args[1], kind, dtype)

    return signature(dtype, like, kind), codegen


@intrinsic
def to_int64(_context: Any, value: Any) -> Any:
    """An integer's bits, or a float rounded towards zero, as int64 (for reports)."""
    kind = types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        return context.cast(builder, args[0], kind, _i64)

    return signature(_i64, kind), codegen


# -- atomics at system scope: numba.cuda.atomic reaches no further than the own GPU -----------------


def _atomic_types(dtype: Any, nbytes: int, name: str) -> str:
    if name == "add":
        return ("f" if isinstance(dtype, types.Float) else "u") + str(8 * nbytes)
    return f"b{8 * nbytes}"


def _atomic(name: str, *, fetch: bool = True) -> Any:
    """``f(address, like, value)``; ``fetch`` returns the old value."""

    def typing(_context: Any, address: Any, like: Any, value: Any) -> Any:
        dtype, kind = _array(like).dtype, types.unliteral(value)

        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            bits = _to_bits(context, builder, dtype, args[2], kind)
            nbytes = bits.type.width // 8
            suffix, register = _atomic_types(dtype, nbytes, name), _WIDTH[nbytes][1]
            if not fetch:
                text = f"red.relaxed.sys.global.{name}.{suffix} [$0], $1;"
                _asm(builder, _VOID, text, f"l,{register}", [args[0], bits])
                return context.get_dummy_value()
            text = f"atom.relaxed.sys.global.{name}.{suffix} $0, [$1], $2;"
            old = _asm(builder, bits.type, text, f"={register},l,{register}", [args[0], bits])
            return _from_bits(context, builder, dtype, old)

        return signature(dtype if fetch else types.void, _i64, like, kind), codegen

    return intrinsic(typing)


atomic_swap = _atomic("exch")
atomic_fetch_add, atomic_add = _atomic("add"), _atomic("add", fetch=False)
atomic_fetch_and, atomic_and = _atomic("and"), _atomic("and", fetch=False)
atomic_fetch_or, atomic_or = _atomic("or"), _atomic("or", fetch=False)
atomic_fetch_xor, atomic_xor = _atomic("xor"), _atomic("xor", fetch=False)


@intrinsic
def atomic_compare_swap(_context: Any, address: Any, like: Any, cond: Any, value: Any) -> Any:
    """Stores ``value`` if the element equals ``cond``; returns the old value."""
    dtype = _array(like).dtype
    cond_kind, kind = types.unliteral(cond), types.unliteral(value)

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        expected = _to_bits(context, builder, dtype, args[2], cond_kind)
        bits = _to_bits(context, builder, dtype, args[3], kind)
        nbytes = bits.type.width // 8
        register = _WIDTH[nbytes][1]
        text = f"atom.relaxed.sys.global.cas.b{8 * nbytes} $0, [$1], $2, $3;"
        constraints = f"={register},l,{register},{register}"
        old = _asm(builder, bits.type, text, constraints, [args[0], expected, bits])
        return _from_bits(context, builder, dtype, old)

    return signature(dtype, _i64, like, cond_kind, kind), codegen


# -- bulk copies -----------------------------------------------------------------------------------

_VECTOR = ir.VectorType(_I32, 4)


def _piece(nbytes: int) -> Any:
    return _VECTOR if nbytes == 16 else _BITS[nbytes]


def _emit_copy(builder: Any, nbytes: int, count: int, pull: bool, args: Any) -> None:
    """``count`` loads, then as many stores, ``args[2]`` bytes apart: the loads fly together.

    A put reads any local memory (generic: shared memory too) and stores to the peer; a pull reads the
    peer past the L1 cache, which would keep what an earlier pull saw.
    """
    dest, source, step = args[0], args[1], args[2]
    offsets = [builder.mul(step, _I64(k)) for k in range(count)]
    values = []
    for offset in offsets:
        place = builder.add(source, offset)
        if not pull:
            pointer = builder.inttoptr(place, ir.PointerType(_piece(nbytes), addrspace=_GENERIC))
            value = builder.load(pointer)
            value.align = nbytes
        elif nbytes == 16:
            quad = ir.LiteralStructType([_I32] * 4)
            text = "ld.relaxed.sys.global.v4.u32 {$0, $1, $2, $3}, [$4];"
            value = _asm(builder, quad, text, "=r,=r,=r,=r,l", [place])
        else:
            value = _load_bits(builder, nbytes, place)
        values.append(value)
    space = _GENERIC if pull else _GLOBAL
    for offset, value in zip(offsets, values, strict=True):
        if isinstance(value.type, ir.LiteralStructType):
            vector = ir.Constant(_VECTOR, ir.Undefined)
            for i in range(4):
                vector = builder.insert_element(vector, builder.extract_value(value, i), _I32(i))
            value = vector
        pointer = builder.inttoptr(
            builder.add(dest, offset), ir.PointerType(value.type, addrspace=space)
        )
        builder.store(value, pointer).align = nbytes


def _copy16(count: int, pull: bool) -> Any:
    """``f(dest, source, step)``: ``count`` pieces of 16 bytes, both addresses 16-byte aligned."""

    def typing(_context: Any, dest: Any, source: Any, step: Any) -> Any:
        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            _emit_copy(builder, 16, count, pull, args)
            return context.get_dummy_value()

        return signature(types.void, _i64, _i64, _i64), codegen

    return intrinsic(typing)


def _copy_narrow(count: int, pull: bool) -> Any:
    """``f(dest, source, step, nbytes)``: pieces of 8, 4, 2 or 1 bytes, chosen when it runs."""

    def typing(_context: Any, dest: Any, source: Any, step: Any, nbytes: Any) -> Any:
        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            done = builder.append_basic_block("copied")
            other = builder.append_basic_block("other")
            choice = builder.switch(args[3], other)
            for width in (8, 4, 2, 1):
                block = builder.append_basic_block(f"copy{width}")
                choice.add_case(_I64(width), block)
                builder.position_at_end(block)
                _emit_copy(builder, width, count, pull, args)
                builder.branch(done)
            builder.position_at_end(other)
            builder.unreachable()
            builder.position_at_end(done)
            return context.get_dummy_value()

        return signature(types.void, _i64, _i64, _i64, _i64), codegen

    return intrinsic(typing)


copy16x4, copy16 = _copy16(4, False), _copy16(1, False)
pull16x4, pull16 = _copy16(4, True), _copy16(1, True)
copy_narrow_x4, copy_narrow = _copy_narrow(4, False), _copy_narrow(1, False)
pull_narrow_x4, pull_narrow = _copy_narrow(4, True), _copy_narrow(1, True)


# -- who is running --------------------------------------------------------------------------------


def _device(function: Callable[..., Any]) -> Callable[..., Any]:
    from numba.cuda.extending import register_jitable

    return register_jitable(function)


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


@_device
def block_share(value):
    """The first thread's int64 ``value``, on every thread of the block; a barrier."""
    slot = cuda.shared.array(1, types.int64)
    if thread_in_block() == 0:
        slot[0] = value
    cuda.syncthreads()
    shared = slot[0]
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
