# SPDX-License-Identifier: BSD-3-Clause
"""The names of ``numba.cuda`` in kernels that are compiled for the CPU: threads, barriers, memory, bits.

A name is a marker, whose meaning is an overload. What is in no table here raises in the compiler.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.core.typing import signature
from numba.extending import (
    intrinsic,
    models,
    overload,
    overload_attribute,
    overload_method,
    register_model,
    typeof_impl,
)
from numba.np import arrayobj, numpy_support

from ...._core.library import ffi
from ..sim.arrays import check_alignment
from . import halves
from .target import (
    I8,
    I32,
    I64,
    LANGUAGE,
    LOWER,
    NAME,
    OWN,
    VOID,
    call,
    register_jitable,
    thread_word,
    with_arity,
)

_AT = {
    name: ffi.offsetof("ishmemx_cpu_thread_t", name)
    for name in (
        "thread", "block", "threads", "blocks", "rank", "block_rank", "n_threads", "n_blocks",
        "module", "dynamic", "dynamic_bytes",
    )
}  # fmt: skip


def field(name: str, kind: Any = types.int32, index: int = 0) -> Any:
    """``f()``: a word of the thread."""
    form = I32 if kind == types.int32 else I64
    offset = _AT[name] + 4 * index

    def codegen(_context: Any, builder: Any, _sig: Any, _args: Any) -> Any:
        return thread_word(builder, offset, form)

    return with_arity(0, lambda: (signature(kind), codegen))


def runtime(name: str, result: Any, *arguments: Any) -> Any:
    """``f(...)``: a function of the fibers' runtime."""
    forms = {types.void: VOID, types.int64: I64, types.int32: I32, types.uint32: I32}

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        value = call(builder, name, forms[result], *args)
        return context.get_dummy_value() if result == types.void else value

    return with_arity(len(arguments), lambda *_given: (signature(result, *arguments), codegen))


def fence_of(ordering: str) -> Any:
    """``f()``: a fence of LLVM."""

    def codegen(context: Any, builder: Any, _sig: Any, _args: Any) -> Any:
        builder.fence(ordering)
        return context.get_dummy_value()

    return with_arity(0, lambda: (signature(types.void), codegen))


def _marker(name: str) -> Callable[..., Any]:
    def marker(*_arguments: Any) -> Any:
        raise RuntimeError(f"cuda.{name} is called in kernels")

    marker.__name__ = marker.__qualname__ = name.rpartition(".")[2]
    return marker


def _place(name: str) -> tuple[dict[str, Any], str]:
    """Where a dotted name of ``cuda`` is kept: in the table, or in a module in it."""
    outer, _, last = name.rpartition(".")
    if not outer:
        return LANGUAGE, last
    if outer not in LANGUAGE:
        LANGUAGE[outer] = ModuleType(f"numba.cuda.{outer}")
    return vars(LANGUAGE[outer]), last


def name_of_cuda(name: str) -> Callable[[Any], Any]:
    """A decorator: the overload of ``cuda.<name>``."""

    def decorate(typing: Any) -> Any:
        marker = _marker(name)
        table, last = _place(name)
        table[last] = marker
        return overload(marker, prefer_literal=True, strict=False)(typing)

    return decorate


def function_of_cuda(name: str, function: Any) -> None:
    """``cuda.<name>`` is a device function."""
    table, last = _place(name)
    table[last] = function


# -- who is running ------------------------------------------------------------------------------


class _Dim3:
    def __init__(self, name: str) -> None:
        self.name = name


class _Dim3Type(types.Dummy):
    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(f"Dim3({field})")


register_model(_Dim3Type)(models.OpaqueModel)


@typeof_impl.register(_Dim3)
def _type_of_dim3(value: _Dim3, _context: Any) -> Any:
    return _Dim3Type(value.name)


_WORDS = {
    (name, axis): field(name, types.int32, axis)
    for name in ("thread", "block", "threads", "blocks")
    for axis in range(3)
}


def _axis(axis: int) -> None:
    @overload_attribute(_Dim3Type, "xyz"[axis])
    def attribute(dim):
        word = _WORDS[dim.field, axis]
        return lambda dim: word()


