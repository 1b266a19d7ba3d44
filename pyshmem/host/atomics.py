# SPDX-License-Identifier: BSD-3-Clause
"""Atomic memory operations on element 0 of a symmetric array of any PE: forms of few operations.

They are atomic against each other, from hosts and kernels alike, and against ``wait_until`` and
``test``; not against puts and plain stores. The forms that fetch are complete on return; the others
by ``quiet``. With ``stream=`` an operation is done when the stream gets there.

The non-blocking forms fetch by ``quiet``: ``fetch`` is element 0 of a contiguous, writable local array
of the dtype of ``dest``. It must not be read or changed until ``quiet`` of the context; ``fence`` does
not complete it. It is kept alive. With ``stream=`` it is GPU memory, has the value when the stream gets
there, and the caller keeps it.

All raise TypeError (dtype outside the routine's types, dtypes differ, no number of that kind),
OverflowError (value outside the dtype's range), ValueError (pe, layout, not symmetric), NotInitialized,
PeerDied and ShmemError.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from .._core.arrays.checks import StreamLike, place, stream_handle, target
from .._core.arrays.types import AnyArray
from .._core.dtypes import bits_of, out_of_range, pe_number, unsupported_dtype
from .._core.library import check, check_value, fail, lib
from .._core.type_table import ATOMIC_FAMILY, ELEMENTS
from .._core.type_table import ATOMIC_NUMBER as _OP
from .fast_calls import fast
from .kernels.stream_kernels import run
from .teams.contexts import Context, context_of, handle_of

_F = TypeVar("_F", bound=Callable[..., Any])
_V = TypeVar("_V", contravariant=True)


class Change(Protocol[_V]):
    """A form that fetches nothing, as type checkers see it."""

    def __call__(
        self, dest: AnyArray, value: _V, pe: int, *, ctx: Context | None = None,
        stream: StreamLike = None,
    ) -> None: ...  # fmt: skip


class Fetch(Protocol[_V]):
    """A form that returns the value from before."""

    def __call__(
        self, dest: AnyArray, value: _V, pe: int, *, ctx: Context | None = None
    ) -> Any: ...  # fmt: skip


class FetchNbi(Protocol[_V]):
    """A form that has it by ``quiet``."""

    def __call__(
        self, fetch: AnyArray, dest: AnyArray, value: _V, pe: int, *, ctx: Context | None = None,
        stream: StreamLike = None,
    ) -> None: ...  # fmt: skip


class _Operation(NamedTuple):
    """What it does, and, as part of a sentence, what it starts doing; its dtypes and results."""

    does: str
    doing: str
    types: str
    gives: str
    wraps: str = ""


_INTEGERS = "int32, int64, uint32 or uint64"
_ALL = "int32, int64, uint32, uint64, float32 or float64"
_ADDED = "int32, int64, uint32, uint64, and, as an extension, float32 or\n        float64"
_BITWISE = {
    op: _Operation(
        f"Bitwise {name} with ``value``", f"a bitwise {name} with ``value``", _INTEGERS, "int"
    )
    for op, name in (("and", "and"), ("or", "or"), ("xor", "exclusive or"))
}
_OPERATIONS = {
    "set": _Operation("Write ``value``", "writing ``value``", _ALL, "int or float"),
    "swap": _Operation("Write ``value``", "writing ``value``", _ALL, "int or float"),
    "add": _Operation(
        "Add ``value``", "adding ``value``", _ADDED, "int or float", "; integers wrap around"
    ),
    **_BITWISE,
}
#: Lines that many texts have.
_LINES = {
    "fetch": "fetch: local array; element 0 receives the value from before.",
    "value": "value: within the dtype's range.",
    "pe": """\
    pe: target PE, ``0 <= pe < n_pes()``.
    ctx: context that orders and completes the operation; default ``CTX_DEFAULT``.""",
    "stream": "stream: stream to do it in the order of, arrays on the device heap; see ``streams``.",
    "by_quiet": """\
Completes: at ``pe`` by ``quiet``.
Raises: see the module.""",
    "on_return": """\
Completes: on return.
Raises: see the module.""",
    "later": """\
Completes: nothing on return; ``fetch`` and the change at ``pe`` by ``quiet``.
Raises: see the module.""",
}


def _public(function: _F, name: str, op: str) -> _F:
    """``function`` under its public name, with the operation's words in what it says on itself."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "pyshmem"
    text = inspect.cleandoc(function.__doc__ or "")
    words = _OPERATIONS[op]._asdict() if op in _OPERATIONS else {}
    function.__doc__ = text.format(name=name, **words, **_LINES)
    return function


def _named(op: str) -> Callable[[_F], _F]:
    """``_public`` of a function that is written out."""
    return lambda function: _public(function, function.__name__, op)


