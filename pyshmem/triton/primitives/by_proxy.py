# SPDX-License-Identifier: BSD-3-Clause
"""Tiles on PEs that are not reached by loads and stores: an element a request to the host.

What the caller keeps itself is accessed at once. Elements travel in the requests and their replies, so
nothing has to stay as it is in memory. Stores are complete at ``quiet``; loads and atomics on return.
"""

import triton
import triton.language as tl

from ..._core.type_table import ATOMIC_NUMBER, ELEMENT_NUMBER
from ..runtime.constants import (
    FAULT_ADDRESS,
    FAULT_PE,
    HEAP_BASE,
    HEAP_BYTES,
    MY_PE,
    N_PES,
    REQUEST_AMO,
    REQUEST_G,
    REQUEST_P,
    SIGNAL_ADD,
)
from .backend import device_function, end_with, fence_all, program_barrier, state, touch
from .job_constants import bytes_of, has_bits, is_whole
from .ring import ask_tile, own_ring, settle, tell, tell_tile, to_int64

_ACQ_REL = tl.constexpr("acq_rel")
_FETCH = tl.constexpr(ATOMIC_NUMBER["fetch"] << 32)
_SET = tl.constexpr(ATOMIC_NUMBER["set"] << 32)
_ADD = tl.constexpr(ATOMIC_NUMBER["add"] << 32)
_CAS = tl.constexpr(ATOMIC_NUMBER["compare_swap"] << 32)
_UINT64 = tl.constexpr(ELEMENT_NUMBER["uint64"])


@triton.constexpr_function
def _type_number(dtype, name):
    """The type that an atomic of the host is asked for; bits are bits to those that do not compute."""
    if dtype.primitive_bitwidth not in (32, 64):
        raise TypeError(
            f"atomics on {dtype} do not reach PEs without loads and stores (PYSHMEM_P2P is 0): "
            "take a type of 4 or 8 bytes"
        )
    has_bits(dtype, name)
    if name == "add":
        names = {"fp32": "float", "fp64": "double"}
        return ELEMENT_NUMBER[names.get(str(dtype), str(dtype))]
    return ELEMENT_NUMBER["uint32" if dtype.primitive_bitwidth == 32 else "uint64"]


@triton.constexpr_function
def releases(sem):
    """Does an atomic go out behind what the program has stored? None is Triton's own, acq_rel."""
    if sem not in (None, "relaxed", "acquire", "release", "acq_rel"):
        raise ValueError(f"sem is {sem!r}; it is relaxed, acquire, release or acq_rel")
    return sem in (None, "release", "acq_rel")


@triton.constexpr_function
def _atomic_word(name):
    return ATOMIC_NUMBER[name] << 32


@device_function
def check_pe(pe, op: tl.constexpr, ctx):
    """Ends the program if there is no such PE, or one of several is none; ``pe`` as int64."""
    tl.static_assert(is_whole(pe))
    pe = to_int64(pe)
    n_pes = state(ctx, N_PES)
    if pe.type.is_block():
        largest, least = tl.max(pe), tl.min(pe)
        wrong = tl.where(least < 0, least, largest)
    else:
        wrong = pe
    if (wrong < 0) | (wrong >= n_pes):
        end_with(FAULT_PE, op, wrong, n_pes, ctx)
    return pe


@device_function
def _each(pe, pointer):
    """PEs in a row as the elements are; one for all stays as it is."""
    if pe.type.is_block():
        return _flat(pointer, pe)
    else:
        return pe


@device_function
def _flat(pointer, value):
    """``value`` in as many elements as ``pointer`` has, in a row; two for a scalar."""
    if pointer.type.is_block():
        return tl.reshape(tl.broadcast_to(value, pointer.shape), [pointer.numel])
    else:
        return tl.broadcast_to(value, [2])


@device_function
def _active(pointer, mask):
    touch(pointer, mask, None)
    if pointer.type.is_block():
        if mask is None:
            return tl.full([pointer.numel], 1, tl.int1)
        else:
            return _flat(pointer, tl.cast(mask, tl.int1))
    elif mask is None:
        return tl.arange(0, 2) == 0
    else:
        return tl.arange(0, 2) < tl.cast(mask, tl.int32)


@device_function
def _shaped(flat, pointer):
    """The other way round."""
    if pointer.type.is_block():
        return tl.reshape(flat, pointer.shape)
    else:
        return tl.sum(tl.where(tl.arange(0, 2) == 0, flat, flat * 0))


@device_function
def to_bits(value):
    """A value's bits in an int64, zeros above them."""
    bits: tl.constexpr = value.dtype.primitive_bitwidth
    if bits == 64:
        return value.to(tl.int64, bitcast=True)
    elif bits == 32:
        return value.to(tl.uint32, bitcast=True).to(tl.int64)
    elif bits == 16:
        return value.to(tl.uint16, bitcast=True).to(tl.int64)
    elif bits == 8:
        return value.to(tl.uint8, bitcast=True).to(tl.int64)
    else:
        return value.to(tl.int64)


@device_function
def from_bits(bits, dtype: tl.constexpr):
    """The other way round."""
    if dtype.primitive_bitwidth == 64:
        return bits.to(dtype, bitcast=True)
    elif dtype.primitive_bitwidth == 32:
        return bits.to(tl.uint32).to(dtype, bitcast=True)
    elif dtype.primitive_bitwidth == 16:
        return bits.to(tl.uint16).to(dtype, bitcast=True)
    elif dtype.primitive_bitwidth == 8:
        return bits.to(tl.uint8).to(dtype, bitcast=True)
    else:
        return bits.to(dtype)


