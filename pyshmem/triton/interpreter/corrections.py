# SPDX-License-Identifier: BSD-3-Clause
"""What Triton's interpreter computes otherwise than a GPU, put right: it would be wrong without a word.

It keeps a bfloat16 as a uint16 and an FP8 number as a uint8, and takes them for these in arithmetic, in
reductions and scans of its own, and in most casts. Here bfloat16 is computed in float32 and rounded to
the nearest even. Arithmetic with FP8, which no GPU has, is refused; its casts are a GPU's. A scalar
truth value spread over a tile becomes an int32, which is no mask. An exchange of floats is one of their
bits. Tests hold every operation against the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from ..._foreign import triton_interpreter as foreign
from . import fp8


def _is_bfloat16(handle: Any) -> bool:
    return isinstance(handle, TensorHandle) and handle.dtype.scalar == tl.bfloat16


def _widened(handle: Any) -> Any:
    if not _is_bfloat16(handle):
        return handle
    return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _rounded(handle: Any) -> Any:
    bits = handle.data.astype(np.float32).view(np.uint32)
    nearest = bits + (0x7FFF + (bits >> 16 & 1)) >> 16
    quiet_nan = bits >> 16 | 0x40
    data = np.where(np.isnan(handle.data), quiet_nan, nearest).astype(np.uint16)
    return TensorHandle(data, tl.bfloat16)


# -- casts -------------------------------------------------------------------------------------------


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast_impl(self: Any, source: Any, dtype: Any) -> Any:
        wide, to = _widened(source), dtype.scalar
        if source.dtype.scalar == to:
            return source
        if source.dtype.scalar in fp8.KINDS or to in fp8.KINDS:
            fp8.refuse_cast(source.dtype.scalar, to)
            decoded = fp8.decoded(wide)
            return fp8.encoded(decoded, to) if to in fp8.KINDS else cast_impl(self, decoded, to)
        if to == tl.bfloat16:
            return _rounded(wide if wide.dtype == tl.float32 else original(self, wide, tl.float32))
        return wide if wide.dtype == to else original(self, wide, dtype)

    return cast_impl


def _cast_rounded(original: Callable[..., Any]) -> Callable[..., Any]:
    """Towards zero it is right; to the nearest, one number in two, for it drops a carry."""

    def create_fp_to_fp(self: Any, source: Any, dtype: Any, rounding: Any) -> Any:
        if rounding != foreign.ir.ROUNDING_MODE.RTZ:
            return self.cast_impl(source, dtype)
        wide = _widened(source)
        if dtype.scalar == tl.bfloat16:
            bits = self.cast_impl(wide, tl.float32).data.view(np.uint32) >> 16
            return TensorHandle(bits.astype(np.uint16), tl.bfloat16)
        return original(self, wide, dtype, rounding)

    return create_fp_to_fp


# -- arithmetic ----------------------------------------------------------------------------------------


def _compute(original: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of the builder on tiles, of one dtype but for the condition of a selection."""

    def operation(self: Any, *given: Any) -> Any:
        if np.where in given:  # moves bits
            return original(self, *given)
        fp8.refuse(given)
        narrow = any(map(_is_bfloat16, given))
        result = original(self, *map(_widened, given))
        if result.data.dtype == np.bool_:  # labelled as what was compared
            return TensorHandle(result.data, tl.int1)
        return _rounded(result) if narrow else result

    return operation


