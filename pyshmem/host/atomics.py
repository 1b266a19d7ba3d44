# SPDX-License-Identifier: BSD-3-Clause
"""Atomic memory operations on element 0 of a symmetric array of any PE.

They are atomic against each other, from hosts and kernels alike, and against ``wait_until`` and
``test``; not against puts and plain stores. The forms that fetch are complete on return; the others
by ``quiet``.

All raise TypeError (dtype outside the routine's types, value not a number of that kind),
OverflowError (value outside the dtype's range), ValueError (pe, not symmetric), NotInitialized,
PeerDied and ShmemError.
"""

from __future__ import annotations

from typing import Any

from .._core.arrays import target
from .._core.dtypes import out_of_range, unsupported_dtype
from .._core.library import check_value, fail
from .._core.type_table import ATOMIC_OPS
from .contexts import CTX_DEFAULT, Context
from .fast_calls import fast

_DEFAULT = CTX_DEFAULT.handle
_OP = {name: number for number, name in enumerate(ATOMIC_OPS)}
_FETCH, _SET, _SWAP = _OP["fetch"], _OP["set"], _OP["swap"]
_COMPARE_SWAP = _OP["compare_swap"]
_ADD, _AND, _OR, _XOR = _OP["add"], _OP["and"], _OP["or"], _OP["xor"]


def _change(op: int, dest: Any, value: Any, pe: int, ctx: Context | None) -> None:
    """An operation that fetches nothing."""
    address, kind = target(dest, "dest")
    if kind.atomic is None:
        raise unsupported_dtype(f"atomic {ATOMIC_OPS[op]}", kind, _family(op))
    if type(value) is not kind.native:
        value = kind.scalar(value, "value")
    handle = _DEFAULT if ctx is None else ctx.handle
    try:
        status = kind.atomic(handle, op, address, value, pe)
    except OverflowError:
        raise out_of_range(kind, pe, value) from None
    if status:
        fail(status)


def _fetch(op: int, dest: Any, value: Any, pe: int, ctx: Context | None) -> Any:
    """An operation that returns the value from before."""
    address, kind = target(dest, "dest")
    if kind.atomic_fetch is None:
        raise unsupported_dtype(f"atomic {ATOMIC_OPS[op]}", kind, _family(op))
    if type(value) is not kind.native:
        value = kind.scalar(value, "value")
    handle = _DEFAULT if ctx is None else ctx.handle
    try:
        old = kind.atomic_fetch(handle, op, address, value, pe)
    except OverflowError:
        raise out_of_range(kind, pe, value) from None
    if old == kind.failed:
        check_value()
    return old


def _family(op: int) -> str:
    """The letter of the operation's types in type_table.FAMILIES."""
    return "x" if op in (_FETCH, _SET, _SWAP, _ADD) else "b"


@fast("read", _FETCH)
def atomic_fetch(source: Any, pe: int, *, ctx: Context | None = None) -> Any:
    """Read element 0 of ``source`` on ``pe``.

    Args:
        source: symmetric array of int32, int64, uint32, uint64, float32 or float64; its
            element 0 is the target.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value, a Python int or float.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_fetch (OpenSHMEM 1.5).
    """
    return _fetch(_FETCH, source, 0, pe, ctx)


@fast("change", _SET)
def atomic_set(dest: Any, value: Any, pe: int, *, ctx: Context | None = None) -> None:
    """Write ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, float32 or float64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_set (OpenSHMEM 1.5).
    """
    _change(_SET, dest, value, pe, ctx)


@fast("fetch", _SWAP)
def atomic_swap(dest: Any, value: Any, pe: int, *, ctx: Context | None = None) -> Any:
    """Write ``value`` and return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, float32 or float64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int or float.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_swap (OpenSHMEM 1.5).
    """
    return _fetch(_SWAP, dest, value, pe, ctx)


