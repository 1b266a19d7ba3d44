# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that the host launches on streams: one collective, wait, quiet or request each.

A key of the contract (``STREAM_KERNEL``, ``STREAM_KEY``) stands for a kernel. Those of this
folder are made for it: their blocks wait for the peers' same blocks, and for few bytes for nobody. The
others, and all of teams with members out of reach of loads and stores, are one call of a device routine
each. Arguments are int64 words; an array of one dimension is seven of them, as Numba passes it. All of a
team begin with the words of its slot (``call.py``). Data that is only moved is bytes, so one kernel
serves every dtype. What a kernel must remember between calls is in device memory, hence a captured
launch is as good as a new one. Outside a job, where the state block is empty, they do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .._core.contract import STREAM_KERNEL, STREAM_KEY
from .._core.type_table import ELEMENTS, REDUCE_OPS
from ..device.leaf.backend import state, store_near, thread_in_block
from ..device.ring.requests import ask
from ..device.routine import ROUTINES
from ..device.state import ABI
from . import data_movement, reduce, small_messages

Function = Callable[..., Any]


TEAM = "iiiiiii"  # slot, me, n, calls, flags, area, slot's bytes
SMALL = "ii"  # behind the others: from a half of the area to the other, the own ones at the next PE


class StreamKernel(NamedTuple):
    """``arguments``: a letter each, ``i`` int64, ``x`` array of ``dtype``, ``n`` array of int64."""

    name: str
    function: Function
    arguments: str
    dtype: str
    cooperative: bool


def _alone(routine: Function) -> Function:
    def kernel() -> None:
        if state(ABI) != 0:
            routine()

    return kernel


def _of_team(routine: Function) -> Function:
    def kernel(team, me, n, calls, flags, area, slot) -> None:
        if state(ABI) != 0:
            routine(team)

    return kernel


def _of_all(routine: Function) -> Function:
    def kernel(team, me, n, calls, flags, area, slot) -> None:
        if state(ABI) != 0:
            routine()

    return kernel


def _from_root(routine: Function) -> Function:
    def kernel(team, me, n, calls, flags, area, slot, dest, source, nelems, root) -> None:
        if state(ABI) != 0:
            routine(team, dest, source, nelems, root)

    return kernel


def _data(routine: Function) -> Function:
    def kernel(team, me, n, calls, flags, area, slot, dest, source, nelems) -> None:
        if state(ABI) != 0:
            routine(team, dest, source, nelems)

    return kernel


def _strided(routine: Function) -> Function:
    def kernel(team, me, n, calls, flags, area, slot, dest, source, dst, sst, nelems) -> None:
        if state(ABI) != 0:
            routine(team, dest, source, dst, sst, nelems)

    return kernel


def _wait(routine: Function) -> Function:
    def kernel(ivar, cmp, value) -> None:
        if small_messages.begin_behind():
            routine(ivar, cmp, value)

    return kernel


def _wait_all(routine: Function) -> Function:
    def kernel(ivars, nelems, cmp, value) -> None:
        if state(ABI) != 0:
            routine(ivars, nelems, None, cmp, value)

    return kernel


def _wait_any(routine: Function) -> Function:
    def kernel(ivars, nelems, cmp, value, found) -> None:
        if state(ABI) != 0:
            found[0] = routine(ivars, nelems, None, cmp, value)

    return kernel


def _wait_some(routine: Function) -> Function:
    def kernel(ivars, nelems, indices, cmp, value, found) -> None:
        if state(ABI) != 0:
            found[0] = routine(ivars, nelems, indices, None, cmp, value)

    return kernel


def _request(_op: str, _wide: bool) -> Function:
    """One thread asks the host for what is out of reach, and waits until it is complete there."""

    def kernel(dest, source, value, extra, extra2, pe, kind, fetched, width) -> None:
        if state(ABI) != 0 and thread_in_block() == 0:
            answer = ask(kind, dest, source, value, extra, extra2, pe)
            if width > 0:
                store_near(fetched, width, answer)

    return kernel


class _Row(NamedTuple):
    """Of a kernel that calls a routine of the device library."""

    routine: str  # with {op}; the scope comes behind it
    make: Callable[[Function], Function]
    arguments: str
    scope: str = "_work_group"  # of the narrow kernel; the wide one is _grid


class _Made(NamedTuple):
    """Of a kernel of this folder: ``make(op, wide)``, and ``small(op)`` of the one for few bytes."""

    make: Callable[[str, bool], Function]
    arguments: str
    routine: str
    small: Callable[[str], Function] | None = None


