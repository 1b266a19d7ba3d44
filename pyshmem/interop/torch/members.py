# SPDX-License-Identifier: BSD-3-Clause
"""Members of a process group: how they join a job, become a team and find memory in common.

Allocations are collective over all PEs, process groups are made by their members alone. So the first
group, which has all PEs, takes memory for all from the heaps, and the members of each group agree on a
part of it that is free at all of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ..._core.errors import HeapExhausted, MismatchError
from ...host import creation, runtime
from ...host.members import team_of_members
from ...host.query import heap_info
from ...host.teams import Team
from . import tensors

Interval = tuple[int, int]

#: A group gets this share of the memory: the first, and others. The least that is any use.
_FIRST_SHARE, _SHARE, _LEAST = 4, 32, 64 << 10
_DEFAULT = 64 << 20  # bytes, where a group's options name none


class StoreExchange:
    """Members of a process group who talk through its store; the shape of a communicator, too."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._round = 0

    def __call__(self, data: bytes) -> list[bytes]:
        """The bytes of all members."""
        self._round += 1
        keys = [f"pyshmem/{self._round}/{rank}" for rank in range(self._size)]
        self._store.set(keys[self._rank], data)
        return [self._store.get(key) for key in keys]

    def allgather(self, value: Any) -> list[Any]:
        """The objects of all members."""
        return [pickle.loads(data) for data in self(pickle.dumps(value))]

    def bcast(self, value: Any) -> Any:
        """The object of member 0."""
        return self.allgather(value)[0]

    def Get_rank(self) -> int:
        """As mpi4py's."""
        return self._rank

    def Get_size(self) -> int:
        """As mpi4py's."""
        return self._size


class GroupExchange(StoreExchange):
    """Members of a process group who talk through its own collectives."""

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        self._group = group
        super().__init__(None, dist.get_rank(group), dist.get_world_size(group))

    def __call__(self, data: bytes) -> list[bytes]:
        """The bytes of all members."""
        import torch.distributed as dist

        found: list[Any] = [None] * self._size
        dist.all_gather_object(found, data, group=self._group)
        return found


class Pool:
    """Memory of one heap, the same bytes on all PEs, of which groups take parts."""

    def __init__(self, nbytes: int, heap: str) -> None:
        self.block = tensors.over(creation.zeros(nbytes, np.uint8, heap=heap))
        self.nbytes = nbytes
        self.free: list[Interval] = [(0, nbytes)]

    def take(self, offers: list[list[Interval]]) -> Interval:
        """The first interval that is free at all: of a group's share, halved as often as need be."""
        unused = all(offer == [(0, self.nbytes)] for offer in offers)
        wanted = self.nbytes // (_FIRST_SHARE if unused else _SHARE)
        common = offers[0]
        for offer in offers[1:]:
            common = list(_overlaps(common, offer))
        while wanted >= _LEAST:
            for begin, end in common:
                if end - begin >= wanted:
                    self._remove((begin, begin + wanted))
                    return begin, begin + wanted
            wanted //= 2
        raise HeapExhausted(
            f"no part of the {self.nbytes} bytes for process groups is free at all members: destroy "
            "groups, or give the first one pg_options=pyshmem.interop.torch.Options(staging=...)"
        )

    def _remove(self, taken: Interval) -> None:
        left: list[Interval] = []
        for begin, end in self.free:
            pieces = (begin, min(end, taken[0])), (max(begin, taken[1]), end)
            left += [piece for piece in pieces if piece[0] < piece[1]]
        self.free = left

    def give_back(self, part: Interval) -> None:
        """Make a part free again, joined with its neighbours."""
        joined: list[Interval] = []
        for begin, end in sorted([*self.free, part]):
            if joined and joined[-1][1] == begin:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((begin, end))
        self.free = joined


def _overlaps(one: list[Interval], other: list[Interval]) -> Iterable[Interval]:
    for a, b in one:
        for c, d in other:
            if max(a, c) < min(b, d):
                yield max(a, c), min(b, d)


_pools: dict[str, Pool] = {}
runtime.on_finalize(_pools.clear)


class Members:
    """A process group's team, and its part of the memory on each heap.

    Collective over the members. The first of a job has all PEs, joins them in a job where there is
    none, and takes ``staging`` bytes from each heap; None: see ``Options``.
    """

    def __init__(self, exchange: StoreExchange, staging: int | None) -> None:
        self._joined = not runtime.initialized()
        if self._joined:
            runtime.init(comm=exchange)
        else:
            runtime.init()  # counted: a job lasts as long as its groups
        try:
            if not _pools:
                _make_pools(exchange, staging)
            told = exchange.allgather((runtime.my_pe(), {h: p.free for h, p in _pools.items()}))
            self.team: Team = team_of_members([pe for pe, _ in told], exchange)
            self._parts = {
                heap: pool.take([free[heap] for _, free in told]) for heap, pool in _pools.items()
            }
        except BaseException:
            runtime.finalize()
            raise

    def block(self, heap: str) -> torch.Tensor | None:
        """This group's bytes on a heap; None: it has none there."""
        if heap not in self._parts:
            return None
        begin, end = self._parts[heap]
        return _pools[heap].block[begin:end]

    def leave(self) -> None:
        """Collective over the members: the team ends, and with the last group the job it began."""
        if runtime.initialized():
            self.team.destroy()
            for heap, part in self._parts.items():
                if heap in _pools:
                    _pools[heap].give_back(part)
            runtime.finalize()


def _default_size(heap: str) -> int:
    """The same on all PEs, as their heaps are."""
    info = heap_info(heap)
    large = (
        info.nbytes // 4 >> 20 << 20
        if heap == "device" and info.largest_free >= info.nbytes // 2
        else 0
    )
    return max(_DEFAULT, large)


def _make_pools(exchange: StoreExchange, staging: int | None) -> None:
    members = sorted(exchange.allgather(runtime.my_pe()))
    if members != list(range(runtime.n_pes())):
        raise MismatchError(
            f"the first process group with backend pyshmem has PEs {members}, but the job has "
            f"{runtime.n_pes()}: make one of all PEs before"
        )
    heap_names = ["host", "device"] if runtime.device_name() == "cuda" else ["host"]
    for heap in heap_names:
        _pools[heap] = Pool(_default_size(heap) if staging is None else staging, heap)


def from_process_group(group: Any = None) -> Team:
    """Make the team of a process group's processes, in the order of their ranks.

    Collective over the group. Where there is no job yet its processes become one, which ends by
    ``pyshmem.finalize``; ranks and PEs are then the same.

    Args:
        group: process group of any backend; default the default one.

    Returns:
        The team, to be destroyed by the caller.

    Raises: MismatchError, ShmemError, and what ``pyshmem.init`` raises.
    Extension.
    """
    exchange = GroupExchange(group)
    if not runtime.initialized():
        runtime.init(comm=exchange)
    return team_of_members(exchange.allgather(runtime.my_pe()), exchange)
