# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking atomic memory operations: the fetched value arrives by ``quiet``.

``fetch`` is element 0 of a contiguous, writable local array of the dtype of ``dest``. It must not be
read or changed until ``quiet`` of the context; ``fence`` does not complete it. It is kept alive.
With ``stream=`` it is GPU memory, has the value when the stream gets there, and the caller keeps it.

All raise TypeError (dtype outside the routine's types, dtypes differ, value not a number of that
kind), OverflowError (value outside the dtype's range), ValueError (pe, layout, not symmetric),
NotInitialized, PeerDied and ShmemError.
"""

from __future__ import annotations

from typing import Any

from .._core.arrays.checks import StreamLike, place, stream_handle, target
from .._core.arrays.types import AnyArray
from .._core.dtypes import bits_of, pe_number, unsupported_dtype
from .._core.library import check, lib
from .._core.type_table import ATOMIC_FAMILY, ATOMIC_NUMBER, ELEMENTS
from .kernels.stream_kernels import run
from .teams.contexts import Context, context_of


def _start(
    op: str,
    fetch: AnyArray,
    dest: AnyArray,
    value: Any,
    pe: int,
    ctx: Context | None,
    cond: Any = 0,
    stream: StreamLike = None,
) -> None:
    changes = op != "fetch"
    address, kind = target(dest, "dest" if changes else "source", writable=changes)
    if kind.element < 0 or ATOMIC_FAMILY[op] not in ELEMENTS[kind.element].families:
        raise unsupported_dtype(f"atomic {op}", kind, ATOMIC_FAMILY[op])
    slot, capacity, fetched = place(fetch, "fetch", symmetric=False, writable=True)
    if fetched is not kind:
        raise TypeError(f"fetch has dtype {fetched.dtype}, dest has dtype {kind.dtype}")
    if not capacity:
        raise ValueError("fetch has no elements; its element 0 receives the value")
    context, pe = context_of(ctx), pe_number(pe)
    bits = bits_of(kind, value), bits_of(kind, cond, "cond")
    number = ATOMIC_NUMBER[op]
    if stream is not None:
        where = *bits, pe, slot, stream_handle(stream)
        call = lib.ishmemx_atomic_on_stream
        run(call, context.handle, number, kind.element, address, *where)
        return
    check(lib.ishmemx_atomic_nbi(context.handle, number, kind.element, slot, address, *bits, pe))
    context.keep(fetch, pe)


def atomic_fetch_nbi(
    fetch: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start reading element 0 of ``source`` on ``pe``.

    Args:
        fetch: local array; element 0 receives the value from before.
        source: symmetric array of int32, int64, uint32, uint64, float32 or float64; its
            element 0 is the target.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_fetch_nbi (OpenSHMEM 1.5).
    """
    _start("fetch", fetch, source, 0, pe, ctx, stream=stream)


def atomic_swap_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    value: Any,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start writing ``value`` and fetching what was there.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32, uint64, float32 or float64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_swap_nbi (OpenSHMEM 1.5).
    """
    _start("swap", fetch, dest, value, pe, ctx, stream=stream)


def atomic_compare_swap_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    cond: int,
    value: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start writing ``value`` if ``cond`` is there, and fetching what was there.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32 or uint64; its
            element 0 is the target.
        cond: what the element must be for the write to happen.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_compare_swap_nbi (OpenSHMEM 1.5).
    """
    _start("compare_swap", fetch, dest, value, pe, ctx, cond, stream=stream)


def atomic_fetch_inc_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start adding 1 and fetching what was there.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32, uint64, and, as an
            extension, float32 or float64; its element 0 is the target.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_fetch_inc_nbi (OpenSHMEM 1.5).
    """
    _start("add", fetch, dest, 1, pe, ctx, stream=stream)


def atomic_fetch_add_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    value: Any,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start adding ``value`` and fetching what was there; integers wrap around.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32, uint64, and, as an
            extension, float32 or float64; its element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_fetch_add_nbi (OpenSHMEM 1.5).
    """
    _start("add", fetch, dest, value, pe, ctx, stream=stream)


def atomic_fetch_and_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    value: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start a bitwise and with ``value`` and fetching what was there.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32 or uint64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_fetch_and_nbi (OpenSHMEM 1.5).
    """
    _start("and", fetch, dest, value, pe, ctx, stream=stream)


def atomic_fetch_or_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    value: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start a bitwise or with ``value`` and fetching what was there.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32 or uint64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_fetch_or_nbi (OpenSHMEM 1.5).
    """
    _start("or", fetch, dest, value, pe, ctx, stream=stream)


def atomic_fetch_xor_nbi(
    fetch: AnyArray,
    dest: AnyArray,
    value: int,
    pe: int,
    *,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Start a bitwise exclusive or with ``value`` and fetching what was there.

    Args:
        fetch: local array; element 0 receives the value from before.
        dest: symmetric array of int32, int64, uint32 or uint64; its
            element 0 is the target.
        value: within the dtype's range.
        pe: target PE, ``0 <= pe < n_pes()``.
        ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
    Raises: see the module.
    Spec: shmem_atomic_fetch_xor_nbi (OpenSHMEM 1.5).
    """
    _start("xor", fetch, dest, value, pe, ctx, stream=stream)