def _change(
    op: str, dest: AnyArray, value: Any, pe: int, ctx: Context | None, stream: StreamLike
) -> None:
    """An operation that fetches nothing."""
    address, kind = target(dest, "dest", writable=True)
    if kind.atomic is None:
        raise unsupported_dtype(f"atomic_{op}", kind, ATOMIC_FAMILY[op])
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
        raise unsupported_dtype(f"atomic_{op}", kind, ATOMIC_FAMILY[op])
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


def _start(
    op: str, fetch: AnyArray, dest: AnyArray, value: Any, pe: int, ctx: Context | None,
    stream: StreamLike, cond: Any = 0,
) -> None:  # fmt: skip
    """One whose value arrives by ``quiet``."""
    changes = op != "fetch"
    address, kind = target(dest, "dest" if changes else "source", writable=changes)
    if kind.element < 0 or ATOMIC_FAMILY[op] not in ELEMENTS[kind.element].families:
        raise unsupported_dtype(f"atomic_{op}", kind, ATOMIC_FAMILY[op])
    slot, capacity, fetched = place(fetch, "fetch", symmetric=False, writable=True)
    if fetched is not kind:
        raise TypeError(f"fetch has dtype {fetched.dtype}, dest has dtype {kind.dtype}")
    if not capacity:
        raise ValueError("fetch has no elements; its element 0 receives the value")
    context, pe = context_of(ctx), pe_number(pe)
    bits = bits_of(kind, value), bits_of(kind, cond, "cond")
    number = _OP[op]
    if stream is not None:
        where = *bits, pe, slot, stream_handle(stream)
        call = lib.ishmemx_atomic_on_stream
        run(call, context.handle, number, kind.element, address, *where)
        return
    check(lib.ishmemx_atomic_nbi(context.handle, number, kind.element, slot, address, *bits, pe))
    context.keep(fetch, pe)


# ---- forms of operations with a value ------------------------------------------------------------