for _number in range(3):
    _axis(_number)
for _name, _field in (
    ("threadIdx", "thread"), ("blockIdx", "block"), ("blockDim", "threads"), ("gridDim", "blocks")
):  # fmt: skip
    LANGUAGE[_name] = _Dim3(_field)
LANGUAGE["warpsize"] = 32
rank, n_threads, block_rank, n_blocks = map(field, ("rank", "n_threads", "block_rank", "n_blocks"))


def _dimensions(n: Any, name: str) -> int:
    value = getattr(n, "literal_value", None)
    if value not in (1, 2, 3):
        raise errors.TypingError(f"cuda.{name} takes 1, 2 or 3, written in the call")
    return int(value)


def _along(axis: int) -> tuple[Any, Any]:
    thread, block = _WORDS["thread", axis], _WORDS["block", axis]
    threads, blocks = _WORDS["threads", axis], _WORDS["blocks", axis]

    @register_jitable
    def place() -> int:
        return np.int64(block()) * threads() + thread()

    @register_jitable
    def extent() -> int:
        return np.int64(blocks()) * threads()

    return place, extent


_PLACES, _EXTENTS = zip(*map(_along, range(3)), strict=True)


def _by_dimensions(name: str, functions: Any) -> None:
    x, y, z = functions
    bodies = (lambda n: x(), lambda n: (x(), y()), lambda n: (x(), y(), z()))

    @name_of_cuda(name)
    def typing(n: Any) -> Any:
        return bodies[_dimensions(n, name) - 1]


_by_dimensions("grid", _PLACES)
_by_dimensions("gridsize", _EXTENTS)

# -- barriers and fences -------------------------------------------------------------------------

block_sync = runtime("pysh_cpu_sync", types.void)
#: A routine's, which is for all threads of the block or warp, ended ones too: they are told.
block_meet = runtime("pysh_cpu_meet", types.void)
warp_meet = runtime("pysh_cpu_warp_meet", types.int64, types.int32, types.int64, types.int32)
grid_sync = runtime("pysh_cpu_grid_sync", types.void)
relax = runtime("pysh_cpu_yield", types.void)
went_on = runtime("pysh_cpu_went_on", types.void)
_sync_count = runtime("pysh_cpu_sync_count", types.int64, types.int32)
_warp = runtime("pysh_cpu_warp", types.int64, types.int32, types.uint32, types.int64, types.int32)
live_lanes = runtime("pysh_cpu_live_lanes", types.uint32)

_MASK = 0xFFFFFFFF
SYNC, PICK, UP, DOWN, XOR, BALLOT, MATCH = range(7)


@register_jitable
def _count(predicate: Any) -> Any:
    return np.int32(_sync_count(np.int32(predicate != 0)) & _MASK)


@register_jitable
def _all_of_block(predicate: Any) -> Any:
    counts = _sync_count(np.int32(predicate != 0))
    return np.int32(counts & _MASK == counts >> 32)


@register_jitable
def _any_of_block(predicate: Any) -> Any:
    return np.int32(_sync_count(np.int32(predicate != 0)) & _MASK != 0)


@register_jitable
def warp_sync(mask: Any = _MASK) -> None:
    _warp(SYNC, mask, 0, 0)


@register_jitable
def warp_word(op: Any, mask: Any, value: Any, operand: Any) -> Any:
    return _warp(op, mask, value, operand)


@register_jitable
def _nanosleep(ns: Any) -> None:
    relax()


for _name, _function in {
    "syncthreads": block_sync,
    "syncthreads_count": _count,
    "syncthreads_and": _all_of_block,
    "syncthreads_or": _any_of_block,
    "syncwarp": warp_sync,
    "nanosleep": _nanosleep,
    # Sequentially consistent, as the GPU's fences of these names are.
    "threadfence": fence_of("seq_cst"),
    "threadfence_block": fence_of("seq_cst"),
    "threadfence_system": fence_of("seq_cst"),
}.items():
    function_of_cuda(_name, _function)

# -- warps ---------------------------------------------------------------------------------------


