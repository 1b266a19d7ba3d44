# SPDX-License-Identifier: BSD-3-Clause
"""Tiles: loads, stores and atomics on another PE, on tensors of pointers.

Every ``pointer`` is a scalar or a tensor of pointers into the caller's device heap; the same places of
``pe`` are meant: one PE, or a tensor with a PE for each element, those where the mask is off too. Masks
and hints are those of ``tl.load``, ``tl.store`` and ``tl.atomic_*``. They are plain accesses: complete
when a ``quiet``, a signal or a barrier says so. With ``PYSHMEM_P2P=0`` they are requests to the host,
one an element, and hints are of no concern.

Faults: a ``pe`` that is not one of the job's ends the program, and the next host call raises.
"""

import triton
import triton.language as tl

from .primitives.backend import device_function, end_with, program_barrier, reach_pe, state
from .primitives.by_proxy import (
    atomic_by_proxy,
    extreme_by_proxy,
    load_by_proxy,
    releases,
    store_by_proxy,
)
from .primitives.job_constants import (
    all_p2p,
    bytes_of,
    checks,
    has_bits,
    is_context,
    is_mask,
    is_pointer,
    is_whole,
)
from .runtime.constants import (
    ATOMIC_ADD,
    ATOMIC_AND,
    ATOMIC_CAS,
    ATOMIC_MAX,
    ATOMIC_MIN,
    ATOMIC_OR,
    ATOMIC_XCHG,
    ATOMIC_XOR,
    BY_OWNER,
    COPY,
    FAULT_ADDRESS,
    FAULT_ATOMICS,
    GET,
    HEAP_BASE,
    HEAP_BYTES,
    LOAD,
    MAX_PES,
    MY_PE,
    PTR,
    PUT,
    STORE,
)

__all__ = [
    "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_sub",
    "atomic_xchg", "atomic_xor", "copy", "get", "load", "ptr", "put", "store",
]  # fmt: skip


_NO_HINT, _ACQ_REL, _SYS = tl.constexpr(""), tl.constexpr("acq_rel"), tl.constexpr("sys")
_LEAST = tl.constexpr(-(1 << 63))


@device_function
def on_pe(pointer, pe, op: tl.constexpr, ctx):
    """``pointer`` on ``pe``. The distance is added in elements, so that accesses stay 16 bytes wide."""
    tl.static_assert(is_pointer(pointer) and is_whole(pe))
    bits: tl.constexpr = pointer.dtype.element_ty.primitive_bitwidth
    per_unit: tl.constexpr = 256 if bits < 8 else 2048 // bits
    return pointer + reach_pe(pe, op, ctx) * per_unit


@device_function
def check_tile(pointer, mask, op: tl.constexpr, ctx):
    """Where places are checked: ends the program, before anything moves, if one is off the device heap.

    Those where ``mask`` is off are of no concern.
    """
    tl.static_assert(is_pointer(pointer) and is_mask(mask) and is_context(ctx))
    if checks():
        nbytes: tl.constexpr = bytes_of(pointer.dtype.element_ty)
        places = tl.cast(pointer, tl.int64)
        offset = places - state(ctx, HEAP_BASE)
        wrong = (offset < 0) | (offset + nbytes > state(ctx, HEAP_BYTES))
        if mask is not None:
            wrong = wrong & mask
        # An address is any number: whether there is one, and which, are told apart.
        one, count = tl.where(wrong, places, _LEAST), wrong.to(tl.int32)
        if pointer.type.is_block():
            one, count = tl.max(one), tl.max(count)
        if count != 0:
            end_with(FAULT_ADDRESS, op, one, nbytes, ctx)


