# SPDX-License-Identifier: BSD-3-Clause
"""Signals: data and a flag in one operation, and waiting for the flag.

A signal word is element 0 of a symmetric uint64 array (``new_signal``).
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from .._core.arrays.checks import StreamLike, pair, signal_target, stream_handle
from .._core.arrays.types import AnyArray
from .._core.dtypes import integer, pe_number
from .._core.library import check, check_value, fail_transfer, lib
from .._core.values import SIGNAL_ADD, SIGNAL_SET
from .fast_calls import fast
from .kernels.stream_kernels import run, wait_on_stream
from .teams.contexts import Context, context_of, handle_of

_NAMES = ("source", "dest")
_PUT_SIGNAL_CALL, _PUT_SIGNAL_NBI_CALL = 4, 5  # of native/python/rma.c


def _change(signal: Any, sig_op: Any, pe: Any) -> tuple[int, int, int]:
    """What is done to a signal word, and on which PE."""
    return integer("signal", signal, np.uint64), integer("sig_op", sig_op), pe_number(pe)


@fast("put_signal", _PUT_SIGNAL_CALL)
def put_signal(
    dest: AnyArray,
    source: AnyArray,
    sig_addr: AnyArray,
    signal: int,
    sig_op: int,
    pe: int,
    *,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy ``source`` into ``dest`` on ``pe``, then change the signal word there.

    Args:
        dest: symmetric array, contiguous, at least ``nelems`` elements.
        source: local array of the same dtype.
        sig_addr: symmetric uint64 array; element 0 is the signal word. Not part of ``dest``.
        signal: value the signal word is set to or increased by, ``0 <= signal < 2**64``.
        sig_op: ``SIGNAL_SET`` or ``SIGNAL_ADD``.
        pe: target PE, ``0 <= pe < n_pes()``.
        nelems: elements to copy, not bytes; default ``source.size``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: locally on return; whoever sees the signal on ``pe`` sees the data.
    Raises: TypeError (dtypes, signal not uint64), ValueError (pe, nelems, sig_op, layout),
        OverflowError (signal), NotInitialized, PeerDied, ShmemError.
    Example: ``pyshmem.put_signal(dest, source, sig, 1, pyshmem.SIGNAL_SET, right)``
    Spec: shmem_put_signal (OpenSHMEM 1.5).
    """
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES, "source")
    word = signal_target(sig_addr, writable=True)
    where = dest_address, source_address, nbytes, word, *_change(signal, sig_op, pe)
    if stream is not None:
        call = lib.ishmemx_put_signal_on_stream
        run(call, handle_of(ctx), *where, stream_handle(stream))
        return
    status = lib.ishmemx_put_signal(handle_of(ctx), *where)
    if status:
        fail_transfer(status, source)


