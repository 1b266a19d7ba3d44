# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory access: put, get, their non-blocking forms, p and g."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from .._core.arrays.checks import StreamLike, pair, stream_handle, target
from .._core.arrays.types import AnyArray
from .._core.dtypes import out_of_range, pe_number
from .._core.errors import UnsupportedError
from .._core.library import check, check_value, fail, fail_transfer, lib
from .fast_calls import fast
from .kernels.stream_kernels import run
from .teams.contexts import Context, context_of, handle_of

_put, _get = lib.ishmemx_put, lib.ishmemx_get
_PUT, _GET = ("source", "dest"), ("dest", "source")
_PUT_CALL, _GET_CALL, _PUT_NBI_CALL, _GET_NBI_CALL = range(4)  # of native/python/rma.c


@fast("copy", _PUT_CALL)
def put(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy ``source`` into ``dest`` on ``pe``.

    Args:
        dest: symmetric array, contiguous, at least ``nelems`` elements.
        source: local array of the same dtype: NumPy, CuPy, or anything with an array interface or
            DLPack. Outside the heap, the stream that fills it is waited for.
        pe: target PE, ``0 <= pe < n_pes()``.
        nelems: elements to copy, not bytes; default ``source.size``.
        ctx: context that orders and completes the copy; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: locally on return (``source`` may be changed); at ``pe`` by ``quiet``. With
        ``stream``: both when the stream gets there.
    Raises: TypeError (dtypes differ, not an array), ValueError (pe, nelems, layout, not symmetric),
        NotInitialized, PeerDied, ShmemError.
    Example: ``pyshmem.put(dest, source, right)``
    Spec: shmem_put (OpenSHMEM 1.5).
    """
    source_address, dest_address, nbytes = pair(source, dest, nelems, _PUT, "source")
    if stream is not None:
        where = dest_address, source_address, nbytes, pe_number(pe), stream_handle(stream)
        run(lib.ishmemx_put_on_stream, handle_of(ctx), *where)
        return
    status = _put(handle_of(ctx), dest_address, source_address, nbytes, pe_number(pe))
    if status:
        fail_transfer(status, source)


@fast("copy", _GET_CALL)
def get(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy ``source`` on ``pe`` into ``dest``.

    Args:
        dest: local array, contiguous and writable, of the dtype of ``source``.
        source: symmetric array, contiguous, at least ``nelems`` elements.
        pe: PE to read from, ``0 <= pe < n_pes()``.
        nelems: elements to copy, not bytes; default ``dest.size``.
        ctx: context; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: on return. With ``stream``: when the stream gets there.
    Raises: TypeError (dtypes differ, not an array), ValueError (pe, nelems, layout, not symmetric),
        NotInitialized, PeerDied, ShmemError.
    Example: ``pyshmem.get(dest, source, right)``
    Spec: shmem_get (OpenSHMEM 1.5).
    """
    dest_address, source_address, nbytes = pair(dest, source, nelems, _GET, "dest")
    if stream is not None:
        where = dest_address, source_address, nbytes, pe_number(pe), stream_handle(stream)
        run(lib.ishmemx_get_on_stream, handle_of(ctx), *where)
        return
    status = _get(handle_of(ctx), dest_address, source_address, nbytes, pe_number(pe))
    if status:
        fail_transfer(status, dest)


@fast("copy", _PUT_NBI_CALL)
def put_nbi(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start copying ``source`` into ``dest`` on ``pe``.

    Args:
        dest: symmetric array, contiguous, at least ``nelems`` elements.
        source: local array of the same dtype; leave it unchanged until ``quiet``. It is kept alive.
        pe: target PE, ``0 <= pe < n_pes()``.
        nelems: elements to copy, not bytes; default ``source.size``.
        ctx: context that orders and completes the copy; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; here and at ``pe`` by ``quiet``.
    Raises: as ``put``.
    Example: ``pyshmem.put_nbi(dest, source, right); pyshmem.quiet()``
    Spec: shmem_put_nbi (OpenSHMEM 1.5).
    """
    if stream is not None:
        put(dest, source, pe, nelems=nelems, ctx=ctx, stream=stream)
        return
    source_address, dest_address, nbytes = pair(source, dest, nelems, _PUT, "source")
    context, pe = context_of(ctx), pe_number(pe)
    status = lib.ishmemx_put_nbi(context.handle, dest_address, source_address, nbytes, pe)
    if status:
        fail_transfer(status, source)
    context.keep(source, pe, nbytes)


@fast("copy", _GET_NBI_CALL)
def get_nbi(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start copying ``source`` on ``pe`` into ``dest``.

    Args:
        dest: local array, contiguous and writable; do not use it until ``quiet``. It is kept alive.
        source: symmetric array of the same dtype, contiguous, at least ``nelems`` elements.
        pe: PE to read from, ``0 <= pe < n_pes()``.
        nelems: elements to copy, not bytes; default ``dest.size``.
        ctx: context that completes the copy; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; by ``quiet``.
    Raises: as ``get``.
    Example: ``pyshmem.get_nbi(dest, source, right); pyshmem.quiet()``
    Spec: shmem_get_nbi (OpenSHMEM 1.5).
    """
    if stream is not None:
        get(dest, source, pe, nelems=nelems, ctx=ctx, stream=stream)
        return
    dest_address, source_address, nbytes = pair(dest, source, nelems, _GET, "dest")
    context, pe = context_of(ctx), pe_number(pe)
    status = lib.ishmemx_get_nbi(context.handle, dest_address, source_address, nbytes, pe)
    if status:
        fail_transfer(status, dest)
    context.keep(dest, pe)


@fast("p")
def p(
    dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Store one value into element 0 of ``dest`` on ``pe``.

    Args:
        dest: symmetric array, contiguous, of any dtype.
        value: a scalar that the dtype can hold.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the store; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``.
    Raises: TypeError and OverflowError (value), ValueError (pe, not symmetric), NotInitialized,
        PeerDied, ShmemError.
    Example: ``pyshmem.p(dest, 7, right)``
    Spec: shmem_p (OpenSHMEM 1.5).
    """
    address, kind = target(dest, "dest", writable=True)
    handle, pe = handle_of(ctx), pe_number(pe)
    if kind.p is None or stream is not None:
        one = kind.one(value, "value")
        if stream is not None:
            _p_on_stream(handle, address, one, pe, stream)
            return
        status = _put(handle, address, one.ctypes.data, kind.dtype.itemsize, pe)
    else:
        if type(value) is not kind.plain:
            value = kind.scalar(value, "value")
        try:
            status = kind.p(handle, address, value, pe)
        except OverflowError:
            raise out_of_range(kind, value) from None
    if status:
        fail(status)


@fast("g")
def g(source: AnyArray, pe: int, *, ctx: Context | None = None) -> Any:
    """Element 0 of ``source`` on ``pe``.

    Args:
        source: symmetric array, contiguous, of any dtype.
        pe: PE to read from, ``0 <= pe < n_pes()``.
        ctx: context; default ``CTX_DEFAULT``.

    Returns:
        A Python int, float, bool or complex; for other dtypes a NumPy scalar.

    Completes: on return.
    Raises: ValueError (pe, not symmetric), NotInitialized, PeerDied, ShmemError.
    Example: ``value = pyshmem.g(dest[2:3], right)``
    Spec: shmem_g (OpenSHMEM 1.5).
    """
    address, kind = target(source, "source", writable=False)
    handle, pe = handle_of(ctx), pe_number(pe)
    if kind.g is None:
        one = np.empty((), kind.dtype)
        check(_get(handle, one.ctypes.data, address, kind.dtype.itemsize, pe))
        return one.item() if kind.dtype.kind in "biufc" else one[()]
    value = kind.g(handle, address, pe)
    if value == kind.failed:
        check_value()
    return value


def _p_on_stream(handle: int, address: int, one: np.ndarray, pe: int, stream: StreamLike) -> None:
    if one.itemsize not in (1, 2, 4, 8, 16):
        raise UnsupportedError(
            f"p on a stream stores 1, 2, 4, 8 or 16 bytes, dtype {one.dtype} has {one.itemsize}: use put"
        )
    where = address, one.ctypes.data, one.itemsize, pe, stream_handle(stream)
    run(lib.ishmemx_p_on_stream, handle, *where)
