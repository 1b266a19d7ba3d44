# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a job on several hosts are killed at random: PEs, launchers, ssh, the command, the link."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest
from of_hosts import Job
from sshd import Hosts

Start = Callable[..., Job]

COUNTS = (2, 1)
STAYS = """
if me != n - 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
stay()
"""


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


def kill_at_random(times: int, hosts: Hosts, start: Start) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for turn in range(times):
        where = ",".join(f"{name}:{n}" for name, n in zip("ab", COUNTS, strict=True))
        job = start(hosts.run("--hosts", where, "--grace", "1"), STAYS)
        told = f"seed {seed}, turn {turn}"
        try:
            job.wait_ready(sum(COUNTS))
            time.sleep(chance.random() * 0.2)
            what, expected, status = kill_something(hosts, job, chance)
            told += f": {what}"
            assert job.process.wait(60) == status, f"{told}\n{job.errors()}"
        finally:
            hosts.link("up")
        assert expected in job.errors(), f"{told}\n{job.errors()}"
        job.assert_nothing_left(20)
        hosts.assert_no_session(20)


def test_random_kills(ssh_hosts: Hosts, start: Start) -> None:
    kill_at_random(20, ssh_hosts, start)


@pytest.mark.long
def test_two_hundred_random_kills(ssh_hosts: Hosts, start: Start) -> None:
    kill_at_random(200, ssh_hosts, start)