@device_function
def _bits_like(pointer, value):
    """``value`` as bits of what is at ``pointer``, flat."""
    dtype: tl.constexpr = pointer.dtype.element_ty
    return to_bits(_flat(pointer, tl.cast(value, dtype)))


@device_function
def _addresses(pointer):
    return _flat(pointer, tl.cast(pointer, tl.int64))


@device_function
def _is_own(pe, shape, ctx):
    """Is it the caller that is meant? For each element: the interpreter spreads no truth values."""
    return tl.broadcast_to(pe, shape) == state(ctx, MY_PE)


@device_function
def load_by_proxy(pointer, pe, op: tl.constexpr, ctx, mask=None, other=None):
    """The tile at ``pointer`` on ``pe``; 0, or ``other``, where the mask is off."""
    pe = _each(check_pe(pe, op, ctx), pointer)
    dtype: tl.constexpr = pointer.dtype.element_ty
    kind: tl.constexpr = REQUEST_G | bytes_of(dtype) << 8
    flat, active = _addresses(pointer), _active(pointer, mask)
    own = _is_own(pe, active.shape, ctx)
    program_barrier()
    answer, _ = ask_tile(kind, 0, flat, 0, 0, 0, pe, active & ~own, ctx)
    places = flat.to(tl.pointer_type(dtype))
    here = tl.load(places, mask=active & own, volatile=True)
    got = tl.where(own, here, from_bits(answer, dtype))
    if (mask is not None) and (other is not None):
        got = tl.where(active, got, _flat(pointer, tl.cast(other, dtype)))
    return _shaped(got, pointer)


@device_function
def store_by_proxy(pointer, value, pe, op: tl.constexpr, ctx, mask=None):
    """Store a tile at ``pointer`` on ``pe``."""
    pe = _each(check_pe(pe, op, ctx), pointer)
    dtype: tl.constexpr = pointer.dtype.element_ty
    kind: tl.constexpr = REQUEST_P | bytes_of(dtype) << 8
    flat, active = _addresses(pointer), _active(pointer, mask)
    values = _flat(pointer, tl.cast(value, dtype))
    own = _is_own(pe, active.shape, ctx)
    tl.store(flat.to(tl.pointer_type(dtype)), values, mask=active & own)
    tell_tile(kind, flat, to_bits(values), pe, active & ~own, own_ring(ctx), ctx)


@device_function
def atomic_by_proxy(
    pointer, value, condition, pe, name: tl.constexpr, op: tl.constexpr, ctx, mask=None,
    sem: tl.constexpr = _ACQ_REL,
):  # fmt: skip
    """An atomic of the host's on each element, by its name in ``ATOMIC_OPS``; what they were."""
    pe = _each(check_pe(pe, op, ctx), pointer)
    if releases(sem):
        settle(ctx)
    dtype: tl.constexpr = pointer.dtype.element_ty
    kind: tl.constexpr = REQUEST_AMO | _type_number(dtype, name) << 8
    answer, _ = ask_tile(
        kind, _addresses(pointer), 0, _bits_like(pointer, value), _bits_like(pointer, condition), 0,
        pe | _atomic_word(name), _active(pointer, mask), ctx,
    )  # fmt: skip
    return _shaped(from_bits(answer, dtype), pointer)


@device_function
def extreme_by_proxy(
    pointer, value, pe, largest: tl.constexpr, op: tl.constexpr, ctx, mask=None,
    sem: tl.constexpr = _ACQ_REL,
):  # fmt: skip
    """The minimum or maximum into each element, by compare-and-swap; what they were."""
    pe = _each(check_pe(pe, op, ctx), pointer)
    if releases(sem):
        settle(ctx)
    dtype: tl.constexpr = pointer.dtype.element_ty
    kind: tl.constexpr = REQUEST_AMO | _type_number(dtype, "compare_swap") << 8
    addresses, wanted = _addresses(pointer), _flat(pointer, tl.cast(value, dtype))
    old, left = ask_tile(kind, addresses, 0, 0, 0, 0, pe | _FETCH, _active(pointer, mask), ctx)
    while tl.max(left.to(tl.int32)) != 0:
        seen = from_bits(old, dtype)
        best = tl.maximum(seen, wanted) if largest else tl.minimum(seen, wanted)
        found, well = ask_tile(kind, addresses, 0, to_bits(best), old, 0, pe | _CAS, left, ctx)
        left = well & (found != old)
        old = tl.where(left, found, old)
    return _shaped(from_bits(old, dtype), pointer)


@device_function
def words_by_proxy(pointer, value, pe, active, ring, ctx):
    """Sets whole words of 64 bits, atomically, of flat tensors; ``pe`` may be one too.

    ``ring``: that of the team whose flags they are; ``own_ring`` for words that are not stored again
    before they have been seen.
    """
    kind: tl.constexpr = REQUEST_AMO | _UINT64 << 8
    tell_tile(kind, to_int64(pointer), to_bits(value), to_int64(pe) | _SET, active, ring, ctx)


@device_function
def signal_by_proxy(sig_addr, signal, sig_op, pe, op: tl.constexpr, ctx):
    """Updates a signal behind all that the program has stored, and asked for."""
    pe = check_pe(pe, op, ctx)
    address = to_int64(sig_addr)
    touch(sig_addr, None, None)
    offset = address - state(ctx, HEAP_BASE)
    if (offset < 0) | (offset + 8 > state(ctx, HEAP_BYTES)):
        end_with(FAULT_ADDRESS, op, address, 8, ctx)
    program_barrier()
    settle(ctx)
    fence_all()
    word = _ADD if sig_op == SIGNAL_ADD else _SET
    tell(REQUEST_AMO | _UINT64 << 8, address, 0, signal, 0, 0, pe | word, ctx)
