# SPDX-License-Identifier: BSD-3-Clause
"""Atomics from kernels, at system scope: atomic with every PE's kernels and host calls.

``dest`` is a contiguous array on the device heap; its first element is the target. Types: 32 and 64
bit integers, also float32 and float64 for fetch, set, swap and (an extension) add. Nothing here
orders other accesses: see ``fence``. After a fault the fetching forms return 0. With a context
(``as_argument(context)``) as ``ctx``, ``pe`` is a PE of its team.

The ``_nbi`` forms do not wait: ``fetch`` is an array of the dtype of ``dest`` in any memory of the
kernel; its first element receives the old value, at the next ``quiet`` at the latest. By loads and
stores, and in shared and local memory, it arrives at once.
"""

from typing import Any, NamedTuple

from ..._core.type_table import ATOMIC_OPS
from ..faults import OP
from ..leaf import chosen as leaf
from ..leaf.chosen import cast, device_function, read, require, write
from ..peers import BY_STORES, NOWHERE, on_peer, reach, reach_atomic
from ..ring.elements import ask_amo, tell_amo
from ..routine import routine
from ..team.rows import on_context

_standard, _extended, _bitwise, _addable = (require(family) for family in "axb+")


@device_function
def _read(address, like, _value, _cond):
    leaf.relax()  # as in test()
    return read(address, like)


@device_function
def _swap_if(address, like, value, cond):
    return leaf.atomic_compare_swap(address, like, cond, value)


def _plain(operation):
    return device_function(lambda address, like, value, _cond: operation(address, like, value))


class _Operation(NamedTuple):
    """One operation in its forms, and the types each is for."""

    fetching: Any  # f(address, like, value, cond)
    updating: Any  # f(address, like, value), which fetches nothing
    types: Any
    nbi_types: Any


_OPERATIONS = {
    "fetch": _Operation(_read, None, _extended, _extended),
    "compare_swap": _Operation(_swap_if, None, _standard, _standard),
    "swap": _Operation(_plain(leaf.atomic_swap), None, _extended, _extended),
    "set": _Operation(None, write, _extended, None),
    "add": _Operation(_plain(leaf.atomic_fetch_add), leaf.atomic_add, _addable, _standard),
    "and": _Operation(_plain(leaf.atomic_fetch_and), leaf.atomic_and, _bitwise, _bitwise),
    "or": _Operation(_plain(leaf.atomic_fetch_or), leaf.atomic_or, _bitwise, _bitwise),
    "xor": _Operation(_plain(leaf.atomic_fetch_xor), leaf.atomic_xor, _bitwise, _bitwise),
}


@device_function
def _load_or_store(dest, most, pe, op):
    return reach(dest, 1, most, pe, op)


_FIND = {"fetch": _load_or_store, "set": _load_or_store}


def _fetching(name: str):
    """``f(dest, value, cond, pe, ctx)``: the old value."""
    op, number = OP[f"atomic_{name}"], ATOMIC_OPS.index(name)
    operation, types = _OPERATIONS[name].fetching, _OPERATIONS[name].types
    find = _FIND.get(name, reach_atomic)

    @device_function
    def atomic(dest, value, cond, pe, ctx):
        types(dest)
        world = on_context(ctx, pe)
        way = find(dest, dest.size, world, op)
        if way == BY_STORES:
            return operation(on_peer(dest, world), dest, value, cond)
        if way != NOWHERE:
            return ask_amo(number, dest, value, cond, world)
        return cast(dest, 0)

    return atomic


def _updating(name: str):
    """``f(dest, value, pe, ctx)``, which fetches nothing."""
    op, number = OP[f"atomic_{name}"], ATOMIC_OPS.index(name)
    operation, types = _OPERATIONS[name].updating, _OPERATIONS[name].types
    find = _FIND.get(name, reach_atomic)

    @device_function
    def atomic(dest, value, pe, ctx):
        types(dest)
        world = on_context(ctx, pe)
        way = find(dest, dest.size, world, op)
        if way == BY_STORES:
            operation(on_peer(dest, world), dest, value)
        elif way != NOWHERE:
            tell_amo(number, dest, value, world)

    return atomic


def _starting(name: str):
    """``f(fetch, dest, value, cond, pe, ctx)``: the old value is in ``fetch`` at the next quiet."""
    op, number = OP[f"atomic_{name}"], ATOMIC_OPS.index(name)
    operation, types = _OPERATIONS[name].fetching, _OPERATIONS[name].nbi_types
    find = _FIND.get(name, reach_atomic)

    @device_function
    def atomic(fetch, dest, value, cond, pe, ctx):
        types(dest)
        leaf.same_dtype(fetch, dest)
        world = on_context(ctx, pe)
        way = find(dest, dest.size, world, op)
        if way == BY_STORES:
            fetch[0] = operation(on_peer(dest, world), dest, value, cond)
        elif way != NOWHERE and leaf.in_global(leaf.address_of(fetch)):
            tell_amo(number, dest, value, world, cond, leaf.address_of(fetch))
        elif way != NOWHERE:
            fetch[0] = ask_amo(number, dest, value, cond, world)

    return atomic


