# SPDX-License-Identifier: BSD-3-Clause
"""Fetching atomics that do not wait: the old value is in ``fetch`` at the next ``quiet``.

``fetch`` is an array of the dtype of ``dest`` in any memory of the kernel; its first element receives
the value. By loads and stores, and in shared and local memory, it arrives at once. Types and contexts:
as in ``atomics``.
"""

from .._types import ATOMIC_OPS
from ._backend import address_of, device_function, in_global, require, same_dtype
from ._elements import ask_amo, tell_amo_nbi
from ._faults import OP
from ._peers import BY_STORES, NOWHERE, on_peer, reach
from ._teams import on_context
from .atomics import FETCHING

__all__ = [
    "atomic_compare_swap_nbi", "atomic_fetch_add_nbi", "atomic_fetch_and_nbi",
    "atomic_fetch_inc_nbi", "atomic_fetch_nbi", "atomic_fetch_or_nbi", "atomic_fetch_xor_nbi",
    "atomic_swap_nbi",
]  # fmt: skip


def _make(name: str):
    """``f(fetch, dest, value, cond, pe, ctx)``."""
    op, number, (operation, types) = OP[f"atomic_{name}"], ATOMIC_OPS.index(name), FETCHING[name]
    if name == "add":
        types = require("a")

    @device_function
    def atomic(fetch, dest, value, cond, pe, ctx):
        types(dest)
        same_dtype(fetch, dest)
        world = on_context(ctx, pe)
        way = reach(dest, 1, dest.size, world, op)
        if way == BY_STORES:
            fetch[0] = operation(on_peer(dest, world), dest, value, cond)
        elif way != NOWHERE and in_global(address_of(fetch)):
            tell_amo_nbi(number, fetch, dest, value, cond, world)
        elif way != NOWHERE:
            fetch[0] = ask_amo(number, dest, value, cond, world)

    return atomic


_fetch, _compare_swap, _swap, _add, _and, _or, _xor = map(_make, FETCHING)


@device_function
def atomic_fetch_nbi(fetch, source, pe, ctx=None):
    """Start fetching the element on ``pe``. Spec: shmem_atomic_fetch_nbi."""
    _fetch(fetch, source, 0, 0, pe, ctx)


@device_function
def atomic_compare_swap_nbi(fetch, dest, cond, value, pe, ctx=None):
    """Start ``atomic_compare_swap``. Spec: shmem_atomic_compare_swap_nbi."""
    _compare_swap(fetch, dest, value, cond, pe, ctx)


@device_function
def atomic_swap_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_swap``. Spec: shmem_atomic_swap_nbi."""
    _swap(fetch, dest, value, 0, pe, ctx)


@device_function
def atomic_fetch_inc_nbi(fetch, dest, pe, ctx=None):
    """Start ``atomic_fetch_inc``. Spec: shmem_atomic_fetch_inc_nbi."""
    _add(fetch, dest, 1, 0, pe, ctx)


@device_function
def atomic_fetch_add_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_add``, on integers. Spec: shmem_atomic_fetch_add_nbi."""
    _add(fetch, dest, value, 0, pe, ctx)


@device_function
def atomic_fetch_and_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_and``. Spec: shmem_atomic_fetch_and_nbi."""
    _and(fetch, dest, value, 0, pe, ctx)


@device_function
def atomic_fetch_or_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_or``. Spec: shmem_atomic_fetch_or_nbi."""
    _or(fetch, dest, value, 0, pe, ctx)


@device_function
def atomic_fetch_xor_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_fetch_xor``. Spec: shmem_atomic_fetch_xor_nbi."""
    _xor(fetch, dest, value, 0, pe, ctx)
