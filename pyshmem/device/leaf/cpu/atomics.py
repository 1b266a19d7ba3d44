# SPDX-License-Identifier: BSD-3-Clause
"""``cuda.atomic`` in kernels that are compiled for the CPU: LLVM's atomics, relaxed as the GPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.core.typing import signature
from numba.extending import intrinsic
from numba.np import arrayobj

from .language import function_of_cuda

_ORDER = "monotonic"


def _element(array: Any, name: str) -> Any:
    dtype = getattr(array, "dtype", None)
    if not isinstance(array, types.Array) or not isinstance(dtype, (types.Integer, types.Float)):
        raise errors.TypingError(f"cuda.atomic.{name} takes arrays of numbers, not {array}")
    if isinstance(dtype, types.Float) and dtype == types.float16:
        raise errors.TypingError(f"cuda.atomic.{name} is not compiled for float16 on the CPU yet")
    return dtype


def _place(context: Any, builder: Any, array: Any, value: Any, index: Any, given: Any) -> Any:
    """Where an element is; negative indices count from the end."""
    kinds = tuple(index) if isinstance(index, types.BaseTuple) else (index,)
    values = cgutils.unpack_tuple(builder, given) if isinstance(index, types.BaseTuple) else [given]
    indices = [
        context.cast(builder, one, kind, types.intp)
        for one, kind in zip(values, kinds, strict=True)
    ]
    made = arrayobj.make_array(array)(context, builder, value)
    return cgutils.get_item_pointer(
        context,
        builder,
        array,
        made,
        indices,
        wraparound=True,
        boundscheck=context.enable_boundscheck,
    )


def _check_index(array: Any, index: Any, name: str) -> None:
    count = len(index) if isinstance(index, types.BaseTuple) else 1
    if count != array.ndim:
        raise errors.TypingError(
            f"cuda.atomic.{name} takes an index of the array's {array.ndim} dimensions, not of {count}"
        )


def _as_bits(builder: Any, place: Any) -> Any:
    """A pointer to an integer of the same size: comparisons and swaps are of bits."""
    kind = place.type.pointee
    width = {ir.FloatType(): 32, ir.DoubleType(): 64}.get(kind) or kind.width
    return builder.bitcast(place, ir.IntType(width).as_pointer())


def _swap_if(builder: Any, place: Any, expected: Any, value: Any) -> Any:
    """Stores ``value`` where the element is ``expected``, by its bits; the old element."""
    pointer, form = _as_bits(builder, place), place.type.pointee
    bits = [builder.bitcast(one, pointer.type.pointee) for one in (expected, value)]
    pair = builder.cmpxchg(pointer, *bits, _ORDER, _ORDER)
    return builder.bitcast(builder.extract_value(pair, 0), form)


def _by_loop(builder: Any, place: Any, value: Any, sign: str) -> Any:
    """Of floats: the larger or the smaller; an element that is NaN stays, as does one beside a NaN."""
    entry, loop = builder.block, builder.append_basic_block("again")
    change, done = builder.append_basic_block("change"), builder.append_basic_block("done")
    pointer, form = _as_bits(builder, place), place.type.pointee
    width = pointer.type.pointee.width
    first = builder.load_atomic(pointer, _ORDER, width // 8)
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(pointer.type.pointee)
    seen.add_incoming(first, entry)
    old = builder.bitcast(seen, form)
    builder.cbranch(builder.fcmp_ordered(sign, value, old), change, done)
    builder.position_at_end(change)
    pair = builder.cmpxchg(pointer, seen, builder.bitcast(value, seen.type), _ORDER, _ORDER)
    seen.add_incoming(builder.extract_value(pair, 0), change)
    builder.cbranch(builder.extract_value(pair, 1), done, loop)
    builder.position_at_end(done)
    return old


def _extreme(sign: str) -> Callable[..., Any]:
    name = "max" if sign == ">" else "min"

    def emit(builder: Any, dtype: Any, place: Any, value: Any) -> Any:
        if isinstance(dtype, types.Float):
            return _by_loop(builder, place, value, sign)
        return builder.atomic_rmw(name if dtype.signed else f"u{name}", place, value, _ORDER)

    return emit


def _plain(op: str, real: str = "") -> Callable[..., Any]:
    def emit(builder: Any, dtype: Any, place: Any, value: Any) -> Any:
        is_real = isinstance(dtype, types.Float)
        return builder.atomic_rmw(real if is_real and real else op, place, value, _ORDER)

    return emit


_ANY, _INTEGERS, _UNSIGNED = "any", "integers", "unsigned"
_OPERATIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": (_ANY, _plain("add", "fadd")),
    "sub": (_ANY, _plain("sub", "fsub")),
    "exch": (_ANY, _plain("xchg")),
    "max": (_ANY, _extreme(">")),
    "min": (_ANY, _extreme("<")),
    "nanmax": (_ANY, lambda b, d, p, v: _ignoring_nan("max")(b, d, p, v)),
    "nanmin": (_ANY, lambda b, d, p, v: _ignoring_nan("min")(b, d, p, v)),
    "and_": (_INTEGERS, _plain("and")),
    "or_": (_INTEGERS, _plain("or")),
    "xor": (_INTEGERS, _plain("xor")),
    "inc": (_UNSIGNED, _plain("uinc_wrap")),
    "dec": (_UNSIGNED, _plain("udec_wrap")),
}


def _ignoring_nan(name: str) -> Callable[..., Any]:
    def emit(builder: Any, dtype: Any, place: Any, value: Any) -> Any:
        if isinstance(dtype, types.Float):
            return builder.atomic_rmw(f"f{name}", place, value, _ORDER)
        return builder.atomic_rmw(name if dtype.signed else f"u{name}", place, value, _ORDER)

    return emit


def _operation(name: str, of: str, emit: Callable[..., Any]) -> None:
    @intrinsic
    def atomic(_context: Any, array: Any, index: Any, value: Any) -> Any:
        dtype = _element(array, name)
        integer = isinstance(dtype, types.Integer)
        if (of != _ANY and not integer) or (of == _UNSIGNED and dtype.signed):
            raise errors.TypingError(f"cuda.atomic.{name} takes {of}, not {dtype}")
        _check_index(array, index, name)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            place = _place(context, builder, array, args[0], sig.args[1], args[1])
            return emit(builder, dtype, place, args[2])

        return signature(dtype, array, types.unliteral(index), dtype), codegen

    function_of_cuda(f"atomic.{name}", atomic)


for _name, (_of, _emit) in _OPERATIONS.items():
    _operation(_name, _of, _emit)


@intrinsic
def _cas(_context: Any, array: Any, index: Any, old: Any, value: Any) -> Any:
    dtype = _element(array, "cas")
    _check_index(array, index, "cas")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, array, args[0], sig.args[1], args[1])
        return _swap_if(builder, place, args[2], args[3])

    return signature(dtype, array, types.unliteral(index), dtype, dtype), codegen


@intrinsic
def _compare_and_swap(_context: Any, array: Any, old: Any, value: Any) -> Any:
    dtype = _element(array, "compare_and_swap")

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        place = arrayobj.make_array(array)(context, builder, args[0]).data
        return _swap_if(builder, place, args[1], args[2])

    return signature(dtype, array, dtype, dtype), codegen


function_of_cuda("atomic.cas", _cas)
function_of_cuda("atomic.compare_and_swap", _compare_and_swap)
