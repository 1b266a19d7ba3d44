# SPDX-License-Identifier: BSD-3-Clause
"""However a job ends, it leaves no process, socket, segment or file, and says what happened."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable

import psutil
import pytest
from watched import IN_BARRIER, PARENTS, STUBBORN, Job

Start = Callable[..., Job]


# ---- the job itself ----------------------------------------------------------------------------


def test_success_leaves_nothing(start: Start, n_pes: int) -> None:
    job = start("pyshmem.init(); ready(); pyshmem.barrier_all()", n_pes)
    job.wait_ready()
    assert job.end() == 0
    assert job.report() == ""
    job.assert_nothing_left()


def test_what_the_pes_left_running_is_ended_and_told(start: Start) -> None:
    job = start(PARENTS + "ready()", 2)
    job.wait_ready()
    assert job.end() == 0
    assert "ended 4 process" in job.report()
    job.assert_nothing_left()


def test_a_pe_that_raises_ends_the_others(start: Start) -> None:
    job = start(
        """
pyshmem.init()
pyshmem.barrier_all()
ready()
if me == 1:
    raise ValueError("seven is not eight")
pyshmem.barrier_all()
""",
        3,
    )
    job.hear_out()
    assert job.end() == 1
    report = job.launcher_lines()
    assert re.search(rf"PE 1 \(pid {job.pids[1]}\) ended with exit code 1", report)
    assert "ValueError: seven is not eight" in report
    assert "program.py" in report
    job.assert_nothing_left()


def test_a_pe_that_failed_on_its_way_out_is_not_told_as_one_that_is_done(start: Start) -> None:
    job = start("with pyshmem.init():\n    ready()\n    pyshmem.zeros(4 + me)", 2)
    job.wait_ready()
    assert job.end() == 1
    report = job.launcher_lines()
    assert "MismatchError" in report
    assert "finalised" not in report
    job.assert_nothing_left()


def test_a_pe_killed_in_its_work_is_named_with_the_place_of_the_others(start: Start) -> None:
    job = start(IN_BARRIER, 4)
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    report = job.launcher_lines()
    assert re.search(rf"PE 1 \(pid {job.pids[1]}\) was killed by SIGKILL", report)
    # As the launcher found them, or as they say themselves when it comes too late.
    assert re.search("in barrier_all for|died while this PE was in barrier_all", job.report())
    job.assert_nothing_left()


def test_a_pe_killed_inside_barrier_all(start: Start) -> None:
    job = start(IN_BARRIER, 3)
    job.wait_ready()
    os.kill(job.pids[2], signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    assert re.search(r"PE 2 was: in barrier_all", job.launcher_lines())
    job.assert_nothing_left()


def test_a_crash_shows_signal_and_python_lines(start: Start) -> None:
    job = start(
        "ready()\nif me == 1:\n    import ctypes; ctypes.string_at(8)\ntime.sleep(FOR_GOOD)", 2
    )
    job.hear_out()
    assert job.end() == 128 + signal.SIGSEGV
    assert "SIGSEGV" in job.launcher_lines()
    assert "program.py" in job.report()
    job.assert_nothing_left()


def test_a_syntax_error_on_one_pe_ends_those_that_wait_in_init(start: Start) -> None:
    job = start("if me == 1: compile('def f(:', 'other.py', 'exec')\npyshmem.init()", 3)
    assert job.end() == 1
    report = job.launcher_lines()
    assert re.search(r"^pyshmem: PE 1 \(", report)
    assert "SyntaxError" in report
    job.assert_nothing_left()


def test_the_failing_exit_code_is_the_jobs(start: Start) -> None:
    job = start("ready()\nif me == 1: sys.exit(7)\ntime.sleep(FOR_GOOD)", 2)
    job.hear_out()
    assert job.end() == 7
    job.assert_nothing_left()


def test_a_pe_that_ends_early_with_0_is_no_failure(start: Start) -> None:
    job = start("if me: time.sleep(0.5)", 3)
    assert job.end() == 0
    assert job.report() == ""


def test_pes_that_ignore_every_signal_are_ended_too(start: Start) -> None:
    job = start(STUBBORN, 3)
    job.wait_ready()
    os.kill(job.pids[0], signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    job.assert_nothing_left()


def test_timeout_says_where_each_pe_stood(start: Start) -> None:
    for seconds in (2, 8, 32):  # a slow machine takes as long to start
        job = start(IN_BARRIER, 3, "--timeout", str(seconds))
        assert job.end() == 124
        report = job.launcher_lines()
        assert f"job still running after {seconds} s" in report
        if "in barrier_all" in report and "PE 1: running" in report:
            break
    assert "in barrier_all" in report
    assert "PE 1: running" in report
    job.assert_nothing_left()


# ---- output --------------------------------------------------------------------------------------


def test_lines_are_tagged_with_their_pe(start: Start) -> None:
    job = start("print('out'); print('err', file=sys.stderr)", 2, "--tag")
    assert job.end() == 0
    assert job.process.stdout is not None
    assert sorted(job.process.stdout.read().splitlines()) == ["[0] out", "[1] out"]
    assert sorted(job.report().splitlines()) == ["[0] err", "[1] err"]


def test_a_lot_of_output_passes_whole(start: Start) -> None:
    # A line a write: a PE that stands still in the middle of a line has it passed on in two parts.
    job = start("for i in range(20000): sys.stderr.write(f'{me} {i} ' + 'x' * 50 + '\\n')", 3)
    assert job.end(60) == 0
    lines = job.report().splitlines()
    assert len(lines) == 60000
    assert [line for line in lines if not re.fullmatch(r"\d \d+ x{50}", line)] == []


# ---- many jobs -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_jobs_killed_at_random_moments_leave_nothing(start: Start) -> None:
    """A third of the jobs loses a PE or the launcher; ``PYSHMEM_TEST_JOBS`` of them, default 12."""
    generator = random.Random(1)
    program = "pyshmem.init(); ready()\nfor i in range(20): pyshmem.barrier_all(); time.sleep(0.01)"
    for index in range(int(os.environ.get("PYSHMEM_TEST_JOBS", "12"))):
        job = start(program, 4)
        if index % 3 == 0:
            time.sleep(generator.uniform(0, 0.8))
            launcher = psutil.Process(job.process.pid)
            victim = generator.choice([launcher, *launcher.children(recursive=True)])
            with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended meanwhile
                victim.kill()
        job.end()
        job.assert_nothing_left(at_once=False)
        job.close()
