# SPDX-License-Identifier: BSD-3-Clause
"""Members of a process group: how they join a job, become a team and find memory in common.

Allocations are collective over all PEs, process groups are made by their members alone. So the first
group, which has all PEs, takes memory for all from the heaps, and the members of each group agree on a
part of it that is free at all of them.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from .._core.errors import HeapExhausted, MismatchError, ShmemTimeout
from .._core.library import setting_number
from ..host.job import runtime
from ..host.memory import creation
from ..host.query import heap_info
from ..host.teams.made_by_members import team_of_members
from ..host.teams.team import Team
from . import tensors

Interval = tuple[int, int]
Offer = dict[str, list[Interval]]  # what is free at a member, by heaps

#: A group gets this share of the memory: the first, and others. The least bytes that are any use.
_FIRST_SHARE, _SHARE, _LEAST, _LEAST_OF_A_MEMBER = 4, 32, 64 << 10, 2 << 10
_LINE = 4096  # bytes that parts are multiples of
_DEFAULT = 64 << 20  # bytes, where a group's options name none

#: What an answer in an exchange begins with; how long the store is kept for members that read it.
_GIVEN, _FAILED = b"+", "-"
_LEAVING = timedelta(seconds=10)


def least_bytes(n_members: int) -> int:
    """The smallest block that serves a group."""
    return max(_LEAST, _LEAST_OF_A_MEMBER * n_members // _LINE * _LINE)


class StoreExchange:
    """Members of a process group who talk through its store; the shape of a communicator, too."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._round = 0
        # A store may outlive its groups, and torch gives their names again: not so what was said then.
        self._time = store.add(f"pyshmem/times/{rank}", 1) if store is not None else 0

    def _key(self, about: object, rank: int) -> str:
        return f"pyshmem/{self._time}/{about}/{rank}"

    def __call__(self, data: bytes) -> list[bytes]:
        """The bytes of all members.

        Raises: MismatchError (a member failed in ``together``), ShmemTimeout (a member does not come).
        """
        self._round += 1
        self._store.set(self._key(self._round, self._rank), _GIVEN + data)
        told = []
        for rank in range(self._size):
            self._await(rank)
            answer = self._store.get(self._key(self._round, rank))
            if answer[:1] != _GIVEN:
                raise MismatchError(
                    f"rank {rank} could not make the process group: {answer[1:].decode()}"
                )
            told.append(answer[1:])
        return told

    def _await(self, rank: int) -> None:
        """Until a member has come, or the time is over: the store's, or PYSHMEM_TIMEOUT.

        After PYSHMEM_REPORT_AFTER it is told who has not come.
        """
        key, whole = [self._key(self._round, rank)], self._store.timeout
        if deadline := setting_number("TIMEOUT"):
            whole = min(whole, timedelta(microseconds=deadline / 1000))
        first = timedelta(microseconds=setting_number("REPORT_AFTER") / 1000)
        if not timedelta(0) < first < whole:
            first = timedelta(0)
        elif self._comes(key, first):
            return
        else:
            print(f"pyshmem: {self._late(first)}; waiting on", file=sys.stderr, flush=True)
        if not self._comes(key, whole - first):
            raise ShmemTimeout(self._late(whole))

    def _comes(self, key: list[str], within: timedelta) -> bool:
        try:
            self._store.wait(key, within)
        except dist.DistStoreError:
            return False
        return True

    def _late(self, waited: timedelta) -> str:
        late = [str(rank) for rank in range(self._size) if not self._has_come(rank)]
        who = f"rank {late[0]} has" if len(late) == 1 else f"ranks {', '.join(late)} have"
        return (
            f"{who} not come to make the process group of {self._size} ranks in "
            f"{waited.total_seconds():g} s: all ranks of the job call init_process_group and new_group, "
            "also those that are not in the new group, in the same order"
        )

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What fails in the block on one member fails on all, in the next exchange of the others."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(Exception):  # the store may be what has failed
                self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        text = f"{_FAILED}{type(error).__name__}: {error}".encode()
        self._store.set(self._key(self._round + 1, self._rank), text)
        self._store.set(self._key("left", self._rank), b"left")
        if self._rank == 0 and isinstance(error, Exception):  # its process may serve the store
            late = isinstance(error, ShmemTimeout)
            ranks = range(self._size)
            here = [r for r in ranks if self._has_come(r)] if late else ranks
            self._store.wait([self._key("left", rank) for rank in here], _LEAVING)

    def _has_come(self, rank: int) -> bool:
        """Whether a member has come to this exchange."""
        return bool(self._store.check([self._key(self._round, rank)]))

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
    """Members of a process group who talk through its own collectives.

    ``gpu`` is the number of the one that this member takes in a job that begins; None: that of its rank.
    """

    def __init__(self, group: Any, gpu: int | None = None) -> None:
        self._group, self.gpu = group, gpu
        super().__init__(None, dist.get_rank(group), dist.get_world_size(group))

    def __call__(self, data: bytes) -> list[bytes]:
        """The bytes of all members."""
        found: list[Any] = [None] * self._size
        dist.all_gather_object(found, data, group=self._group)
        return found


