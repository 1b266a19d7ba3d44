# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a job that another launcher started are killed at random: PEs, its agents, the link.

All end, also the PEs of an agent that is gone, and nothing is left. What a PE says of another that died
stands beside what the launcher says.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from environment import listing, random_seed
from of_hosts import Job
from others import mpirun, on, prterun, torchrun
from sshd import Hosts

Start = Callable[..., Job]

#: PEs of each host.
N = 2
READY = """
import itertools, os, sys, time
import numpy as np
import pyshmem
pyshmem.init(heap_size="8M", device="none")
me, n = pyshmem.my_pe(), pyshmem.n_pes()
os.write(1, f"ready {me} {os.getpid()} {os.getppid()}\\n".encode())
box, right, ones = pyshmem.zeros(5000), (me + 1) % n, np.ones(5000)
for turn in itertools.count():
    pyshmem.put_nbi(box, ones, right)
    pyshmem.sum_reduce(box[:2], box[:2])
    if me == 0 and turn % 20 == 0:
        time.sleep(0.3)  # a wait of the others in which they look for their launcher
"""
#: Seconds that what is left of a job has to clear itself.
CLEARED = 20
SEEN = ("pyshmem", "ucx_shm")
#: What is killed; where there are many turns, agents too.
KINDS = ["pe", "link", "interrupt"]
#: By a PE of the job, or by its launcher.
NAMED = r"PE \d (on host \S+|\(pid \d+\)) died|[Rr]ank\s*:?\s*\d|exitcode"


def by_mpi(begin: Callable[..., list[str]]) -> Callable[..., list[Job]]:
    def jobs(hosts: Hosts, start: Start, agent: str, chance: random.Random) -> list[Job]:
        command = on(hosts, 0, *begin(hosts, agent, N))
        hands_on = ("-x", "PYSHMEM_TEST_MARK", sys.executable)
        return [start(command, "", hands_on=hands_on, begin=READY, PYSHMEM_CONDUIT="ucx")]

    return jobs


def by_torchrun(hosts: Hosts, start: Start, agent: str, chance: random.Random) -> list[Job]:
    port = 29600 + chance.randrange(300)
    commands = [on(hosts, k, *torchrun(hosts, k, port, N)) for k in range(2)]
    one = {"OMP_NUM_THREADS": "1"}
    return [start(command, "", hands_on=(), begin=READY, **one) for command in commands]


WAYS: dict[str, Callable[..., list[Job]]] = {
    "mpirun": by_mpi(mpirun),
    "prterun": by_mpi(prterun),
    "torchrun": by_torchrun,
}


def in_shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if any(part in name for part in SEEN)}


def kill_something(hosts: Hosts, jobs: list[Job], chance: random.Random, kinds: list[str]) -> str:
    """What was killed, and where."""
    job = chance.choice(jobs)
    pe, found = chance.choice(sorted(job.pes.items()))
    what = chance.choice(kinds)
    if what == "pe":
        found.process.kill()
    elif what == "agent":
        found.agent.kill()
    elif what == "link":
        hosts.link("down")
    else:
        found.agent.send_signal(signal.SIGINT)
    return f"{what} of PE {pe}"


def assert_ended(hosts: Hosts, jobs: list[Job], what: str, told: str) -> None:
    pes = [found.process for job in jobs for found in job.pes.values()]
    _, left = psutil.wait_procs(pes, 40)
    errors = "\n".join(job.errors() for job in jobs)
    assert not left, f"{told}\n{listing(left)}\n{errors}"
    hosts.link("up")  # mpirun and prterun wait for their agents for as long as it is down
    for job in jobs:
        status = job.process.wait(60)
        # prterun ends with 0 where its agent is gone.
        assert status or not what.startswith("pe"), f"{told}\n{job.errors()}"
        job.assert_nothing_left(CLEARED)
    if what.startswith(("pe", "link")):
        assert re.search(NAMED, errors), f"{told}\n{errors}"
    hosts.assert_no_socket(20)


def kill_at_random(
    way: str, times: int, kinds: list[str], hosts: Hosts, start: Start, agent: str
) -> None:
    seed = random_seed()
    chance = random.Random(seed)
    before = in_shared_memory()
    for turn in range(times):
        jobs = WAYS[way](hosts, start, agent, chance)
        told = f"seed {seed}, turn {turn}"
        try:
            for job in jobs:
                job.wait_ready(2 * N // len(jobs))
            time.sleep(chance.random())
            what = kill_something(hosts, jobs, chance, kinds)
            print(turn, what, flush=True)
            assert_ended(hosts, jobs, what, f"{told}: {what}")
            assert in_shared_memory() <= before, told
        finally:
            hosts.link("up")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
def test_random_kills_under_other_launchers(
    way: str, ssh_hosts: Hosts, start: Start, agent: str
) -> None:
    kill_at_random(way, 1, KINDS, ssh_hosts, start, agent)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", WAYS)
def test_fifty_random_kills_under_other_launchers(
    way: str, ssh_hosts: Hosts, start: Start, agent: str
) -> None:
    kill_at_random(way, 50, [*KINDS, "agent"], ssh_hosts, start, agent)
