# SPDX-License-Identifier: BSD-3-Clause
"""Atomic memory operations on element 0 of a symmetric array of any PE.

They are atomic against each other, from hosts and kernels alike, and against ``wait_until`` and
``test``; not against puts and plain stores. The forms that fetch are complete on return; the others
by ``quiet``. With ``stream=`` an operation is done when the stream gets there; for forms that fetch on a
stream see ``atomics_nbi``.

All raise TypeError (dtype outside the routine's types, value not a number of that kind),
OverflowError (value outside the dtype's range), ValueError (pe, not symmetric), NotInitialized,
PeerDied and ShmemError.
"""

from __future__ import annotations

from typing import Any

from .._core.arrays.checks import StreamLike, stream_handle, target
from .._core.arrays.types import AnyArray
from .._core.dtypes import bits_of, out_of_range, pe_number, unsupported_dtype
from .._core.library import check_value, fail, lib
from .._core.type_table import ATOMIC_FAMILY
from .._core.type_table import ATOMIC_NUMBER as _OP
from .fast_calls import fast
from .kernels.stream_kernels import run
from .teams.contexts import Context, handle_of


def _change(
    op: str, dest: AnyArray, value: Any, pe: int, ctx: Context | None, stream: StreamLike
) -> None:
    """An operation that fetches nothing."""
    address, kind = target(dest, "dest", writable=True)
    if kind.atomic is None:
        raise unsupported_dtype(f"atomic {op}", kind, ATOMIC_FAMILY[op])
    if stream is not None:
        what = _OP[op], kind.element, address, bits_of(kind, value), 0, pe_number(pe), 0
        run(lib.ishmemx_atomic_on_stream, handle_of(ctx), *what, stream_handle(stream))
        return
    if type(value) is not kind.plain:
        value = kind.scalar(value, "value")
    handle, pe = handle_of(ctx), pe_number(pe)
    try:
        status = kind.atomic(handle, _OP[op], address, value, pe)
    except OverflowError:
        raise out_of_range(kind, value) from None
    if status:
        fail(status)


def _fetch(op: str, dest: AnyArray, value: Any, pe: int, ctx: Context | None) -> Any:
    """An operation that returns the value from before."""
    changes = op != "fetch"
    address, kind = target(dest, "dest" if changes else "source", writable=changes)
    if kind.atomic_fetch is None:
        raise unsupported_dtype(f"atomic {op}", kind, ATOMIC_FAMILY[op])
    if type(value) is not kind.plain:
        value = kind.scalar(value, "value")
    handle, pe = handle_of(ctx), pe_number(pe)
    try:
        old = kind.atomic_fetch(handle, _OP[op], address, value, pe)
    except OverflowError:
        raise out_of_range(kind, value) from None
    if old == kind.failed:
        check_value()
    return old


@fast("read", _OP["fetch"])
def atomic_fetch(source: AnyArray, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("fetch", source, 0, pe, ctx)


@fast("change", _OP["set"])
def atomic_set(
    dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Write ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, float32 or float64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_set (OpenSHMEM 1.5).
    """
    _change("set", dest, value, pe, ctx, stream)


@fast("fetch", _OP["swap"])
def atomic_swap(dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("swap", dest, value, pe, ctx)


@fast("compare_swap", _OP["compare_swap"])
def atomic_compare_swap(
    dest: AnyArray, cond: int, value: int, pe: int, *, ctx: Context | None = None
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
    address, kind = target(dest, "dest", writable=True)
    if kind.compare_swap is None:
        raise unsupported_dtype("atomic compare_swap", kind, ATOMIC_FAMILY["compare_swap"])
    cond, value = kind.scalar(cond, "cond"), kind.scalar(value, "value")
    handle, pe = handle_of(ctx), pe_number(pe)
    try:
        old = kind.compare_swap(handle, address, cond, value, pe)
    except OverflowError:
        raise out_of_range(kind, cond, value) from None
    if old == kind.failed:
        check_value()
    return int(old)


@fast("touch", _OP["add"])
def atomic_inc(
    dest: AnyArray, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Add 1.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, and, as an extension, float32 or
            float64; its element 0 is the target.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_inc (OpenSHMEM 1.5).
    """
    _change("add", dest, 1, pe, ctx, stream)


@fast("read", _OP["add"])
def atomic_fetch_inc(dest: AnyArray, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("add", dest, 1, pe, ctx)


@fast("change", _OP["add"])
def atomic_add(
    dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Add ``value``; integers wrap around.

    Args:
        dest: symmetric array of int32, int64, uint32, uint64, and, as an extension, float32 or
            float64; its element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_add (OpenSHMEM 1.5).
    """
    _change("add", dest, value, pe, ctx, stream)


@fast("fetch", _OP["add"])
def atomic_fetch_add(dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("add", dest, value, pe, ctx)


@fast("change", _OP["and"])
def atomic_and(
    dest: AnyArray, value: int, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Bitwise and with ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_and (OpenSHMEM 1.5).
    """
    _change("and", dest, value, pe, ctx, stream)


@fast("fetch", _OP["and"])
def atomic_fetch_and(dest: AnyArray, value: int, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("and", dest, value, pe, ctx)


@fast("change", _OP["or"])
def atomic_or(
    dest: AnyArray, value: int, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Bitwise or with ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_or (OpenSHMEM 1.5).
    """
    _change("or", dest, value, pe, ctx, stream)


@fast("fetch", _OP["or"])
def atomic_fetch_or(dest: AnyArray, value: int, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("or", dest, value, pe, ctx)


@fast("change", _OP["xor"])
def atomic_xor(
    dest: AnyArray, value: int, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Bitwise exclusive or with ``value``.

    Args:
        dest: symmetric array of int32, int64, uint32 or uint64; element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_xor (OpenSHMEM 1.5).
    """
    _change("xor", dest, value, pe, ctx, stream)


@fast("fetch", _OP["xor"])
def atomic_fetch_xor(dest: AnyArray, value: int, pe: int, *, ctx: Context | None = None) -> Any:
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
    return _fetch("xor", dest, value, pe, ctx)