def _dot(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_dot(self: Any, a: Any, b: Any, total: Any, *rest: Any) -> Any:
        a, b = (fp8.decoded(_widened(tile)) for tile in (a, b))
        result = original(self, a, b, _widened(total), *rest)
        return _rounded(result) if _is_bfloat16(total) else result

    return create_dot


def _print(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_print(self: Any, prefix: Any, hexadecimal: Any, values: Any, *rest: Any) -> None:
        shown = [fp8.decoded(_widened(value)) for value in values]
        original(self, prefix, hexadecimal, shown, *rest)

    return create_print


def _scaled_operand(original: Callable[..., Any]) -> Callable[..., Any]:
    """The values of an operand of a scaled product, which it takes through float16."""

    def as_float32(handle: Any) -> Any:
        if handle.dtype == tl.uint8:  # two numbers of 4 bits
            return original(handle)
        return fp8.decoded(_widened(handle)).data.astype(np.float32)

    return as_float32


# -- reductions and scans ----------------------------------------------------------------------------


def _tensor(handle: Any, like: Any) -> Any:
    shape = like.type.shape if like.type.is_block() else ()
    return tl.tensor(handle, tl.block_type(handle.dtype, shape) if shape else handle.dtype)


def _fold(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of ``ReduceOps`` and ``ScanOps`` what all of theirs go through; results are in order."""

    def apply_impl(self: Any, tiles: Any) -> Any:
        fp8.refuse([tile.handle for tile in tiles])
        if (
            not _is_bfloat16(tiles[0].handle) or self.combine_fn not in foreign.COMBINES
        ):  # others it does by their operations
            return original(self, tiles)
        wide = tuple(_tensor(_widened(tile.handle), tile) for tile in tiles)
        results = original(self, wide)
        several = isinstance(results, (list, tuple))
        narrow = [
            _tensor(_rounded(one.handle), one) if one.handle.dtype == tl.float32 else one
            for one in (results if several else (results,))
        ]
        return tuple(narrow) if several else narrow[0]

    return apply_impl


# -- masks, padding and atomics ----------------------------------------------------------------------


def _splat(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_splat(self: Any, *given: Any) -> Any:
        result = original(self, *given)
        scalar = next(one for one in given if isinstance(one, TensorHandle))
        if scalar.data.dtype == np.bool_:
            result.data = result.data.astype(np.bool_)
        return result

    return create_splat


#: What is no number, as the interpreter keeps it.
_NANS = {tl.bfloat16: np.uint16(0x7FC0)} | dict.fromkeys(fp8.KINDS, np.uint8(0x7F))


def _padded(self: Any, places: Any, inside: Any, kind: Any, policies: tuple[Any, ...]) -> Any:
    """Loads with what is no number where nothing is; ``policies``: one, before Triton 3.9 two."""
    other = TensorHandle(np.full(places.data.shape, _NANS[kind]), kind)
    return self.create_masked_load(places, inside, other, *policies, False)


def _pad(original: Callable[..., Any]) -> Callable[..., Any]:
    """A descriptor's padding that is no number."""

    def create_descriptor_load(self: Any, descriptor: Any, indices: Any, *policies: Any) -> Any:
        kind = descriptor.base.dtype.element_ty
        if descriptor.padding != foreign.ir.PADDING_OPTION.PAD_NAN or kind not in _NANS:
            return original(self, descriptor, indices, *policies)
        places, inside = descriptor.materialize_pointers(indices)
        return _padded(self, places, inside, kind, policies)

    return create_descriptor_load


def _pad_block(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same of pointers to blocks, which are the interpreter's own up to Triton 3.7."""

    def create_tensor_pointer_load(
        self: Any, pointer: Any, checks: Any, padding: Any, *policies: Any
    ) -> Any:
        kind = pointer.base.dtype.element_ty
        if padding != foreign.ir.PADDING_OPTION.PAD_NAN or kind not in _NANS:
            return original(self, pointer, checks, padding, *policies)
        places, inside = pointer.materialize_pointers(checks)
        return _padded(self, places, inside, kind, policies[:-1])

    return create_tensor_pointer_load


def _bfloat16_constant(self: Any, value: float) -> Any:
    """As Triton 3.9 has it. Without it no constant becomes a bfloat16, which a GPU's compiler does."""
    return self.create_fp_trunc(self.get_fp32(value), tl.bfloat16)


def _add_narrow(pointer: Any, value: Any, mask: Any, order: Any) -> Any:
    """An atomic sum of bfloat16: 2 bytes are exchanged for as long as others are faster."""
    places, amounts, masks = np.broadcast_arrays(pointer.data, value.data, mask.data)
    old = np.zeros(places.shape, np.uint16)
    for index in np.ndindex(places.shape):
        if not masks[index]:
            continue
        place, amount = (np.array([array[index]]) for array in (places, amounts))
        truth, seen = np.ones(1, np.bool_), np.zeros(1, np.uint16)
        seen = foreign.memory.load(place, truth, seen, np.dtype(np.uint16))
        while True:
            both = (_widened(TensorHandle(word, tl.bfloat16)).data for word in (seen, amount))
            wanted = _rounded(TensorHandle(sum(both), tl.float32)).data
            found = foreign.memory.atomic_cas(place, seen, wanted, order)
            if found[0] == seen[0]:
                break
            seen = found
        old[index] = seen[0]
    return TensorHandle(old, tl.bfloat16)


def _atomic(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_atomic_rmw(self: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        kind = value.data.dtype
        if operation == foreign.ir.ATOMIC_OP.FADD and _is_bfloat16(value):
            return _add_narrow(pointer, value, rest[0], self.ir_sem_to_interpreter_sem[rest[1]])
        if operation != foreign.ir.ATOMIC_OP.XCHG or kind.kind != "f":
            return original(self, operation, pointer, value, *rest)
        bits = TensorHandle(value.data.view(f"i{kind.itemsize}"), value.dtype)
        result = original(self, operation, pointer, bits, *rest)
        result.data = result.data.view(kind)
        return result

    return create_atomic_rmw


#: Each method of the builder that looks at the numbers of its tiles, and what it becomes. Others move
#: them, or stand on these.
REPAIRS = {
    "cast_impl": _cast, "create_fp_to_fp": _cast_rounded, "binary_op": _compute, "unary_op": _compute,
    "ternary_op": _compute, "create_fma": _compute, "create_idiv": _compute, "create_erf": _compute,
    "create_rsqrt": _compute, "create_dot": _dot, "create_splat": _splat, "create_atomic_rmw": _atomic,
    "create_print": _print, "create_descriptor_load": _pad, "create_tensor_pointer_load": _pad_block,
}  # fmt: skip


def install() -> None:
    """Patches Triton's interpreter."""
    foreign.repair(REPAIRS)
    foreign.BFLOAT16.offer(_bfloat16_constant)
    for operand in foreign.SCALED_OPERANDS:
        operand.wrap(_scaled_operand)
    for fold in foreign.FOLDS:
        fold.wrap(_fold)
