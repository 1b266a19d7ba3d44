# SPDX-License-Identifier: BSD-3-Clause
"""Blocks with rings of their own take turns in a team's collectives, while rings stand still.

What a later call stores, and the flags that it raises, come behind what an earlier one did, though no
queue puts them in order. A PE's flag is late, as its ring stands behind a handler; it passes all the
same, by the others' flags, and the next block raises the next flag, by another ring. The others see
that one, and are busy until the late flag has come: had it gone back, they would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

BLOCKS = """
    import ctypes

    import numpy as np
    import pyshmem
    from numba import cuda
    from pyshmem import device as shmem

    N, CALLS, BLOCKS, SYNC = 5, 27, 6, 6

    @cuda.jit
    def turns(team, turn, kinds, source, dest, handler, holds, pauses):
        n = shmem.team_n_pes(team)
        for i in range(CALLS):
            if i % BLOCKS == cuda.blockIdx.x:
                shmem.wait_until(turn, shmem.CMP_EQ, i)
                if holds[i] > 0:
                    shmem.post(handler, holds[i], 0, 0, 0)
                kind, mine, got = kinds[i], source[i], dest[i]
                if kind == 0:
                    shmem.broadcast(team, got[:N], mine[:N], N, i % n)
                elif kind == 1:
                    shmem.fcollect(team, got[: N * n], mine[:N], N)
                elif kind == 2:
                    shmem.alltoall(team, got[: N * n], mine[: N * n], N)
                elif kind == 3:
                    shmem.sum_reduce(team, got[:N], mine[:N], N)
                elif kind == 4:
                    shmem.sum_reduce_scatter(team, got[:N], mine[: N * n], N)
                elif kind == 5:
                    shmem.put(got[:N], mine[:N], (shmem.my_pe() + 1) % n)
                    shmem.barrier_all()
                    shmem.team_sync(team)
                else:
                    shmem.team_sync(team)
                for _ in range(pauses[i]):
                    shmem.my_pe()
                turn[0] = i + 1

    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        kinds = np.array([i // 3 % SYNC if i % 3 == 2 else SYNC for i in range(CALLS)])
        late = np.arange(CALLS) // 3 % n  # whose flag
        holds = np.where((late == me) & (np.arange(CALLS) % 3 == 0), 20_000, 0)
        pauses = np.where((late != me) & (np.arange(CALLS) % 3 == 0), 100_000, 0)
        source = pyshmem.zeros((CALLS, N * n), dtype=np.int64, heap="device")
        dest = pyshmem.zeros((CALLS, N * n), dtype=np.int64, heap="device")
        of = [np.arange(N * n) + 1000 * pe + 100_000 * np.arange(CALLS)[:, None] for pe in range(n)]
        pyshmem.put(source, of[me], me)
        turn = pyshmem.zeros(1, dtype=np.int64, heap="device")
        usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value
        team = pyshmem.TEAM_WORLD.split_strided(0, 1, n)
        pyshmem.barrier_all()
        turns[BLOCKS, 1](
            shmem.as_argument(team), shmem.as_argument(turn), kinds, shmem.as_argument(source),
            shmem.as_argument(dest), int(pyshmem.register_handler(usleep)), holds, pauses,
        )
        cuda.synchronize()
        pyshmem.barrier_all()
        got = pyshmem.to_numpy(dest)
        part = slice(me * N, me * N + N)
        for i, kind in enumerate(kinds):
            rows = [each[i] for each in of]
            want = [
                rows[i % n][:N], np.concatenate([row[:N] for row in rows]),
                np.concatenate([row[part] for row in rows]), sum(row[:N] for row in rows),
                sum(row[part] for row in rows), rows[me - 1][:N], [],
            ][kind]
            assert (got[i][: len(want)] == want).all(), (i, kind, got[i], want)
        print("right")
"""

SETTINGS = [
    (2, {"PYSHMEM_P2P": "0", "PYSHMEM_RINGS": "2"}),
    (3, {"PYSHMEM_NODE_SIZE": "1", "PYSHMEM_RINGS": "3"}),
    (4, {"PYSHMEM_NODE_SIZE": "2", "PYSHMEM_RINGS": "2"}),
]


@pytest.mark.parametrize(("n", "settings"), SETTINGS, ids=["ring", "hosts", "two hosts"])
def test_collectives_of_blocks_that_take_turns_keep_their_order(
    n: int, settings: dict[str, str], run_pes: Callable
) -> None:
    limit = {"PYSHMEM_TIMEOUT": "20"}
    done = run_pes(n, BLOCKS, device="sim", env=settings | limit, check=True)
    assert done.stdout.split() == ["right"] * n
