# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that the host launches on streams: one call of the device library each.

A key of the contract (``STREAM_KERNEL``, ``STREAM_KEY``) stands for a kernel. Arguments are int64
words; an array of one dimension is seven of them, as Numba passes it. Data that is only moved is bytes,
so one kernel serves every dtype. What a kernel must remember between calls is in device memory, hence
a captured launch is as good as a new one. Outside a job, where the state block is empty, they do
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .._core.contract import STREAM_KERNEL, STREAM_KEY
from .._core.type_table import ELEMENTS, REDUCE_OPS
from .api import collectives, ordering, reduce_scatter, reductions, sync, wait_sets, waits
from .leaf.chosen import state
from .state import ABI

Function = Callable[..., Any]


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
    def kernel(team) -> None:
        if state(ABI) != 0:
            routine(team)

    return kernel


def _data(routine: Function) -> Function:
    def kernel(team, dest, source, nelems) -> None:
        if state(ABI) != 0:
            routine(team, dest, source, nelems)

    return kernel


def _rooted(routine: Function) -> Function:
    def kernel(team, dest, source, nelems, root) -> None:
        if state(ABI) != 0:
            routine(team, dest, source, nelems, root)

    return kernel


def _strided(routine: Function) -> Function:
    def kernel(team, dest, source, dst, sst, nelems) -> None:
        if state(ABI) != 0:
            routine(team, dest, source, dst, sst, nelems)

    return kernel


def _wait(routine: Function) -> Function:
    def kernel(ivar, cmp, value) -> None:
        if state(ABI) != 0:
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


class _Row(NamedTuple):
    module: Any
    routine: str  # with {op}; the scope comes behind it
    make: Callable[[Function], Function]
    arguments: str
    scope: str = "_work_group"  # of the narrow kernel; the wide one is _grid


_ROWS = {
    STREAM_KERNEL.BARRIER_ALL: _Row(sync, "barrier_all", _alone, ""),
    STREAM_KERNEL.QUIET: _Row(ordering, "quiet", _alone, ""),
    STREAM_KERNEL.TEAM_SYNC: _Row(collectives, "team_sync", _of_team, "i"),
    STREAM_KERNEL.BROADCAST: _Row(collectives, "broadcast", _rooted, "ixxii"),
    STREAM_KERNEL.FCOLLECT: _Row(collectives, "fcollect", _data, "ixxi"),
    STREAM_KERNEL.COLLECT: _Row(collectives, "collect", _data, "ixxi"),
    STREAM_KERNEL.ALLTOALL: _Row(collectives, "alltoall", _data, "ixxi"),
    STREAM_KERNEL.ALLTOALLS: _Row(collectives, "alltoalls", _strided, "ixxiii"),
    STREAM_KERNEL.REDUCE: _Row(reductions, "{op}_reduce", _data, "ixxi"),
    STREAM_KERNEL.REDUCE_SCATTER: _Row(reduce_scatter, "{op}_reduce_scatter", _data, "ixxi"),
    STREAM_KERNEL.SCAN: _Row(reductions, "sum_{op}scan", _data, "ixxi"),
    STREAM_KERNEL.WAIT: _Row(waits, "wait_until", _wait, "xii", ""),
    STREAM_KERNEL.WAIT_ALL: _Row(wait_sets, "wait_until_all", _wait_all, "xiii", ""),
    STREAM_KERNEL.WAIT_ANY: _Row(wait_sets, "wait_until_any", _wait_any, "xiiin", ""),
    STREAM_KERNEL.WAIT_SOME: _Row(wait_sets, "wait_until_some", _wait_some, "xiniin", ""),
}


def kernel_of(key: int) -> StreamKernel:
    """The kernel that ``key`` stands for."""
    row = _ROWS[key & ((1 << STREAM_KEY.OP_SHIFT) - 1)]
    number = key >> STREAM_KEY.OP_SHIFT & ((1 << STREAM_KEY.TYPE_SHIFT - STREAM_KEY.OP_SHIFT) - 1)
    op = ("in", "ex")[number] if row.make is _data and "scan" in row.routine else REDUCE_OPS[number]
    element = ELEMENTS[key >> STREAM_KEY.TYPE_SHIFT & 0xFF]
    wide = bool(key & STREAM_KEY.WIDE)
    name = row.routine.format(op=op)
    routine = getattr(row.module, name + ("_grid" if wide else row.scope))
    function = row.make(routine)
    function.__name__ = function.__qualname__ = name + "_on_stream"
    return StreamKernel(name, function, row.arguments, element.dtype, wide)