@device_function
def load_from(
    pointer, pe, op: tl.constexpr, ctx, mask=None, other=None, cache_modifier: tl.constexpr = _NO_HINT,
    eviction_policy: tl.constexpr = _NO_HINT, volatile: tl.constexpr = False,
):  # fmt: skip
    """``load`` in the name of the routine ``op``."""
    check_tile(pointer, mask, op, ctx)
    if all_p2p():
        return tl.load(
            on_pe(pointer, pe, op, ctx), mask=mask, other=other, cache_modifier=cache_modifier,
            eviction_policy=eviction_policy, volatile=volatile,
        )  # fmt: skip
    else:
        return load_by_proxy(pointer, pe, op, ctx, mask, other)


@device_function
def store_to(
    pointer, value, pe, op: tl.constexpr, ctx, mask=None, cache_modifier: tl.constexpr = _NO_HINT,
    eviction_policy: tl.constexpr = _NO_HINT,
):  # fmt: skip
    """``store`` in the name of the routine ``op``."""
    check_tile(pointer, mask, op, ctx)
    if all_p2p():
        tl.store(
            on_pe(pointer, pe, op, ctx), value, mask=mask, cache_modifier=cache_modifier,
            eviction_policy=eviction_policy,
        )  # fmt: skip
    else:
        store_by_proxy(pointer, value, pe, op, ctx, mask)


@device_function
def ptr(pointer, pe, ctx):
    """Where ``pe`` keeps what is at ``pointer`` here, for plain Triton accesses.

    Faults: a ``pe`` that loads and stores do not reach.
    Example: ``value = tl.load(shmem.ptr(source, right, ctx) + offs)``
    Spec: shmem_ptr.
    """
    if all_p2p():
        return on_pe(pointer, pe, PTR, ctx)
    else:
        found = pointer
        if tl.cast(pe, tl.int64) != state(ctx, MY_PE):
            found = on_pe(pointer, pe, PTR, ctx)
        return found


@device_function
def load(
    pointer, pe, ctx, mask=None, other=None, cache_modifier: tl.constexpr = _NO_HINT,
    eviction_policy: tl.constexpr = _NO_HINT, volatile: tl.constexpr = False,
):  # fmt: skip
    """The tile at ``pointer`` on ``pe``.

    Example: ``value = shmem.load(source + offs, right, ctx)``
    Extension.
    """
    return load_from(pointer, pe, LOAD, ctx, mask, other, cache_modifier, eviction_policy, volatile)


@device_function
def store(
    pointer, value, pe, ctx, mask=None, cache_modifier: tl.constexpr = _NO_HINT,
    eviction_policy: tl.constexpr = _NO_HINT,
):  # fmt: skip
    """Store a tile at ``pointer`` on ``pe``.

    Example: ``shmem.store(dest + offs, 2 * tl.load(source + offs), right, ctx)``
    Extension.
    """
    store_to(pointer, value, pe, STORE, ctx, mask, cache_modifier, eviction_policy)


@device_function
def put(
    dest, source, pe, ctx, mask=None, other=None, cache_modifier: tl.constexpr = _NO_HINT,
    eviction_policy: tl.constexpr = _NO_HINT,
):  # fmt: skip
    """Copy the tile at ``source`` here to ``dest`` on ``pe``; both are tensors of pointers.

    Example: ``shmem.put(dest + offs, source + offs, right, ctx, mask=offs < 5)``
    Spec: shmem_put.
    """
    tl.static_assert(is_mask(mask))
    value = tl.load(source, mask=mask, other=other)
    store_to(dest, value, pe, PUT, ctx, mask, cache_modifier, eviction_policy)


@device_function
def get(
    dest, source, pe, ctx, mask=None, other=None, cache_modifier: tl.constexpr = _NO_HINT,
    eviction_policy: tl.constexpr = _NO_HINT,
):  # fmt: skip
    """Copy the tile at ``source`` on ``pe`` to ``dest`` here; both are tensors of pointers.

    Example: ``shmem.get(dest + offs, source + offs, right, ctx)``
    Spec: shmem_get.
    """
    value = load_from(source, pe, GET, ctx, mask, other, cache_modifier, eviction_policy)
    tl.store(dest, value, mask=mask)