@intrinsic
def bits64(_context: Any, value: Any) -> Any:
    """A number of at most 8 bytes as int64; integers by their value."""
    kind = types.unliteral(value)
    if not isinstance(kind, (types.Integer, types.Boolean, types.Float)):
        raise errors.TypingError(f"lanes exchange integers and floats of 4 and 8 bytes, not {kind}")

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        if kind == types.float32:
            return builder.zext(builder.bitcast(args[0], I32), I64)
        if kind == types.float64:
            return builder.bitcast(args[0], I64)
        return context.cast(builder, args[0], kind, types.int64)

    return signature(types.int64, kind), codegen


@intrinsic
def from_bits64(_context: Any, like: Any, bits: Any) -> Any:
    """The other way, as the type of ``like``."""
    kind = types.unliteral(like)

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        if kind == types.float32:
            return builder.bitcast(builder.trunc(args[1], I32), ir.FloatType())
        if kind == types.float64:
            return builder.bitcast(args[1], ir.DoubleType())
        return context.cast(builder, args[1], types.int64, kind)

    return signature(kind, kind, types.int64), codegen


def _shuffle(name: str, op: int) -> None:
    @name_of_cuda(name)
    def typing(mask: Any, value: Any, operand: Any) -> Any:
        return lambda mask, value, operand: from_bits64(
            value, _warp(op, mask, bits64(value), operand)
        )


for _name, _op in (("shfl_sync", PICK), ("shfl_up_sync", UP), ("shfl_down_sync", DOWN),
                   ("shfl_xor_sync", XOR)):  # fmt: skip
    _shuffle(_name, _op)


@register_jitable
def _ballot(mask: Any, predicate: Any) -> Any:
    return np.uint32(_warp(BALLOT, mask, np.int64(predicate != 0), 0) & _MASK)


@register_jitable
def _all(mask: Any, predicate: Any) -> Any:
    lanes = _warp(BALLOT, mask, np.int64(predicate != 0), 0)
    return lanes & _MASK == lanes >> 32 & _MASK


@register_jitable
def _any(mask: Any, predicate: Any) -> Any:
    return _warp(BALLOT, mask, np.int64(predicate != 0), 0) & _MASK != 0


@register_jitable
def _same(mask: Any, predicate: Any) -> Any:
    lanes = _warp(BALLOT, mask, np.int64(predicate != 0), 0)
    ones = lanes & _MASK
    return ones == 0 or ones == lanes >> 32 & _MASK


@register_jitable
def _match_any(mask: Any, value: Any) -> Any:
    return np.uint32(_warp(MATCH, mask, bits64(value), 0) & _MASK)


@register_jitable
def _match_all(mask: Any, value: Any) -> Any:
    lanes = _warp(MATCH, mask, bits64(value), 0)
    same = lanes & _MASK == lanes >> 32 & _MASK
    return np.uint32(lanes & _MASK) if same else np.uint32(0), same


@register_jitable
def _lanes_below() -> Any:
    return np.uint32((1 << (rank() & 31)) - 1)


for _name, _function in {
    "ballot_sync": _ballot,
    "all_sync": _all,
    "any_sync": _any,
    "eq_sync": _same,
    "match_any_sync": _match_any,
    "match_all_sync": _match_all,
    "activemask": live_lanes,
    "lanemask_lt": _lanes_below,
}.items():
    function_of_cuda(_name, _function)

# -- cooperative groups --------------------------------------------------------------------------


class _GridGroupType(types.Type):
    def __init__(self) -> None:
        super().__init__("GridGroup")


register_model(_GridGroupType)(models.OpaqueModel)
_GRID_GROUP = _GridGroupType()


@intrinsic
def _this_grid(_context: Any) -> Any:
    return signature(_GRID_GROUP), lambda context, _b, _s, _a: context.get_dummy_value()


@overload_method(_GridGroupType, "sync")
def _sync_of_grid(group):
    def body(group):
        grid_sync()
        return 1

    return body


function_of_cuda("cg.this_grid", _this_grid)

# -- memory --------------------------------------------------------------------------------------


#: What ``pysh_cpu_shared`` aligns to.
_SHARED_ALIGNMENT = 128