class Pool:
    """Memory of one heap, the same bytes on all PEs, of which groups take parts."""

    def __init__(self, nbytes: int, heap: str) -> None:
        self.array = creation.zeros(nbytes, np.uint8, heap=heap)
        self.block = tensors.over(self.array)
        self.nbytes = nbytes
        self.free: list[Interval] = [(0, nbytes)]

    def take(self, offers: list[list[Interval]]) -> Interval:
        """The first interval that is free at all: of a group's share, halved as often as need be.

        An eighth of what is left is the most, so that late groups get little rather than nothing.
        """
        unused = all(offer == [(0, self.nbytes)] for offer in offers)
        common = offers[0]
        for offer in offers[1:]:
            common = list(_overlaps(common, offer))
        left = sum(end - begin for begin, end in common)
        share = self.nbytes // _FIRST_SHARE if unused else min(self.nbytes // _SHARE, left // 8)
        least = least_bytes(len(offers))
        wanted = max(share // _LINE * _LINE, least)
        while True:
            for begin, end in common:
                if end - begin >= wanted:
                    self._remove((begin, begin + wanted))
                    return begin, begin + wanted
            if wanted == least:
                break
            wanted = max(wanted // 2 // _LINE * _LINE, least)
        raise HeapExhausted(
            f"no part of the {self.nbytes} bytes for process groups is free at all members: destroy "
            "groups, or give the first one pg_options=pyshmem.interop.torch.Options(staging=...)"
        )

    def take_bytes(self, wanted: int) -> Interval:
        """The first free interval of so many bytes, of this PE alone. Raises: HeapExhausted."""
        for begin, end in self.free:
            if end - begin >= wanted:
                self._remove((begin, begin + wanted))
                return begin, begin + wanted
        raise HeapExhausted(
            f"no {wanted} bytes in a row are free of the block of {self.nbytes} on the heap"
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
        joined, wanted = zip(*exchange.allgather((runtime.initialized(), staging)), strict=True)
        if len(set(joined)) > 1:
            raise MismatchError(
                f"ranks {[rank for rank, one in enumerate(joined) if one]} are in a job of pyshmem, the "
                "others are not: call pyshmem.init on all of them before, or on none"
            )
        if len(set(wanted)) > 1:
            raise MismatchError(
                f"Options(staging=...) differs: ranks 0, 1, ... give {wanted} bytes"
            )
        runtime.init(
            comm=None if joined[0] else exchange
        )  # counted: a job lasts as long as its groups
        self._parts: dict[str, Interval] = {}
        team = None
        try:
            told = exchange.allgather((runtime.my_pe(), {h: p.free for h, p in _pools.items()}))
            pes = [pe for pe, _ in told]
            offers = _ready_pools(pes, [free for _, free in told], staging)
            self.team: Team = team_of_members(pes, exchange)
            team = self.team
            for heap, pool in _pools.items():
                self._parts[heap] = pool.take([free[heap] for free in offers])
        except BaseException:
            self._give_back()
            if team is not None:
                team.destroy()
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
            self._give_back()
            runtime.finalize()

    def _give_back(self) -> None:
        for heap, part in self._parts.items():
            if heap in _pools:
                _pools[heap].give_back(part)


def _default_size(heap: str) -> int:
    """The same on all PEs, as their heaps are."""
    info = heap_info(heap)
    large = (
        info.memory // 4 >> 20 << 20
        if heap == "device" and min(info.largest_free, info.memory - info.used) >= info.memory // 2
        else 0
    )
    return max(_DEFAULT, large)


def _ready_pools(pes: Sequence[int], offers: Sequence[Offer], staging: int | None) -> list[Offer]:
    """Make the pools where there are none, or of another size where nobody uses them.

    Args:
        pes: the members'.
        offers: what is free in the pools of each; the same on all members, and so is what is done.
        staging: what their options say.

    Returns:
        What is free at each now.
    """
    sizes = {pool.nbytes for pool in _pools.values()}
    if sizes and (staging is None or sizes == {staging}):
        return list(offers)
    n_pes, unused = runtime.n_pes(), {heap: [(0, pool.nbytes)] for heap, pool in _pools.items()}
    if sorted(pes) != list(range(n_pes)):
        if sizes:
            raise ValueError(
                f"Options(staging=...) is {staging} bytes, but the groups of the job share {sizes}: it "
                "counts for the first group, of all PEs"
            )
        raise MismatchError(
            f"the first process group with backend pyshmem has PEs {sorted(pes)}, but the job has "
            f"{n_pes}: make one of all PEs before"
        )
    if any(offer != unused for offer in offers):
        raise ValueError(
            f"Options(staging=...) is {staging} bytes, but groups of the job share {sizes} already: "
            "destroy them all before, or leave staging out"
        )
    if staging is not None and staging < _FIRST_SHARE * least_bytes(n_pes):
        raise ValueError(
            f"Options(staging=...) is {staging} bytes, too few for groups of {n_pes} PEs: give "
            f"{_FIRST_SHARE * least_bytes(n_pes)} or more"
        )
    _make_pools(staging)
    return [{heap: list(pool.free) for heap, pool in _pools.items()}] * n_pes


def _make_pools(staging: int | None) -> None:
    """Collective over all PEs. Memory of pools that were there goes back with its last tensor."""
    _pools.clear()
    heap_names = ["host", "device"] if runtime.device_name() == "cuda" else ["host"]
    try:
        for heap in heap_names:
            _pools[heap] = Pool(_default_size(heap) if staging is None else staging, heap)
    except BaseException:
        _pools.clear()  # all, or none
        raise


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
