# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a job on several hosts are killed at random: PEs, launchers, ssh, the command, the link.

Each is named, and nothing is left: no process, no socket. The PEs of most jobs wait, those of the
others join and then put to each other without end, so that a kill meets them anywhere.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest
from environment import random_seed
from of_hosts import Job
from sshd import Hosts

Start = Callable[..., Job]

COUNTS = (2, 1)
STAYS = """
if me != n - 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
stay()
"""

#: Whose PE 0 is told of a lost host by UCX or by its launcher, whichever comes first.
BUSY = """
import numpy as np
import pyshmem
pyshmem.init(heap_size="8M")
box, right, ones = pyshmem.zeros(5000), (me + 1) % n, np.ones(5000)
while True:
    pyshmem.put_nbi(box, ones, right)
    pyshmem.sum_reduce(box[:2], box[:2])
"""
#: Seconds that a host has which was cut off, to clear itself.
CLEARED = 15


def kill_something(hosts: Hosts, job: Job, chance: random.Random) -> tuple[str, str, int]:
    """What was killed, what the job has to say of it, and its exit status."""
    pe = chance.randrange(sum(COUNTS))
    host = "ab"[pe // COUNTS[0]]
    what = chance.choice(["pe", "agent", "ssh", "head", "interrupt", "link"])
    if what == "pe":
        job.pes[pe].process.kill()
        return what, f"host {host}: PE {pe} ", 137
    if what == "agent":
        job.pes[pe].agent.kill()
        return what, f"host {host} was lost", 1
    if what == "ssh":
        job.ssh_to(pe).kill()
        return what, f"host {host} was lost", 1
    if what == "link":
        hosts.link("down")
        return what, "host b was lost", 1
    if what == "interrupt":
        job.process.send_signal(signal.SIGINT)
        return what, "ended by SIGINT", 130
    job.process.kill()
    return what, "", -signal.SIGKILL


def assert_cleared(hosts: Hosts, job: Job, told: str) -> None:
    try:
        job.assert_nothing_left(CLEARED)
    except AssertionError as error:
        raise AssertionError(f"{told}\n{error}") from None
    hosts.link("up")
    hosts.assert_no_session(20)
    hosts.assert_no_socket(20)


def kill_at_random(times: int, idle: int, hosts: Hosts, start: Start) -> None:
    """``idle`` jobs, then one that works, and so on."""
    seed = random_seed()
    chance = random.Random(seed)
    for turn in range(times):
        where = ",".join(f"{name}:{n}" for name, n in zip("ab", COUNTS, strict=True))
        busy = turn % (idle + 1) == idle
        job = start(hosts.run("--hosts", where, "--grace", "1"), BUSY if busy else STAYS)
        told = f"seed {seed}, turn {turn}"
        try:
            job.wait_ready(sum(COUNTS))
            time.sleep(chance.random() * (3 if busy else 0.2))
            what, expected, status = kill_something(hosts, job, chance)
            print(turn, "busy" if busy else "idle", what, flush=True)
            told += f": {what}"
            assert job.process.wait(60) == status, f"{told}\n{job.errors()}"
            if busy and what == "link":
                expected = "host b"
            assert expected in job.errors(), f"{told}\n{job.errors()}"
            assert_cleared(hosts, job, told)
        finally:
            hosts.link("up")


@pytest.mark.timeout(600)
def test_random_kills(ssh_hosts: Hosts, start: Start) -> None:
    kill_at_random(17, 4, ssh_hosts, start)  # 20 with those of test_kills_of_others.py


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_hundred_random_kills(ssh_hosts: Hosts, start: Start) -> None:
    kill_at_random(200, 2, ssh_hosts, start)
