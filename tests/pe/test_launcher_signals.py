# SPDX-License-Identifier: BSD-3-Clause
"""Signals to the launcher: which reach the PEs, how long these have, and how the job ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable

import pytest
from watched import IN_BARRIER, PARENTS, PATIENCE, SLEEP, STUBBORN, Job

Start = Callable[..., Job]

#: Takes its time and ends with 0 at the signal NUMBER; until then the PEs meet all the time.
SAVES = """
def save(*_):
    os.write(1, f"saving {me}\\n".encode())
    time.sleep(2.5)  # longer than the launcher gives those whose peer has died
    open(f"saved.{me}", "w").close()
    sys.exit(0)

signal.signal(getattr(signal, NUMBER), save)
with pyshmem.init(heap_size="1M"):
    pyshmem.barrier_all()
    ready()
    while True:
        pyshmem.barrier_all()
        time.sleep(0.01)
"""

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
PASSED = [signal.SIGUSR1, signal.SIGUSR2]


def saved(job: Job) -> list[str]:
    """Which PEs have saved; their files are taken away."""
    files = sorted(job.scratch.glob("saved.*"))
    for file in files:
        file.unlink()
    return [file.suffix for file in files]


@pytest.mark.parametrize("number", [*PASSED, *ENDING])
def test_pes_may_save_and_end(start: Start, number: signal.Signals) -> None:
    """As under a batch system that signals some time before the job's end."""
    job = start(SAVES.replace("NUMBER", repr(number.name)), 3)
    job.wait_ready()
    job.process.send_signal(number)
    clean = number in (*PASSED, signal.SIGTERM)
    assert job.end() == (0 if clean else 128 + number), job.report()
    assert saved(job) == [".0", ".1", ".2"]
    assert ("ended by" in job.report()) != clean
    job.assert_nothing_left()


def test_a_terminated_job_in_which_a_pe_fails_to_save_is_no_success(start: Start) -> None:
    program = SAVES.replace("NUMBER", "'SIGTERM'").replace("exit(0)", "exit(me)")
    job = start(program, 2)
    job.wait_ready()
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in job.launcher_lines()


def test_whoever_asks_is_told_what_the_launcher_waits_for(start: Start) -> None:
    program = SAVES.replace("NUMBER", "'SIGTERM'").replace("2.5", "FOR_GOOD")
    job = start(program, 2, "--grace", "1.5")
    job.wait_ready()
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM
    assert saved(job) == []
    assert "SIGTERM was passed on; PEs 0, 1 may run until 1.5 s after it (--grace)" in job.report()
    assert "PEs 0, 1 did not end and had to be killed" in job.launcher_lines()
    job.assert_nothing_left()


@pytest.mark.parametrize("number", PASSED)
def test_a_signal_for_the_program_ends_nothing(start: Start, number: signal.Signals) -> None:
    program = f"""
seen = []
signal.signal({number:d}, lambda *_: seen.append(1))
child = subprocess.Popen(["sleep", str(FOR_GOOD)])
ready()
while not seen:
    time.sleep(0.01)
assert child.poll() is None, "what a PE has started is not signalled"
child.kill()
"""
    job = start(program, 3)
    job.wait_ready()
    job.process.send_signal(number)
    assert job.end() == 0
    assert job.report() == ""


def test_a_pe_that_a_signal_kills_fails_the_job(start: Start) -> None:
    job = start(
        "if me: signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nready(); time.sleep(FOR_GOOD)", 2
    )
    job.wait_ready()
    job.process.send_signal(signal.SIGUSR1)
    assert job.end() == 128 + signal.SIGUSR1
    assert "PE 0" in job.launcher_lines()
    job.assert_nothing_left()


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("program", [SLEEP, STUBBORN, IN_BARRIER], ids=["sleep", "stub", "barrier"])
def test_a_signal_to_the_launcher_ends_all(start: Start, number: int, program: str) -> None:
    job = start(program, 2, "--grace", "1")
    job.wait_ready()
    job.process.send_signal(number)
    assert job.end() == 128 + number
    assert signal.Signals(number).name in job.launcher_lines()
    job.assert_nothing_left()


def test_a_second_request_waits_for_nobody(start: Start) -> None:
    job = start(STUBBORN, 2, "--grace", "600")
    job.wait_ready()
    for _ in range(PATIENCE * 2):  # those that a launcher which stood still finds together are one
        job.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.process.wait(0.5)
            break
    assert job.end() == 130
    job.assert_nothing_left()


@pytest.mark.parametrize("program", [SLEEP, STUBBORN, IN_BARRIER], ids=["sleep", "stub", "barrier"])
def test_a_launcher_that_is_killed_leaves_nothing(start: Start, program: str) -> None:
    job = start(PARENTS + program, 3)
    job.wait_ready()
    job.process.kill()
    assert job.end() == -signal.SIGKILL
    job.assert_nothing_left(at_once=False)