_FETCHING = ("fetch", "compare_swap", "swap", "add", "and", "or", "xor")
(
    _fetch, _compare_swap, _swap, _fetch_add, _fetch_and, _fetch_or, _fetch_xor,
) = map(_fetching, _FETCHING)  # fmt: skip
(
    _start_fetch, _start_compare_swap, _start_swap, _start_add, _start_and, _start_or, _start_xor,
) = map(_starting, _FETCHING)  # fmt: skip
_set, _add, _and, _or, _xor = map(_updating, ("set", "add", "and", "or", "xor"))


@routine
def atomic_fetch(source, pe, ctx=None):
    """The element on ``pe``. Spec: shmem_atomic_fetch."""
    return _fetch(source, 0, 0, pe, ctx)


@routine
def atomic_set(dest, value, pe, ctx=None):
    """Replace the element on ``pe``. Spec: shmem_atomic_set."""
    _set(dest, value, pe, ctx)


@routine
def atomic_swap(dest, value, pe, ctx=None):
    """Replace the element on ``pe``; returns the old value. Spec: shmem_atomic_swap."""
    return _swap(dest, value, 0, pe, ctx)


@routine
def atomic_compare_swap(dest, cond, value, pe, ctx=None):
    """Replace the element on ``pe`` if it equals ``cond``; returns the old value.

    Spec: shmem_atomic_compare_swap.
    """
    return _compare_swap(dest, value, cond, pe, ctx)


@routine
def atomic_inc(dest, pe, ctx=None):
    """Add 1 to the element on ``pe``. Spec: shmem_atomic_inc."""
    _standard(dest)
    _add(dest, 1, pe, ctx)


@routine
def atomic_fetch_inc(dest, pe, ctx=None):
    """Add 1 to the element on ``pe``; returns the old value. Spec: shmem_atomic_fetch_inc."""
    _standard(dest)
    return _fetch_add(dest, 1, 0, pe, ctx)


@routine
def atomic_add(dest, value, pe, ctx=None):
    """Add to the element on ``pe``. Spec: shmem_atomic_add (float32, float64: extension)."""
    _add(dest, value, pe, ctx)


@routine
def atomic_fetch_add(dest, value, pe, ctx=None):
    """Add to the element on ``pe``; returns the old value.

    Spec: shmem_atomic_fetch_add (float32, float64: extension).
    """
    return _fetch_add(dest, value, 0, pe, ctx)


@routine
def atomic_and(dest, value, pe, ctx=None):
    """Bitwise and with the element on ``pe``. Spec: shmem_atomic_and."""
    _and(dest, value, pe, ctx)


@routine
def atomic_fetch_and(dest, value, pe, ctx=None):
    """Bitwise and with the element on ``pe``; returns the old value. Spec: shmem_atomic_fetch_and."""
    return _fetch_and(dest, value, 0, pe, ctx)


@routine
def atomic_or(dest, value, pe, ctx=None):
    """Bitwise or with the element on ``pe``. Spec: shmem_atomic_or."""
    _or(dest, value, pe, ctx)


@routine
def atomic_fetch_or(dest, value, pe, ctx=None):
    """Bitwise or with the element on ``pe``; returns the old value. Spec: shmem_atomic_fetch_or."""
    return _fetch_or(dest, value, 0, pe, ctx)


@routine
def atomic_xor(dest, value, pe, ctx=None):
    """Bitwise exclusive or with the element on ``pe``. Spec: shmem_atomic_xor."""
    _xor(dest, value, pe, ctx)


@routine
def atomic_fetch_xor(dest, value, pe, ctx=None):
    """Bitwise exclusive or with the element on ``pe``; returns the old value.

    Spec: shmem_atomic_fetch_xor.
    """
    return _fetch_xor(dest, value, 0, pe, ctx)


# -- without waiting: the old value is in ``fetch`` at the next ``quiet`` --------------------------


@routine
def atomic_fetch_nbi(fetch, source, pe, ctx=None):
    """Start fetching the element on ``pe``. Spec: shmem_atomic_fetch_nbi."""
    _start_fetch(fetch, source, 0, 0, pe, ctx)


@routine
def atomic_compare_swap_nbi(fetch, dest, cond, value, pe, ctx=None):
    """Start ``atomic_compare_swap``. Spec: shmem_atomic_compare_swap_nbi."""
    _start_compare_swap(fetch, dest, value, cond, pe, ctx)


@routine
def atomic_swap_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_swap``. Spec: shmem_atomic_swap_nbi."""
    _start_swap(fetch, dest, value, 0, pe, ctx)


@routine
def atomic_fetch_inc_nbi(fetch, dest, pe, ctx=None):
    """Start ``atomic_fetch_inc``. Spec: shmem_atomic_fetch_inc_nbi."""
    _start_add(fetch, dest, 1, 0, pe, ctx)


@routine
def atomic_fetch_add_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_add``, on integers. Spec: shmem_atomic_fetch_add_nbi."""
    _start_add(fetch, dest, value, 0, pe, ctx)


@routine
def atomic_fetch_and_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_and``. Spec: shmem_atomic_fetch_and_nbi."""
    _start_and(fetch, dest, value, 0, pe, ctx)


@routine
def atomic_fetch_or_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_or``. Spec: shmem_atomic_fetch_or_nbi."""
    _start_or(fetch, dest, value, 0, pe, ctx)


@routine
def atomic_fetch_xor_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_xor``. Spec: shmem_atomic_fetch_xor_nbi."""
    _start_xor(fetch, dest, value, 0, pe, ctx)
