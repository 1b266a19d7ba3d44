# SPDX-License-Identifier: BSD-3-Clause
"""What collectives send over the network of two hosts; each PE of test_two_hosts.py runs it.

Prints the bytes, in sizes of the array, or the packets of a call that leave the hosts of PE 0 and of
the last PE; barriers are among them.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np

import pyshmem

COUNT, CALLS, WORDS = 250_000, 4, 50
#: The first calls of a team are compared, by messages of their own.
os.environ["PYSHMEM_CHECK_FIRST"] = "0"
with pyshmem.init(heap_size="32M") as job:
    n = job.n_pes
    port = next(name for name in os.listdir("/sys/class/net") if name.startswith("pysh"))

    def sent(what):
        return int(open(f"/sys/class/net/{port}/statistics/tx_{what}").read())

    def measure(name, what, n_calls, call):
        call()
        pyshmem.barrier_all()
        before = sent(what)
        for _ in range(n_calls):
            call()
        pyshmem.barrier_all()
        each = (sent(what) - before) / n_calls
        if job.my_pe in (0, n - 1):
            print(name, what, each / (4 * COUNT) if what == "bytes" else each, flush=True)

    source, dest = pyshmem.full(COUNT, 1, dtype=np.float32), pyshmem.zeros(n * COUNT, np.float32)
    team = pyshmem.TEAM_WORLD.split(0, key=job.my_pe)
    for name in ("sum_reduce", "sum_inscan", "fcollect", "collect"):
        call = getattr(pyshmem, name)
        measure(name, "bytes", CALLS, partial(call, dest, source, nelems=COUNT))
        measure(name, "packets", WORDS, partial(call, dest, source, nelems=1))
    measure("broadcast", "bytes", CALLS, partial(pyshmem.broadcast, dest, source, 0, nelems=COUNT))
    measure("sync", "packets", WORDS, team.sync)
    measure("malloc", "packets", WORDS, lambda: pyshmem.free(pyshmem.zeros(4)))
    measure("sync_nb", "packets", WORDS, lambda: pyshmem.sync_nb().wait())
    for name, root in (("broadcast_nb", [0]), ("fcollect_nb", []), ("sum_reduce_nb", [])):
        call = partial(getattr(pyshmem, name), dest, source, *root, nelems=1)
        measure(name, "packets", WORDS, lambda call=call: call().wait())