def _shape_of(shape: Any, what: str) -> tuple[int, ...]:
    items = tuple(shape) if isinstance(shape, types.BaseTuple) else (shape,)
    sizes = [getattr(item, "literal_value", item) for item in items]
    if not all(isinstance(size, int) for size in sizes):
        raise errors.TypingError(f"the shape of cuda.{what} is a constant, not {shape}")
    return tuple(map(int, sizes))


def _dtype_of(dtype: Any, what: str) -> Any:
    kind = getattr(dtype, "dtype", None)
    if kind is None and isinstance(dtype, types.StringLiteral):
        kind = numpy_support.from_dtype(np.dtype(dtype.literal_value))
    if kind is None and isinstance(dtype, (types.NumberClass, types.TypeRef)):
        kind = dtype.instance_type
    if kind is None:
        raise errors.TypingError(f"the dtype of cuda.{what} is {dtype}, which is none")
    return kind


def _view(context: Any, builder: Any, array: Any, address: Any, shape: list[Any]) -> Any:
    """An array of Numba at an address."""
    made = arrayobj.make_array(array)(context, builder)
    itemsize = I64(context.get_abi_sizeof(context.get_data_type(array.dtype)))
    strides: list[Any] = []
    step = itemsize
    for size in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, size)
    data = builder.inttoptr(address, made.data.type)
    arrayobj.populate_array(
        made, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None
    )
    return made._getvalue()