def _changing(op: str) -> Change[Any]:
    def change(
        dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None,
        stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """{does}{wraps}.

        Args:
            dest: symmetric array of {types}; its element 0 is the target.
            {value}
        {pe}
            {stream}

        {by_quiet}
        Example: ``pyshmem.{name}(counter, 1, right)``
        Spec: shmem_{name} (OpenSHMEM 1.5).
        """
        _change(op, dest, value, pe, ctx, stream)

    return fast("change", _OP[op])(_public(change, f"atomic_{op}", op))


def _fetching(op: str, name: str) -> Fetch[Any]:
    def fetch(dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None) -> Any:
        """{does}; return what was there{wraps}.

        Args:
            dest: symmetric array of {types}; its element 0 is the target.
            {value}
        {pe}

        Returns:
            The value from before, a Python {gives}.

        {on_return}
        Example: ``before = pyshmem.{name}(counter, 1, right)``
        Spec: shmem_{name} (OpenSHMEM 1.5).
        """
        return _fetch(op, dest, value, pe, ctx)

    return fast("fetch", _OP[op])(_public(fetch, name, op))


def _starting(op: str, name: str) -> FetchNbi[Any]:
    def start(
        fetch: AnyArray, dest: AnyArray, value: Any, pe: int, *, ctx: Context | None = None,
        stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """Start {doing} and fetching what was there{wraps}.

        Args:
            {fetch}
            dest: symmetric array of {types}; its element 0 is the target.
            {value}
        {pe}
            {stream}

        {later}
        Example: ``pyshmem.{name}(fetched, counter, 1, right); pyshmem.quiet()``
        Spec: shmem_{name} (OpenSHMEM 1.5).
        """
        _start(op, fetch, dest, value, pe, ctx, stream)

    return _public(start, name, op)


def _forms(op: str) -> tuple[Change[Any], Fetch[Any], FetchNbi[Any]]:
    name = f"atomic_fetch_{op}"
    return _changing(op), _fetching(op, name), _starting(op, f"{name}_nbi")


def _bitwise(op: str) -> tuple[Change[int], Fetch[int], FetchNbi[int]]:
    """Of integers."""
    forms = _forms(op)
    for form in forms:
        vars(form).get("__wrapped__", form).__annotations__["value"] = "int"
    return forms


atomic_set = _changing("set")
atomic_swap = _fetching("swap", "atomic_swap")
atomic_swap_nbi = _starting("swap", "atomic_swap_nbi")
atomic_add, atomic_fetch_add, atomic_fetch_add_nbi = _forms("add")
atomic_and, atomic_fetch_and, atomic_fetch_and_nbi = _bitwise("and")
atomic_or, atomic_fetch_or, atomic_fetch_or_nbi = _bitwise("or")
atomic_xor, atomic_fetch_xor, atomic_fetch_xor_nbi = _bitwise("xor")


# ---- operations of a form of their own -----------------------------------------------------------


@fast("read", _OP["fetch"])
@_named("set")
def atomic_fetch(source: AnyArray, pe: int, *, ctx: Context | None = None) -> Any:
    """Read element 0 of ``source`` on ``pe``.

    Args:
        source: symmetric array of {types}; its element 0 is the target.
    {pe}

    Returns:
        The value, a Python {gives}.

    {on_return}
    Example: ``now = pyshmem.atomic_fetch(counter, right)``
    Spec: shmem_atomic_fetch (OpenSHMEM 1.5).
    """
    return _fetch("fetch", source, 0, pe, ctx)


@_named("set")
def atomic_fetch_nbi(
    fetch: AnyArray, source: AnyArray, pe: int, *, ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:  # fmt: skip
    """Start reading element 0 of ``source`` on ``pe``.

    Args:
        {fetch}
        source: symmetric array of {types}; its element 0 is the target.
    {pe}
        {stream}

    {later}
    Example: ``pyshmem.atomic_fetch_nbi(fetched, counter, right); pyshmem.quiet()``
    Spec: shmem_atomic_fetch_nbi (OpenSHMEM 1.5).
    """
    _start("fetch", fetch, source, 0, pe, ctx, stream)


@fast("touch", _OP["add"])
@_named("add")
def atomic_inc(
    dest: AnyArray, pe: int, *, ctx: Context | None = None, stream: StreamLike = None
) -> None:
    """Add 1.

    Args:
        dest: symmetric array of {types}; its element 0 is the target.
    {pe}
        {stream}

    {by_quiet}
    Example: ``pyshmem.atomic_inc(counter, right)``
    Spec: shmem_atomic_inc (OpenSHMEM 1.5).
    """
    _change("add", dest, 1, pe, ctx, stream)


@fast("read", _OP["add"])
@_named("add")
def atomic_fetch_inc(dest: AnyArray, pe: int, *, ctx: Context | None = None) -> Any:
    """Add 1 and return what was there.

    Args:
        dest: symmetric array of {types}; its element 0 is the target.
    {pe}

    Returns:
        The value from before, a Python {gives}.

    {on_return}
    Example: ``ticket = pyshmem.atomic_fetch_inc(counter, 0)``
    Spec: shmem_atomic_fetch_inc (OpenSHMEM 1.5).
    """
    return _fetch("add", dest, 1, pe, ctx)


@_named("add")
def atomic_fetch_inc_nbi(
    fetch: AnyArray, dest: AnyArray, pe: int, *, ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:  # fmt: skip
    """Start adding 1 and fetching what was there.

    Args:
        {fetch}
        dest: symmetric array of {types}; its element 0 is the target.
    {pe}
        {stream}

    {later}
    Example: ``pyshmem.atomic_fetch_inc_nbi(fetched, counter, 0); pyshmem.quiet()``
    Spec: shmem_atomic_fetch_inc_nbi (OpenSHMEM 1.5).
    """
    _start("add", fetch, dest, 1, pe, ctx, stream)


@fast("compare_swap", _OP["compare_swap"])
@_named("and")
def atomic_compare_swap(
    dest: AnyArray, cond: int, value: int, pe: int, *, ctx: Context | None = None
) -> Any:
    """Write ``value`` if ``cond`` is there; return what was there.

    Args:
        dest: symmetric array of {types}; its element 0 is the target.
        cond: what the element must be for the write to happen.
        {value}
    {pe}

    Returns:
        The value from before, a Python {gives}.

    {on_return}
    Example: ``was_free = pyshmem.atomic_compare_swap(counter, 0, 1, right) == 0``
    Spec: shmem_atomic_compare_swap (OpenSHMEM 1.5).
    """
    address, kind = target(dest, "dest", writable=True)
    if kind.compare_swap is None:
        raise unsupported_dtype("atomic_compare_swap", kind, ATOMIC_FAMILY["compare_swap"])
    cond, value = kind.scalar(cond, "cond"), kind.scalar(value, "value")
    handle, pe = handle_of(ctx), pe_number(pe)
    try:
        old = kind.compare_swap(handle, address, cond, value, pe)
    except OverflowError:
        raise out_of_range(kind, cond, value) from None
    if old == kind.failed:
        check_value()
    return int(old)


@_named("and")
def atomic_compare_swap_nbi(
    fetch: AnyArray, dest: AnyArray, cond: int, value: int, pe: int, *, ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:  # fmt: skip
    """Start writing ``value`` if ``cond`` is there, and fetching what was there.

    Args:
        {fetch}
        dest: symmetric array of {types}; its element 0 is the target.
        cond: what the element must be for the write to happen.
        {value}
    {pe}
        {stream}

    {later}
    Example: ``pyshmem.atomic_compare_swap_nbi(fetched, counter, 0, 1, right); pyshmem.quiet()``
    Spec: shmem_atomic_compare_swap_nbi (OpenSHMEM 1.5).
    """
    _start("compare_swap", fetch, dest, value, pe, ctx, stream, cond)
