# SPDX-License-Identifier: BSD-3-Clause
"""The proxy, this PE's thread that serves what kernels ask of the host: its figures, its handlers.

Extension. Kernels reach it through the ring; ``docs/ring.md`` tells how.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from .._core.contract import REQUEST_OP
from .._core.dtypes import integer
from .._core.library import check, ffi, lib
from .teams.contexts import CTX_DEFAULT

#: What a request can ask for; the position is its number.
OPERATIONS = ("unknown", *(name.lower() for name in REQUEST_OP.names() if name != "COUNT"))


class OperationStats(NamedTuple):
    """What the proxy did for one operation.

    Attributes:
        requests: requests served.
        bytes: bytes they asked to move; 0 for operations that move none, and for strided ones.
        seconds: time in their handlers, without that of copy engines; 0 for those not timed
            (null, amo, p, g, print, abort, waiting): reading the clock would cost more than the work.
    """

    requests: int
    bytes: int
    seconds: float


class ProxyStats(NamedTuple):
    """Figures of all rings of this PE since ``init``.

    Attributes:
        operations: by name, those with at least one request.
        rings: number of rings; 0 without a device heap.
        credits: how often a proxy told the kernels that slots are free again.
        stalls: how often a proxy found its ring full to the last slot.
        quiets: quiets it completed; those with nothing to wait for never reach it.
        am_messages: active messages of this PE to others out of reach, host calls' too; not its answers.
        am_bytes: bytes of data in those messages, and in answers to gets.
    """

    operations: dict[str, OperationStats]
    rings: int
    credits: int
    stalls: int
    quiets: int
    am_messages: int
    am_bytes: int

    @property
    def requests(self) -> int:
        """Requests of all operations."""
        return sum(row.requests for row in self.operations.values())

    @property
    def far_messages(self) -> int:
        """``am_messages`` under its former name."""
        warnings.warn("far_messages is am_messages now", DeprecationWarning, stacklevel=2)
        return self.am_messages

    @property
    def far_bytes(self) -> int:
        """``am_bytes`` under its former name."""
        warnings.warn("far_bytes is am_bytes now", DeprecationWarning, stacklevel=2)
        return self.am_bytes


def proxy_stats() -> ProxyStats:
    """What the proxy of this PE has done since ``init``.

    The proxy counts while it is read, so figures of one call may be a few requests apart.

    Raises: NotInitialized.
    Example: ``print(pyshmem.proxy_stats())``
    Extension.
    """
    stats = ffi.new("ishmemx_proxy_stats_t *")
    check(lib.ishmemx_proxy_stats(stats))
    operations = {
        name: OperationStats(stats.requests[op], stats.bytes[op], stats.ns[op] / 1e9)
        for op, name in enumerate(OPERATIONS)
        if stats.requests[op]
    }
    rings = (stats.rings, stats.credits, stats.stalls, stats.quiets)
    return ProxyStats(operations, *rings, stats.far_messages, stats.far_bytes)


class Handler(int):
    """A registered function. It is its number, and goes into kernels as it is, as an integer.

    Attributes:
        function: what was registered; kept alive until ``unregister_handler``.
    """

    function: Any

    def __repr__(self) -> str:
        return f"<pyshmem handler {int(self)}: {self.function!r}>"


#: Registered handlers by number: the proxy calls addresses, which must stay valid.
_handlers: dict[int, Handler] = {}


def register_handler(function: Any) -> Handler:
    """Let kernels call ``function`` on the host, with ``pyshmem.device.call`` and ``post``.

    It runs on the proxy's thread, between other requests, without Python's lock: it must not call
    Python, wait for a PE or for a kernel, and should be short. It is known to this PE; PEs that
    register the same functions in the same order get the same numbers. Handlers outlive the job.

    Args:
        function: takes four int64 and returns one: a Numba cfunc
            (``@numba.cfunc("int64(int64, int64, int64, int64)")``), a ctypes function pointer, a cffi
            function pointer, or an address (int). Its signature is checked where it is known.

    Returns:
        A ``Handler``, to be passed to kernels.

    Raises: TypeError (a Python function, another signature), ValueError (a null pointer),
        HeapExhausted (64 are registered already).
    Example: ``handler = pyshmem.register_handler(function); pyshmem.unregister_handler(handler)``
    Extension.
    """
    number = ffi.new("int *")
    pointer = ffi.cast("ishmemx_handler_t", address_of(function))
    check(lib.ishmemx_register_handler(pointer, number))
    handler = Handler(number[0])
    handler.function = function
    _handlers[number[0]] = handler
    return handler


def unregister_handler(handler: Handler) -> None:
    """Forget a handler. Requests that finished kernels have made are served first.

    On return no thread is in it: its memory may go. After an exception it may be, and the call can
    be made again.

    No kernel may call it any more: one that does makes a ``KernelFault``, or gets whoever has the
    number by then.

    Args:
        handler: what ``register_handler`` returned.

    Raises: ValueError (not registered), ShmemTimeout, PeerDied.
    Example: ``pyshmem.unregister_handler(pyshmem.register_handler(function))``
    Extension.
    """
    number = integer("handler", handler)
    if _handlers.get(number) is not handler:
        raise ValueError(f"{handler!r} is not registered")
    if lib.ishmemx_initialized():
        CTX_DEFAULT.quiet()
    check(lib.ishmemx_unregister_handler(number))
    del _handlers[number]


_WAY_OUT = (
    "give @numba.cfunc('int64(int64, int64, int64, int64)'), a C function pointer or its address"
)


def address_of(function: Any) -> int:
    """The address of a C function, however it is wrapped; 0 for a null pointer."""
    for accepts in _FORMS:
        address = accepts(function)
        if address is not None:
            return address
    if callable(function):
        raise TypeError(
            f"{function!r} is a Python function, which the proxy cannot call: it runs without "
            f"Python's lock; {_WAY_OUT}"
        )
    raise TypeError(f"{function!r} is no function; {_WAY_OUT}")


def _check_signature(good: bool, function: Any, signature: Any) -> None:
    if not good:
        raise TypeError(f"{function!r} has the signature {signature}; {_WAY_OUT}")


def _numba_cfunc(function: Any) -> int | None:
    """Without importing Numba: a cfunc knows its address and its signature."""
    if not hasattr(type(function), "native_name") or not hasattr(function, "address"):
        return None
    signature = function._sig
    good = str(signature) == "(int64, int64, int64, int64) -> int64"
    _check_signature(good, function, signature)
    return int(function.address)


def _ctypes_pointer(function: Any) -> int | None:
    if not isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return None
    arguments = function.argtypes
    if arguments is not None:  # a function of a library, with its argtypes set, or a CFUNCTYPE
        sizes = [ctypes.sizeof(kind) for kind in arguments]
        _check_signature(sizes == [8] * 4, function, tuple(kind.__name__ for kind in arguments))
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _cffi_pointer(function: Any) -> int | None:
    if not isinstance(function, ffi.CData):
        return None
    kind = ffi.typeof(function)
    if kind.kind == "pointer":  # a void * or the like: an address
        return int(ffi.cast("uintptr_t", function))
    good = kind.kind == "function" and [ffi.sizeof(a) for a in kind.args] == [8] * 4
    _check_signature(good, function, kind.cname)
    return int(ffi.cast("uintptr_t", function))


def _address(function: Any) -> int | None:
    return int(function) if isinstance(function, int) and not isinstance(function, bool) else None


_FORMS: tuple[Callable[[Any], int | None], ...] = (
    *(_numba_cfunc, _ctypes_pointer, _cffi_pointer, _address),
)