@device_function
def copy(
    dest, source, dest_pe, source_pe, ctx, mask=None, other=None,
    cache_modifier: tl.constexpr = _NO_HINT, eviction_policy: tl.constexpr = _NO_HINT,
):  # fmt: skip
    """Copy the tile at ``source`` on ``source_pe`` to ``dest`` on ``dest_pe``.

    Example: ``shmem.copy(dest + offs, source + offs, right, shmem.my_pe(ctx), ctx)``
    Extension.
    """
    value = load_from(source, source_pe, COPY, ctx, mask, other)
    store_to(dest, value, dest_pe, COPY, ctx, mask, cache_modifier, eviction_policy)


# Atomics of Triton are for one GPU unless told otherwise: on a peer the scope has to be the system.
@device_function
def needs_atomics(pe, op: tl.constexpr, ctx):
    """Ends the program where the link to the GPU of ``pe``, which is a PE, has no native ones."""
    place = tl.cast(pe, tl.int64) & (MAX_PES - 1)
    by_owner = (state(ctx, BY_OWNER + (place >> 6)) >> (place & 63)) & 1
    if place.type.is_block():
        by_owner, place = tl.max(by_owner), tl.max(tl.where(by_owner != 0, place, -1))
    if by_owner != 0:
        end_with(FAULT_ATOMICS, op, place, 0, ctx)


@device_function
def before_release(sem: tl.constexpr):
    """Before Triton 3.9 a release covers only what its own thread has stored."""
    if releases(sem):
        program_barrier()


_BITWISE = {ATOMIC_AND.value: "and", ATOMIC_OR.value: "or", ATOMIC_XOR.value: "xor"}
#: By the host's names.
_ATOMICS = {**_BITWISE, ATOMIC_ADD.value: "add", ATOMIC_XCHG.value: "swap"}


@triton.constexpr_function
def has_atomic(dtype, op):
    """Refuses an atomic operation that a dtype does not have."""
    return has_bits(dtype, _BITWISE[op]) if op in _BITWISE else True


@triton.constexpr_function
def host_name(op):
    """What the host calls an atomic operation."""
    return _ATOMICS[op]


@device_function
def word_on_pe(pointer, mask, pe, op: tl.constexpr, sem: tl.constexpr, ctx):
    """``on_pe`` for an atomic operation, which comes next."""
    tl.static_assert(has_atomic(pointer.dtype.element_ty, op))
    check_tile(pointer, mask, op, ctx)
    remote = on_pe(pointer, pe, op, ctx)
    needs_atomics(pe, op, ctx)
    before_release(sem)
    return remote


@device_function
def fetch_here(place, value, op: tl.constexpr, mask, sem: tl.constexpr, scope: tl.constexpr):
    """Triton's own operation ``op`` on what loads and stores reach at ``place``; what was there."""
    if op == ATOMIC_ADD:
        return tl.atomic_add(place, value, mask=mask, sem=sem, scope=scope)
    elif op == ATOMIC_AND:
        return tl.atomic_and(place, value, mask=mask, sem=sem, scope=scope)
    elif op == ATOMIC_OR:
        return tl.atomic_or(place, value, mask=mask, sem=sem, scope=scope)
    elif op == ATOMIC_XOR:
        return tl.atomic_xor(place, value, mask=mask, sem=sem, scope=scope)
    elif op == ATOMIC_MIN:
        return tl.atomic_min(place, value, mask=mask, sem=sem, scope=scope)
    elif op == ATOMIC_MAX:
        return tl.atomic_max(place, value, mask=mask, sem=sem, scope=scope)
    else:
        return tl.atomic_xchg(place, value, mask=mask, sem=sem, scope=scope)