def _nbytes(context: Any, array: Any, shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return int(count * context.get_abi_sizeof(context.get_data_type(array.dtype)))


def _least(alignment: Any, least: int) -> Callable[[], int]:
    """What an array is aligned to, asked where it is lowered, as on a GPU. TypingError: no constant."""
    literal = getattr(alignment, "literal_value", getattr(alignment, "value", None))
    if alignment not in (None, types.none) and not isinstance(
        alignment, (types.IntegerLiteral, types.Omitted)
    ):
        raise errors.RequireLiteralValue("alignment must be a constant integer")

    def asked() -> int:
        if literal is None:
            return least
        check_alignment(literal)
        return max(literal, least)

    return asked


def _shared(_context: Any, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """An array of the block; its memory is aligned to 128 bytes at least."""
    aligned = _least(alignment, _SHARED_ALIGNMENT)
    sizes, kind = _shape_of(shape, "shared.array"), _dtype_of(dtype, "shared.array")
    array = types.Array(kind, len(sizes), "C")

    def codegen(context: Any, builder: Any, _sig: Any, _args: Any) -> Any:
        if sizes == (0,):  # dynamic shared memory, which all of these share
            itemsize = I64(_nbytes(context, array, (1,)))
            nbytes = thread_word(builder, _AT["dynamic_bytes"], I64)
            address = thread_word(builder, _AT["dynamic"], I64)
            return _view(context, builder, array, address, [builder.sdiv(nbytes, itemsize)])
        # The place's own address is its number: unlike a constant's, nothing merges it with another.
        name = builder.module.get_unique_name("pyshmem_shared")
        place = ir.GlobalVariable(builder.module, I8, name)
        place.linkage, place.initializer = "internal", I8(0)
        number = builder.ptrtoint(place, I64)
        to = aligned()
        nbytes = I64(_nbytes(context, array, sizes) + (to - _SHARED_ALIGNMENT))
        address = call(builder, "pysh_cpu_shared", I64, number, nbytes)
        if to > _SHARED_ALIGNMENT:
            address = builder.and_(builder.add(address, I64(to - 1)), I64(-to))
        return _view(context, builder, array, address, [I64(size) for size in sizes])

    given = types.Omitted(None) if alignment is None else alignment
    return signature(array, shape, dtype, given), codegen


def _local(_context: Any, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """An array of the thread; its memory is aligned to 16 bytes at least."""
    aligned = _least(alignment, 16)
    sizes, kind = _shape_of(shape, "local.array"), _dtype_of(dtype, "local.array")
    array = types.Array(kind, len(sizes), "C")

    def codegen(context: Any, builder: Any, _sig: Any, _args: Any) -> Any:
        bytes_ = ir.ArrayType(I8, _nbytes(context, array, sizes))
        with builder.goto_entry_block():
            place = builder.alloca(bytes_)
            place.align = aligned()
        address = builder.ptrtoint(place, I64)
        return _view(context, builder, array, address, [I64(size) for size in sizes])

    given = types.Omitted(None) if alignment is None else alignment
    return signature(array, shape, dtype, given), codegen


function_of_cuda("shared.array", intrinsic(prefer_literal=True)(_shared))
function_of_cuda("local.array", intrinsic(prefer_literal=True)(_local))


@name_of_cuda("const.array_like")
def _const_typing(array: Any) -> Any:
    return lambda array: array


# -- bits and arithmetic -------------------------------------------------------------------------


def _of_bits(name: str, emit: Callable[[Any, Any, int], Any], result: Any = None) -> None:
    """``cuda.<name>(integer)``, by LLVM's intrinsics, on 32 bits or on 64."""

    @intrinsic
    def routine(_context: Any, value: Any) -> Any:
        kind = types.unliteral(value)
        if not isinstance(kind, types.Integer):
            raise errors.TypingError(f"cuda.{name} takes an integer, not {kind}")
        width = 64 if kind.bitwidth > 32 else 32
        wide = (types.int64, types.uint64) if width == 64 else (types.int32, types.uint32)
        given = wide[0] if kind.signed else wide[1]

        def codegen(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
            found = emit(builder, args[0], width)
            return found if result is None else _resized(builder, found, result)

        return signature(result or given, given), codegen

    function_of_cuda(name, routine)


def _resized(builder: Any, value: Any, kind: Any) -> Any:
    form = ir.IntType(kind.bitwidth)
    if value.type.width > form.width:
        return builder.trunc(value, form)
    return builder.zext(value, form) if value.type.width < form.width else value


def _ffs(builder: Any, value: Any, width: int) -> Any:
    form = ir.IntType(width)
    found = builder.add(builder.cttz(value, ir.IntType(1)(0)), form(1))
    return builder.select(builder.icmp_unsigned("==", value, form(0)), form(0), found)


_of_bits("popc", lambda b, v, w: b.ctpop(v), types.int32)


def _shift(called: Any, left: bool, *kinds: Any) -> None:
    """By all its bits or more none of a number is left, as on GPUs; processors take the count's rest."""

    @OWN.lower(called, *kinds)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, count = (
            context.cast(builder, given, kind, sig.return_type)
            for given, kind in zip(args, sig.args, strict=True)
        )
        one, signed = value.type, sig.return_type.signed
        fits = builder.icmp_unsigned("<", count, one(one.width))
        most = builder.select(fits, count, one(one.width - 1))
        if not left and signed:
            return builder.ashr(value, most)
        return builder.select(fits, (builder.shl if left else builder.lshr)(value, most), one(0))


for _kind in types.integer_domain:
    for _count in (types.int64, types.uint64):  # all that Numba's typing has
        for _called in (operator.lshift, operator.ilshift):
            _shift(_called, True, _kind, _count)
        for _called in (operator.rshift, operator.irshift):
            _shift(_called, False, _kind, _count)


@OWN.lower(round, types.float32, types.Integer)
def _round(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """To so many digits by float64, as on GPUs: what lies near a half of them is told from it."""
    wide = signature(types.float64, types.float64, sig.args[1])
    value = context.cast(builder, args[0], types.float32, types.float64)
    found = context.get_function(round, wide)(builder, [value, args[1]])
    return context.cast(builder, found, types.float64, sig.return_type)


@overload_method(types.Integer, "bit_count", target=NAME)
def _bit_count(value: Any) -> Any:
    popc = LANGUAGE["popc"]

    def count(value: Any) -> Any:
        return popc(value)

    return count


_of_bits("clz", lambda b, v, w: b.ctlz(v, ir.IntType(1)(0)), types.int32)
_of_bits("ffs", _ffs, types.int32)
_of_bits("brev", lambda b, v, w: b.bitreverse(v))


@intrinsic
def _fma(_context: Any, a: Any, b: Any, c: Any) -> Any:
    plain = [types.unliteral(kind) for kind in (a, b, c)]
    kind = types.float32 if all(one == types.float32 for one in plain) else types.float64

    def codegen(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.fma(*args)

    return signature(kind, kind, kind, kind), codegen


@name_of_cuda("selp")
def _selp_typing(a: Any, b: Any, c: Any) -> Any:
    return lambda a, b, c: b if a else c


@register_jitable
def _cbrt(a: Any) -> Any:
    return np.cbrt(a)


function_of_cuda("fma", _fma)
function_of_cuda("cbrt", _cbrt)


# ---- what kernels print: words, of which the host makes text when the launch has ended -------------

#: Kinds of words. Behind a tuple, which says how many, are its items.
_END, _INT, _UINT, _BOOL, _FLOAT32, _FLOAT64, _TEXT, _TUPLE = range(8)


def _printed_text(context: Any, builder: Any, text: str) -> Any:
    place = context.insert_const_string(builder.module, text)
    return builder.ptrtoint(place, I64)


def _printed_words(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(kind, types.BaseTuple):
        yield _TUPLE, I64(len(kind))
        for at, item in enumerate(kind):
            yield from _printed_words(context, builder, item, builder.extract_value(value, at))
    elif isinstance(kind, _Dim3Type):
        yield _TUPLE, I64(3)
        for axis in range(3):
            yield _INT, builder.sext(thread_word(builder, _AT[kind.field] + 4 * axis, I32), I64)
    else:
        yield _printed_word(context, builder, kind, value)


def _printed_word(context: Any, builder: Any, kind: Any, value: Any) -> tuple[int, Any]:
    if isinstance(kind, types.StringLiteral):
        return _TEXT, _printed_text(context, builder, kind.literal_value)
    plain = types.unliteral(kind)
    if plain == types.boolean:
        return _BOOL, builder.zext(context.cast(builder, value, kind, plain), I64)
    if isinstance(plain, types.Integer):
        wide = types.int64 if plain.signed else types.uint64
        return (_INT if plain.signed else _UINT), context.cast(builder, value, kind, wide)
    if isinstance(plain, types.Float) or plain == halves.bfloat16:
        number = context.cast(builder, value, kind, types.float64)
        form = _FLOAT32 if plain == types.float32 else _FLOAT64
        return form, builder.bitcast(number, I64)
    raise errors.LoweringError(f"kernels compiled for the CPU print numbers and texts, not {plain}")


def _lower_print(context: Any, sig: Any, builder: Any, args: Any) -> Any:
    """A call of ``print``: an array of words."""
    words = [
        word
        for kind, value in zip(sig.args, args, strict=True)
        for word in _printed_words(context, builder, kind, value)
    ]
    words.append((_END, I64(0)))
    array = cgutils.alloca_once(builder, I64, size=2 * len(words))
    for at, (kind, bits) in enumerate(words):
        builder.store(I64(kind), builder.gep(array, [I64(2 * at)]))
        builder.store(bits, builder.gep(array, [I64(2 * at + 1)]))
    pointer = builder.bitcast(array, cgutils.voidptr_t)
    call(builder, "pysh_cpu_print", VOID, pointer, I64(len(words)))
    return context.get_dummy_value()


LOWER["print"] = _lower_print


def _printed_item(kind: int, bits: int) -> Any:
    if kind == _TEXT:
        return ffi.string(ffi.cast("char *", bits)).decode()
    if kind == _BOOL:
        return bool(bits)
    if kind == _UINT:
        return bits % (1 << 64)
    if kind == _INT:
        return bits
    number = struct.unpack("<d", struct.pack("<q", bits))[0]
    return np.float32(number) if kind == _FLOAT32 else number


def _printed_tuple(words: Iterator[Any], count: int) -> str:
    items = [_next_printed(words, next(words)) for _ in range(count)]
    return f"({', '.join(map(str, items))}{',' if count == 1 else ''})"


def _next_printed(words: Iterator[Any], word: Any) -> Any:
    if word.kind == _TUPLE:
        return _printed_tuple(words, word.bits)
    return _printed_item(word.kind, word.bits)


def show_printed(words: Any, count: int) -> None:
    """Print what a launch has printed."""
    items: list[Any] = []
    each = (words[k] for k in range(count))
    for word in each:
        if word.kind == _END:
            print(*items)
            items = []
        else:
            items.append(_next_printed(each, word))
