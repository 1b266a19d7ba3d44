# SPDX-License-Identifier: BSD-3-Clause
"""A program for nodes of 2 PEs: what collectives of kernels cost that send the same bytes to all.

Its argument is how many bytes a message has room for. Teams are divided by the nodes in several ways.
"""

import sys

import numpy as np
from numba import cuda

import pyshmem
from pyshmem import device as shmem

DATA = int(sys.argv[1])  # bytes of a message
job = pyshmem.init(heap_size="8M", device_heap_size="64M")
me, n = job.my_pe, job.n_pes


@cuda.jit
def sync(team):
    shmem.team_sync_work_group(team)


@cuda.jit
def fcollect(team, dest, source, nelems):
    shmem.fcollect_work_group(team, dest, source, nelems)


@cuda.jit
def collect(team, dest, source, nelems):
    shmem.collect_work_group(team, dest, source, nelems)


@cuda.jit
def broadcast(team, dest, source, nelems):
    shmem.broadcast_work_group(team, dest, source, nelems, 1)


@cuda.jit
def reduce(team, dest, source, nelems):
    shmem.sum_reduce_work_group(team, dest, source, nelems)


def sent(team, kernel, *arguments):
    """Messages, bytes and requests for puts that a launch costs this PE; no member is behind."""

    def figures():
        pyshmem.quiet()
        stats = pyshmem.proxy_stats()
        puts = [row.requests for name, row in stats.operations.items() if name in ("put", "spread")]
        return np.array([stats.am_messages, stats.am_bytes, sum(puts)])

    team.sync()
    before = figures()
    kernel[1, 8](shmem.as_argument(team), *arguments)
    cuda.synchronize()
    return (figures() - before).tolist()


def pieces(nbytes, room):
    return [min(room, nbytes - at) for at in range(0, nbytes, room)]


def check(team, flags, nelems):
    members = team.pes()
    size, mine, nbytes = len(members), members.index(me), 8 * nelems
    far = sum(pyshmem.ptr(dest, pe) is None for pe in members)
    if MAPPED:
        far = len({pe // 2 for pe in members} - {me // 2})

    def once(nbytes, room=1 << 30):
        """What it costs to send to each far node once, with a round of flags for each piece."""
        parts = pieces(nbytes, room)
        messages = sum(far * len(pieces(part, DATA)) + flags for part in parts)
        return [messages, far * nbytes, len(parts) * (far > 0)]

    def values(pe):
        return np.arange(nelems) % 91 + 1000.0 * pe

    to, begin = dest[: nelems * size], source[:nelems]
    pyshmem.put(begin, values(me), me)

    assert sent(team, fcollect, to, begin, nelems) == once(nbytes)
    together = np.concatenate([values(pe) for pe in members])
    assert (pyshmem.to_numpy(to) == together).all()

    cost = sent(team, collect, to, begin, nelems - mine)  # of the counts, and then of the data
    assert cost == np.add(once(8), once(nbytes - 8 * mine)).tolist()
    uneven = np.concatenate([values(pe)[: nelems - k] for k, pe in enumerate(members)])
    assert (pyshmem.to_numpy(to)[: len(uneven)] == uneven).all()

    cost = sent(team, broadcast, to, begin, nelems)
    assert cost == (once(nbytes) if mine == 1 else [flags, 0, 0])
    assert (pyshmem.to_numpy(to)[:nelems] == values(members[1])).all()

    room = 65536 // size & ~15  # of a member on a stage
    assert sent(team, reduce, to, begin, nelems) == once(nbytes, room)
    assert (pyshmem.to_numpy(to)[:nelems] == sum(values(pe) for pe in members)).all()


source, dest = pyshmem.zeros(5000, heap="device"), pyshmem.zeros(5000 * n, heap="device")
#: Else, as on two hosts that are none and must not share memory, each member is far, and gets its own.
MAPPED = all(pyshmem.ptr(dest, pe) is not None for pe in range(n) if pe // 2 == me // 2)
print("mapped" if MAPPED else "apart", flush=True)
turns = [*range(0, n, 2), *range(1, n, 2)]  # 0 2 1 3: the nodes take turns
lists = [turns, turns[::-1], list(range(1, n, 2)), [n - 1, *range(n // 2)]]
for team in [pyshmem.TEAM_WORLD, *map(pyshmem.Team.from_pes, lists)]:
    if team is not None:
        flags = sent(team, sync)[0]
        for nelems in (7, 33, 5000):
            check(team, flags, nelems)
    pyshmem.barrier_all()
print("ok", flush=True)
pyshmem.finalize()