@device_function
def fetch_by_proxy(pointer, value, pe, op: tl.constexpr, ctx, mask, sem: tl.constexpr):
    """The same where the host does it; a minimum or maximum, which it has not, by compare-and-swap."""
    if (op == ATOMIC_MIN) | (op == ATOMIC_MAX):
        return extreme_by_proxy(pointer, value, pe, op == ATOMIC_MAX, op, ctx, mask, sem)
    else:
        return atomic_by_proxy(pointer, value, 0, pe, host_name(op), op, ctx, mask, sem)


@device_function
def _atomic(
    pointer, value, pe, op: tl.constexpr, ctx, mask, sem: tl.constexpr, scope: tl.constexpr
):
    """What the operations below are."""
    if all_p2p():
        return fetch_here(word_on_pe(pointer, mask, pe, op, sem, ctx), value, op, mask, sem, scope)
    else:
        return fetch_by_proxy(pointer, value, pe, op, ctx, mask, sem)


@device_function
def atomic_add(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Add to the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_add(counter, 1, right, ctx)``
    Spec: shmem_atomic_fetch_add.
    """
    return _atomic(pointer, value, pe, ATOMIC_ADD, ctx, mask, sem, scope)


@device_function
def atomic_sub(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Subtract from the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_sub(counter, 1, right, ctx)``
    Extension.
    """
    return atomic_add(pointer, -value, pe, ctx, mask, sem, scope)


@device_function
def atomic_and(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """And into the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_and(counter, 7, right, ctx)``
    Spec: shmem_atomic_fetch_and.
    """
    return _atomic(pointer, value, pe, ATOMIC_AND, ctx, mask, sem, scope)


@device_function
def atomic_or(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Or into the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_or(counter, 7, right, ctx)``
    Spec: shmem_atomic_fetch_or.
    """
    return _atomic(pointer, value, pe, ATOMIC_OR, ctx, mask, sem, scope)


@device_function
def atomic_xor(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Xor into the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_xor(counter, 7, right, ctx)``
    Spec: shmem_atomic_fetch_xor.
    """
    return _atomic(pointer, value, pe, ATOMIC_XOR, ctx, mask, sem, scope)


@device_function
def atomic_min(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Take the minimum into the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_min(counter, 7, right, ctx)``
    Extension.
    """
    return _atomic(pointer, value, pe, ATOMIC_MIN, ctx, mask, sem, scope)


@device_function
def atomic_max(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Take the maximum into the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_max(counter, 7, right, ctx)``
    Extension.
    """
    return _atomic(pointer, value, pe, ATOMIC_MAX, ctx, mask, sem, scope)


@device_function
def atomic_xchg(
    pointer, value, pe, ctx, mask=None, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Replace the elements at ``pointer`` on ``pe``; what they were.

    Example: ``before = shmem.atomic_xchg(counter, 7, right, ctx)``
    Spec: shmem_atomic_swap.
    """
    return _atomic(pointer, value, pe, ATOMIC_XCHG, ctx, mask, sem, scope)


@device_function
def like(pointer, value):
    """``value`` in the shape and the dtype of what is at ``pointer``, as compare-and-swap wants it."""
    value = tl.cast(value, pointer.dtype.element_ty)
    if pointer.type.is_block():
        value = tl.broadcast_to(value, pointer.shape)
    return value


@device_function
def atomic_cas(
    pointer, compare, value, pe, ctx, sem: tl.constexpr = _ACQ_REL, scope: tl.constexpr = _SYS
):  # fmt: skip
    """Replace the elements at ``pointer`` on ``pe`` that equal ``compare``; what they were.

    Example: ``before = shmem.atomic_cas(counter, 0, 1, right, ctx)``
    Spec: shmem_atomic_compare_swap.
    """
    if all_p2p():
        return tl.atomic_cas(
            word_on_pe(pointer, None, pe, ATOMIC_CAS, sem, ctx), like(pointer, compare),
            like(pointer, value), sem=sem, scope=scope,
        )  # fmt: skip
    else:
        return atomic_by_proxy(
            pointer, value, compare, pe, "compare_swap", ATOMIC_CAS, ctx, None, sem
        )
