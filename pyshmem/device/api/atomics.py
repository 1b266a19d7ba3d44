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

from ..._core.type_table import ATOMIC_OPS
from ..faults import OP
from ..leaf import backend as leaf
from ..leaf.backend import cast, device_function, read, require, write
from ..peers import BY_STORES, NOWHERE, native, on_peer, reach, reach_atomic
from ..ring.elements import ask_amo, tell_amo
from ..routine import ROUTINES, routine
from ..team.rows import on_context

_standard, _extended, _bitwise, _addable = (require(family) for family in "axbd")


@device_function
def _read(address, like, _value, _cond):
    leaf.relax()  # as in test()
    return read(address, like)


@device_function
def _swap_if(address, like, value, cond):
    return leaf.atomic_compare_swap(address, like, cond, value)


def _plain(operation):
    return device_function(lambda address, like, value, _cond: operation(address, like, value))


@device_function
def _load_or_store(dest, most, pe, op):
    return reach(dest, 1, most, pe, op)


def _forms(name: str, types, fetching=None, updating=None, find=reach_atomic, nbi_types=None):
    """The operation ``name``: without the old value, with it, and with it in ``fetch`` at a quiet.

    ``fetching(address, like, value, cond)`` and ``updating(address, like, value)`` do it at an address.
    """
    op, number, nbi_types = OP[f"atomic_{name}"], ATOMIC_OPS.index(name), nbi_types or types

    @device_function
    def update(dest, value, pe, ctx):
        types(dest)
        world = on_context(ctx, pe)
        if not native(dest, dest.size, world):
            way = find(dest, dest.size, world, op)
            if way == NOWHERE:
                return
            if way != BY_STORES:
                tell_amo(number, dest, value, world)
                return
        updating(on_peer(dest, world), dest, value)

    @device_function
    def fetch(dest, value, cond, pe, ctx):
        types(dest)
        world = on_context(ctx, pe)
        if not native(dest, dest.size, world):
            way = find(dest, dest.size, world, op)
            if way == NOWHERE:
                return cast(dest, 0)
            if way != BY_STORES:
                return ask_amo(number, dest, value, cond, world)
        return fetching(on_peer(dest, world), dest, value, cond)

    @device_function
    def start(fetch, dest, value, cond, pe, ctx):
        nbi_types(dest)
        leaf.match(fetch, dest)
        world = on_context(ctx, pe)
        way = find(dest, dest.size, world, op)
        if way == BY_STORES:
            fetch[0] = fetching(on_peer(dest, world), dest, value, cond)
        elif way != NOWHERE and leaf.in_global(leaf.address_of(fetch)):
            tell_amo(number, dest, value, world, cond, leaf.address_of(fetch))
        elif way != NOWHERE:
            fetch[0] = ask_amo(number, dest, value, cond, world)

    return update, fetch, start


_, _fetch, _start_fetch = _forms("fetch", _extended, _read, find=_load_or_store)
_set, _, _ = _forms("set", _extended, updating=write, find=_load_or_store)
_, _swap, _start_swap = _forms("swap", _extended, _plain(leaf.atomic_swap))
_, _compare_swap, _start_compare_swap = _forms("compare_swap", _standard, _swap_if)


@routine
def atomic_fetch(source, pe, ctx=None):
    """The element on ``pe``. Spec: shmem_atomic_fetch."""
    return _fetch(source, 0, 0, pe, ctx)


@routine
def atomic_fetch_nbi(fetch, source, pe, ctx=None):
    """Start fetching the element on ``pe``. Spec: shmem_atomic_fetch_nbi."""
    _start_fetch(fetch, source, 0, 0, pe, ctx)


@routine
def atomic_set(dest, value, pe, ctx=None):
    """Replace the element on ``pe``. Spec: shmem_atomic_set."""
    _set(dest, value, pe, ctx)


@routine
def atomic_swap(dest, value, pe, ctx=None):
    """Replace the element on ``pe``; returns the old value. Spec: shmem_atomic_swap."""
    return _swap(dest, value, 0, pe, ctx)


@routine
def atomic_swap_nbi(fetch, dest, value, pe, ctx=None):
    """Start ``atomic_swap``. Spec: shmem_atomic_swap_nbi."""
    _start_swap(fetch, dest, value, 0, pe, ctx)


@routine
def atomic_compare_swap(dest, cond, value, pe, ctx=None):
    """Replace the element on ``pe`` if it equals ``cond``; returns the old value.

    Spec: shmem_atomic_compare_swap.
    """
    return _compare_swap(dest, value, cond, pe, ctx)


@routine
def atomic_compare_swap_nbi(fetch, dest, cond, value, pe, ctx=None):
    """Start ``atomic_compare_swap``. Spec: shmem_atomic_compare_swap_nbi."""
    _start_compare_swap(fetch, dest, value, cond, pe, ctx)


def _arithmetic(op: str, does: str, types, extension: str = "") -> tuple:
    """Makes ``atomic_OP``, ``atomic_fetch_OP`` and ``atomic_fetch_OP_nbi``; returns what does them."""
    fetching, updating = getattr(leaf, f"atomic_fetch_{op}"), getattr(leaf, f"atomic_{op}")
    nbi_types = _standard if extension else None
    update, fetch_old, start = _forms(op, types, _plain(fetching), updating, nbi_types=nbi_types)

    def atomic(dest, value, pe, ctx=None):
        """{does} the element on ``pe``. Spec: shmem_{name}{extension}."""
        update(dest, value, pe, ctx)

    def atomic_fetch(dest, value, pe, ctx=None):
        """{does} the element on ``pe``; returns the old value.

        Spec: shmem_{name}{extension}.
        """
        return fetch_old(dest, value, 0, pe, ctx)

    def atomic_fetch_nbi(fetch, dest, value, pe, ctx=None):
        """Start ``atomic_fetch_{op}``, on integers. Spec: shmem_{name}."""
        start(fetch, dest, value, 0, pe, ctx)

    routine(atomic, f"atomic_{op}", does=does, extension=extension)
    routine(atomic_fetch_nbi, f"atomic_fetch_{op}_nbi", op=op)
    routine(atomic_fetch, f"atomic_fetch_{op}", does=does, extension=extension)
    return update, fetch_old, start


_arithmetic("and", "Bitwise and with", _bitwise)
_arithmetic("or", "Bitwise or with", _bitwise)
_arithmetic("xor", "Bitwise exclusive or with", _bitwise)
_add, _fetch_add, _start_add = _arithmetic(
    "add", "Add to", _addable, " (float32, float64: extension)"
)
atomic_fetch_add = ROUTINES["atomic_fetch_add"]


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
def atomic_fetch_inc_nbi(fetch, dest, pe, ctx=None):
    """Start ``atomic_fetch_inc``. Spec: shmem_atomic_fetch_inc_nbi."""
    _start_add(fetch, dest, 1, 0, pe, ctx)
