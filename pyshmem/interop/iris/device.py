# SPDX-License-Identifier: BSD-3-Clause
"""What kernels call. ``heap_bases`` are the heaps' addresses as the calling PE reaches them.

Where the heaps are not reached by loads and stores (``PYSHMEM_P2P=0``) they are not looked at: kernels
are compiled for the running job. Unlike Iris, atomics are for the whole system unless told otherwise:
for a peer's memory the scope of one GPU is too small.
"""

import triton.language as tl

from ...triton.primitives.backend import device_function
from ...triton.primitives.by_proxy import (
    atomic_by_proxy,
    check_pe,
    load_by_proxy,
    store_by_proxy,
)
from ...triton.primitives.job_constants import all_p2p, checks, running_job
from ...triton.runtime.constants import (
    ATOMIC_ADD,
    ATOMIC_AND,
    ATOMIC_CAS,
    ATOMIC_MAX,
    ATOMIC_MIN,
    ATOMIC_OR,
    ATOMIC_XCHG,
    ATOMIC_XOR,
    COPY,
    GET,
    LOAD,
    PUT,
    STORE,
)
from ...triton.tile import (
    before_release,
    check_tile,
    fetch_by_proxy,
    fetch_here,
    has_atomic,
    like,
)

_ACQ_REL, _SYS, _NONE = tl.constexpr("acq_rel"), tl.constexpr("sys"), tl.constexpr("")


@device_function
def _translate(pointer, mask, op: tl.constexpr, here, there, heap_bases, hint: tl.constexpr = None):
    """``pointer`` of the PE ``here``, the caller, on the PE ``there``.

    Where places are checked, a rank that there is not and an element off the heap are faults; but the
    caller's own memory may be any, as in Iris.
    """
    tl.static_assert(has_atomic(pointer.dtype.element_ty, op))
    if checks():
        check_pe(there, op, running_job())
        if there != here:
            check_tile(pointer, mask, op, running_job())
    bits: tl.constexpr = pointer.dtype.element_ty.primitive_bitwidth
    per_unit: tl.constexpr = 256 if bits < 8 else 2048 // bits
    distance = tl.load(heap_bases + there).to(tl.int64) - tl.load(heap_bases + here).to(tl.int64)
    moved = pointer + (distance >> 8) * per_unit
    if hint is not None:
        moved = tl.max_contiguous(tl.multiple_of(moved, hint), hint)
    return moved


@device_function
def _load(
    pointer, here, there, heap_bases, op: tl.constexpr, mask, other, cache_modifier: tl.constexpr,
    volatile: tl.constexpr, hint: tl.constexpr,
):  # fmt: skip
    if all_p2p():
        return tl.load(
            _translate(pointer, mask, op, here, there, heap_bases, hint), mask=mask, other=other,
            cache_modifier=cache_modifier or "", volatile=volatile,
        )  # fmt: skip
    return load_by_proxy(pointer, there, op, running_job(), mask, other)


@device_function
def _store(
    pointer, value, here, there, heap_bases, op: tl.constexpr, mask, cache_modifier: tl.constexpr,
    hint: tl.constexpr,
):  # fmt: skip
    if all_p2p():
        remote = _translate(pointer, mask, op, here, there, heap_bases, hint)
        tl.store(remote, value, mask=mask, cache_modifier=cache_modifier or "")
    else:
        store_by_proxy(pointer, value, there, op, running_job(), mask)


@device_function
def load(
    pointer, to_rank, from_rank, heap_bases, mask=None, other=None,
    cache_modifier: tl.constexpr = _NONE, volatile: tl.constexpr = False, hint: tl.constexpr = None,
):  # fmt: skip
    """What ``from_rank`` keeps at ``pointer``; ``to_rank`` is the caller."""
    return _load(
        pointer, to_rank, from_rank, heap_bases, LOAD, mask, other, cache_modifier, volatile, hint
    )


@device_function
def store(
    pointer, value, from_rank, to_rank, heap_bases, mask=None, hint: tl.constexpr = None,
    cache_modifier: tl.constexpr = _NONE,
):  # fmt: skip
    """Store ``value`` at ``pointer`` on ``to_rank``; ``from_rank`` is the caller."""
    _store(pointer, value, from_rank, to_rank, heap_bases, STORE, mask, cache_modifier, hint)


@device_function
def get(
    from_ptr, to_ptr, from_rank, to_rank, heap_bases, mask=None, other=None,
    load_cache_modifier: tl.constexpr = _NONE, store_cache_modifier: tl.constexpr = _NONE,
    hint: tl.constexpr = None,
):  # fmt: skip
    """Copy what the other PE keeps at ``from_ptr`` to ``to_ptr`` here.

    As in Iris the address is moved by ``to_rank``'s base less ``from_rank``'s: the caller is
    ``from_rank``, and the data is ``to_rank``'s.
    """
    data = _load(
        from_ptr, from_rank, to_rank, heap_bases, GET, mask, other, load_cache_modifier, False, hint
    )
    tl.store(to_ptr, data, mask=mask, cache_modifier=store_cache_modifier or "")