def _reduction(kind: str, scatters: bool) -> _Made:
    return _Made(
        lambda op, wide: (reduce.direct if wide else reduce.with_flags)(op, scatters),
        TEAM + "xxi",
        "{op}_" + kind,
        lambda op: small_messages.reduction(op, scatters),
    )


_ROWS: dict[int, _Row | _Made] = {
    STREAM_KERNEL.BARRIER_ALL: _Made(
        lambda _op, _wide: small_messages.barrier_all, TEAM + "i", "barrier_all"
    ),
    STREAM_KERNEL.QUIET: _Row("quiet", _alone, ""),
    STREAM_KERNEL.TEAM_SYNC: _Made(
        lambda _op, _wide: small_messages.team_sync, TEAM + "i", "team_sync"
    ),
    STREAM_KERNEL.BROADCAST: _Made(
        lambda _op, wide: data_movement.broadcast(wide),
        TEAM + "xxii",
        "broadcast",
        lambda _op: small_messages.broadcast(),
    ),
    STREAM_KERNEL.FCOLLECT: _Made(
        lambda _op, wide: data_movement.fcollect(wide),
        TEAM + "xxi",
        "fcollect",
        lambda _op: small_messages.blocks("fcollect", False),
    ),
    STREAM_KERNEL.COLLECT: _Row("collect", _data, TEAM + "xxi"),
    STREAM_KERNEL.ALLTOALL: _Made(
        lambda _op, wide: data_movement.alltoall(wide),
        TEAM + "xxi",
        "alltoall",
        lambda _op: small_messages.blocks("alltoall", True),
    ),
    STREAM_KERNEL.ALLTOALLS: _Row("alltoalls", _strided, TEAM + "xxiii"),
    STREAM_KERNEL.REDUCE: _reduction("reduce", False),
    STREAM_KERNEL.REDUCE_SCATTER: _reduction("reduce_scatter", True),
    STREAM_KERNEL.SCAN: _Row("sum_{op}scan", _data, TEAM + "xxi"),
    STREAM_KERNEL.WAIT: _Row("wait_until", _wait, "xii", ""),
    STREAM_KERNEL.WAIT_ALL: _Row("wait_until_all", _wait_all, "xiii", ""),
    STREAM_KERNEL.WAIT_ANY: _Row("wait_until_any", _wait_any, "xiiin", ""),
    STREAM_KERNEL.WAIT_SOME: _Row("wait_until_some", _wait_some, "xiniin", ""),
    STREAM_KERNEL.REQUEST: _Made(_request, "iiiiiiiii", "request"),
}
#: The same where a member is out of reach of loads and stores.
_BY_PROXY_ROWS: dict[int, _Row] = {
    STREAM_KERNEL.BARRIER_ALL: _Row("barrier_all", _of_all, TEAM),
    STREAM_KERNEL.TEAM_SYNC: _Row("team_sync", _of_team, TEAM),
    STREAM_KERNEL.BROADCAST: _Row("broadcast", _from_root, TEAM + "xxii"),
    STREAM_KERNEL.FCOLLECT: _Row("fcollect", _data, TEAM + "xxi"),
    STREAM_KERNEL.ALLTOALL: _Row("alltoall", _data, TEAM + "xxi"),
    STREAM_KERNEL.REDUCE: _Row("{op}_reduce", _data, TEAM + "xxi"),
    STREAM_KERNEL.REDUCE_SCATTER: _Row("{op}_reduce_scatter", _data, TEAM + "xxi"),
}


def kernel_of(key: int) -> StreamKernel:
    """The kernel that ``key`` stands for."""
    kind = key & ((1 << STREAM_KEY.OP_SHIFT) - 1)
    row = _BY_PROXY_ROWS[kind] if key & STREAM_KEY.FAR else _ROWS[kind]
    number = key >> STREAM_KEY.OP_SHIFT & ((1 << STREAM_KEY.TYPE_SHIFT - STREAM_KEY.OP_SHIFT) - 1)
    op = ("in", "ex")[number] if kind == STREAM_KERNEL.SCAN else REDUCE_OPS[number]
    element = ELEMENTS[key >> STREAM_KEY.TYPE_SHIFT & 0xFF]
    wide = bool(key & STREAM_KEY.WIDE)
    name, arguments = row.routine.format(op=op), row.arguments
    if isinstance(row, _Made) and row.small and key & STREAM_KEY.LEAN:
        function, cooperative, arguments = row.small(op), False, arguments + SMALL
    elif isinstance(row, _Made):
        function, cooperative = row.make(op, wide), False
    else:
        routine = ROUTINES[name + ("_grid" if wide else row.scope)]
        function, cooperative = row.make(routine), wide
    function.__name__ = function.__qualname__ = name + "_on_stream"
    return StreamKernel(name, function, arguments, element.dtype, cooperative)