@fast("put_signal", _PUT_SIGNAL_NBI_CALL)
def put_signal_nbi(
    dest: AnyArray,
    source: AnyArray,
    sig_addr: AnyArray,
    signal: int,
    sig_op: int,
    pe: int,
    *,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start copying ``source`` into ``dest`` on ``pe``; the signal word there changes after it.

    Args:
        dest: symmetric array, contiguous, at least ``nelems`` elements.
        source: local array of the same dtype; leave it unchanged until ``quiet``. It is kept alive.
        sig_addr: symmetric uint64 array; element 0 is the signal word. Not part of ``dest``.
        signal: value the signal word is set to or increased by, ``0 <= signal < 2**64``.
        sig_op: ``SIGNAL_SET`` or ``SIGNAL_ADD``.
        pe: target PE, ``0 <= pe < n_pes()``.
        nelems: elements to copy, not bytes; default ``source.size``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; by ``quiet``. Whoever sees the signal on ``pe`` sees the data.
    Raises: as ``put_signal``.
    Example: ``pyshmem.put_signal_nbi(dest, source, sig, 1, pyshmem.SIGNAL_ADD, right)``
    Spec: shmem_put_signal_nbi (OpenSHMEM 1.5).
    """
    if stream is not None:
        put_signal(
            dest, source, sig_addr, signal, sig_op, pe, nelems=nelems, ctx=ctx, stream=stream
        )
        return
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES, "source")
    word = signal_target(sig_addr, writable=True)
    context, change = context_of(ctx), _change(signal, sig_op, pe)
    status = lib.ishmemx_put_signal_nbi(
        context.handle, dest_address, source_address, nbytes, word, *change
    )
    if status:
        fail_transfer(status, source)
    context.keep(source, change[-1], nbytes)


@fast("signal_op")
def signal_op(
    sig_addr: AnyArray,
    signal: int,
    sig_op: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Change the signal word on ``pe`` without data.

    Args:
        sig_addr: symmetric uint64 array; element 0 is the signal word.
        signal: value it is set to or increased by, ``0 <= signal < 2**64``.
        sig_op: ``SIGNAL_SET`` or ``SIGNAL_ADD``.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: at ``pe`` by ``quiet``. Not ordered after earlier puts: put a ``fence`` between, or
        use ``put_signal``.
    Raises: TypeError (not uint64), ValueError (pe, sig_op, not symmetric), OverflowError (signal),
        NotInitialized, PeerDied, ShmemError.
    Example: ``pyshmem.signal_op(sig, 1, pyshmem.SIGNAL_ADD, right)``
    Spec: shmem_signal_set and shmem_signal_add (OpenSHMEM 1.6) in one.
    """
    where = signal_target(sig_addr, writable=True), *_change(signal, sig_op, pe)
    if stream is not None:
        call = lib.ishmemx_signal_op_on_stream
        run(call, handle_of(ctx), *where, stream_handle(stream))
        return
    check(lib.ishmemx_signal_op(handle_of(ctx), *where))


@fast("signal", SIGNAL_SET)
def signal_set(
    sig_addr: AnyArray,
    signal: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Set the signal word on ``pe``: ``signal_op`` with ``SIGNAL_SET``.

    Example: ``pyshmem.signal_set(sig, 1, right)``
    Spec: shmem_signal_set (OpenSHMEM 1.6).
    """
    signal_op(sig_addr, signal, SIGNAL_SET, pe, ctx=ctx, stream=stream)


@fast("signal", SIGNAL_ADD)
def signal_add(
    sig_addr: AnyArray,
    signal: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Increase the signal word on ``pe``: ``signal_op`` with ``SIGNAL_ADD``.

    Example: ``pyshmem.signal_add(sig, 1, right)``
    Spec: shmem_signal_add (OpenSHMEM 1.6).
    """
    signal_op(sig_addr, signal, SIGNAL_ADD, pe, ctx=ctx, stream=stream)


@fast("signal_fetch")
def signal_fetch(sig_addr: AnyArray) -> int:
    """The value of this PE's signal word.

    Args:
        sig_addr: symmetric uint64 array; element 0 is the signal word.

    Completes: on return.
    Raises: TypeError (not uint64), ValueError (not symmetric), NotInitialized, ShmemError.
    Example: ``seen = pyshmem.signal_fetch(sig)``
    Spec: shmem_signal_fetch (OpenSHMEM 1.5).
    """
    value: int = lib.signal_fetch(signal_target(sig_addr, writable=False))
    if value == lib.failed_signal:
        check_value()
    return value


@fast("signal_wait")
def signal_wait_until(
    sig_addr: AnyArray, cmp: int, cmp_value: int, *, stream: StreamLike = None
) -> Any:
    """Wait until this PE's signal word compares with ``cmp_value``.

    Args:
        sig_addr: symmetric uint64 array; element 0 is the signal word.
        cmp: ``CMP_EQ``, ``CMP_NE``, ``CMP_GT``, ``CMP_GE``, ``CMP_LT`` or ``CMP_LE``.
        cmp_value: right-hand side, ``0 <= cmp_value < 2**64``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Returns:
        The value that satisfied the comparison, an int; with ``stream`` None.

    Completes: data that came with the signal may be read on return.
    Raises: ShmemTimeout, PeerDied, TypeError (not uint64), ValueError (cmp, not symmetric),
        OverflowError (cmp_value), NotInitialized, ShmemError.
    Example: ``pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, 0)``
    Spec: shmem_signal_wait_until (OpenSHMEM 1.5).
    """
    word = signal_target(sig_addr, writable=False)
    how, right = integer("cmp", cmp), integer("cmp_value", cmp_value, np.uint64)
    if stream is not None:
        return wait_on_stream("uint64", word, how, right, stream)
    value: int = lib.signal_wait_until(word, how, right)
    if value == lib.failed_signal:
        check_value()
    return value