@device_function
def put(
    from_ptr, to_ptr, from_rank, to_rank, heap_bases, mask=None, other=None,
    load_cache_modifier: tl.constexpr = _NONE, store_cache_modifier: tl.constexpr = _NONE,
    hint: tl.constexpr = None,
):  # fmt: skip
    """Copy what is at ``from_ptr`` here to ``to_ptr`` on ``to_rank``; ``from_rank`` is the caller."""
    data = tl.load(from_ptr, mask=mask, other=other, cache_modifier=load_cache_modifier or "")
    _store(to_ptr, data, from_rank, to_rank, heap_bases, PUT, mask, store_cache_modifier, hint)


@device_function
def copy(
    src_ptr, dst_ptr, from_rank, to_rank, cur_rank, heap_bases, mask=None, other=None,
    load_cache_modifier: tl.constexpr = _NONE, store_cache_modifier: tl.constexpr = _NONE,
    hint: tl.constexpr = None,
):  # fmt: skip
    """Copy what ``from_rank`` keeps at ``src_ptr`` to ``dst_ptr`` on ``to_rank``."""
    data = _load(
        src_ptr,
        cur_rank,
        from_rank,
        heap_bases,
        COPY,
        mask,
        other,
        load_cache_modifier,
        False,
        hint,
    )
    _store(dst_ptr, data, cur_rank, to_rank, heap_bases, COPY, mask, store_cache_modifier, hint)


@device_function
def _atomic(
    pointer, val, here, there, heap_bases, op: tl.constexpr, mask, sem: tl.constexpr,
    scope: tl.constexpr, hint: tl.constexpr,
):  # fmt: skip
    order: tl.constexpr = sem or "acq_rel"
    if all_p2p():
        before_release(order)
        remote = _translate(pointer, mask, op, here, there, heap_bases, hint)
        return fetch_here(remote, val, op, mask, order, scope or "sys")
    return fetch_by_proxy(pointer, val, there, op, running_job(), mask, order)


@device_function
def atomic_add(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Add to the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(pointer, val, from_rank, to_rank, heap_bases, ATOMIC_ADD, mask, sem, scope, hint)


@device_function
def atomic_sub(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Subtract from the elements at ``pointer`` on ``to_rank``; what they were."""
    return atomic_add(pointer, -val, from_rank, to_rank, heap_bases, mask, sem, scope, hint)


@device_function
def atomic_xchg(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Replace the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(
        pointer, val, from_rank, to_rank, heap_bases, ATOMIC_XCHG, mask, sem, scope, hint
    )


@device_function
def atomic_xor(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Xor into the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(pointer, val, from_rank, to_rank, heap_bases, ATOMIC_XOR, mask, sem, scope, hint)


@device_function
def atomic_and(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """And into the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(pointer, val, from_rank, to_rank, heap_bases, ATOMIC_AND, mask, sem, scope, hint)


@device_function
def atomic_or(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Or into the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(pointer, val, from_rank, to_rank, heap_bases, ATOMIC_OR, mask, sem, scope, hint)


@device_function
def atomic_min(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Take the minimum into the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(pointer, val, from_rank, to_rank, heap_bases, ATOMIC_MIN, mask, sem, scope, hint)


@device_function
def atomic_max(
    pointer, val, from_rank, to_rank, heap_bases, mask=None, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Take the maximum into the elements at ``pointer`` on ``to_rank``; what they were."""
    return _atomic(pointer, val, from_rank, to_rank, heap_bases, ATOMIC_MAX, mask, sem, scope, hint)


@device_function
def atomic_cas(
    pointer, cmp, val, from_rank, to_rank, heap_bases, sem: tl.constexpr = _ACQ_REL,
    scope: tl.constexpr = _SYS, hint: tl.constexpr = None,
):  # fmt: skip
    """Replace the elements at ``pointer`` on ``to_rank`` that equal ``cmp``; what they were."""
    if all_p2p():
        before_release(sem or "acq_rel")
        remote = _translate(pointer, None, ATOMIC_CAS, from_rank, to_rank, heap_bases, hint)
        return tl.atomic_cas(
            remote,
            like(pointer, cmp),
            like(pointer, val),
            sem=sem or "acq_rel",
            scope=scope or "sys",
        )
    return atomic_by_proxy(
        pointer,
        val,
        cmp,
        to_rank,
        "compare_swap",
        ATOMIC_CAS,
        running_job(),
        None,
        sem or "acq_rel",
    )