@fast("compare_swap", _COMPARE_SWAP)
def atomic_compare_swap(
    dest: Any, cond: int, value: int, pe: int, *, ctx: Context | None = None
) -> Any:
    """Write ``value`` if ``cond`` is there; return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        cond: what the element must be for the write to happen.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_compare_swap (OpenSHMEM 1.5).
    """
    address, kind = target(dest, "dest")
    if kind.compare_swap is None:
        raise unsupported_dtype("atomic compare_swap", kind, "a")
    cond, value = kind.scalar(cond, "cond"), kind.scalar(value, "value")
    handle = _DEFAULT if ctx is None else ctx.handle
    try:
        old = kind.compare_swap(handle, address, cond, value, pe)
    except OverflowError:
        raise out_of_range(kind, pe, cond, value) from None
    if old == kind.failed:
        check_value()
    return int(old)


@fast("touch", _ADD)
def atomic_inc(dest: Any, pe: int, *, ctx: Context | None = None) -> None:
    """Add 1.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, and, as an extension, float32 or
            float64; its element 0 is the target.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_inc (OpenSHMEM 1.5).
    """
    _change(_ADD, dest, 1, pe, ctx)


@fast("read", _ADD)
def atomic_fetch_inc(dest: Any, pe: int, *, ctx: Context | None = None) -> Any:
    """Add 1 and return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, and, as an extension, float32 or
            float64; its element 0 is the target.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int or float.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_fetch_inc (OpenSHMEM 1.5).
    """
    return _fetch(_ADD, dest, 1, pe, ctx)


@fast("change", _ADD)
def atomic_add(dest: Any, value: Any, pe: int, *, ctx: Context | None = None) -> None:
    """Add ``value``; integers wrap around.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, and, as an extension, float32 or
            float64; its element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_add (OpenSHMEM 1.5).
    """
    _change(_ADD, dest, value, pe, ctx)


@fast("fetch", _ADD)
def atomic_fetch_add(dest: Any, value: Any, pe: int, *, ctx: Context | None = None) -> Any:
    """Add ``value``, integers wrap around; return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, and, as an extension, float32 or
            float64; its element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int or float.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_fetch_add (OpenSHMEM 1.5).
    """
    return _fetch(_ADD, dest, value, pe, ctx)


@fast("change", _AND)
def atomic_and(dest: Any, value: int, pe: int, *, ctx: Context | None = None) -> None:
    """Bitwise and with ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_and (OpenSHMEM 1.5).
    """
    _change(_AND, dest, value, pe, ctx)


@fast("fetch", _AND)
def atomic_fetch_and(dest: Any, value: int, pe: int, *, ctx: Context | None = None) -> Any:
    """Bitwise and with ``value``; return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_fetch_and (OpenSHMEM 1.5).
    """
    return _fetch(_AND, dest, value, pe, ctx)


@fast("change", _OR)
def atomic_or(dest: Any, value: int, pe: int, *, ctx: Context | None = None) -> None:
    """Bitwise or with ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_or (OpenSHMEM 1.5).
    """
    _change(_OR, dest, value, pe, ctx)


@fast("fetch", _OR)
def atomic_fetch_or(dest: Any, value: int, pe: int, *, ctx: Context | None = None) -> Any:
    """Bitwise or with ``value``; return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_fetch_or (OpenSHMEM 1.5).
    """
    return _fetch(_OR, dest, value, pe, ctx)


@fast("change", _XOR)
def atomic_xor(dest: Any, value: int, pe: int, *, ctx: Context | None = None) -> None:
    """Bitwise exclusive or with ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_xor (OpenSHMEM 1.5).
    """
    _change(_XOR, dest, value, pe, ctx)


@fast("fetch", _XOR)
def atomic_fetch_xor(dest: Any, value: int, pe: int, *, ctx: Context | None = None) -> Any:
    """Bitwise exclusive or with ``value``; return what was there.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.

    Returns:
        The value from before, a Python int.

    Completes: on return.
    Raises: see the module.
    Spec: shmem_atomic_fetch_xor (OpenSHMEM 1.5).
    """
    return _fetch(_XOR, dest, value, pe, ctx)
