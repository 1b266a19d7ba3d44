# SPDX-License-Identifier: BSD-3-Clause
"""However a job ends, it leaves no process, socket, segment or file, and says what happened."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

GONE_WITHIN = 2.0  # seconds from the cause to the end of the last process
SLACK = 1.5  # for a loaded machine, in which Python itself starts and ends slowly

PRELUDE = """
import os, signal, subprocess, sys, time
import pyshmem
me, n = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])
def ready():
    # One line a PE, in one write: the tests wait for it.
    os.write(1, f"ready {os.environ['PYSHMEM_JOB']} {me} {os.getpid()}\\n".encode())
"""


class Job:
    """A job that runs, and what can be asked of it."""

    def __init__(self, folder: Path, program: str, n: int, *options: str) -> None:
        self.mark = uuid.uuid4().hex
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        script = folder / "program.py"
        script.write_text(PRELUDE + program)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSHMEM_")}
        environment |= {"CLEANUP_TEST": self.mark, "TMPDIR": str(self.scratch)}
        self.n = n
        self.pids: dict[int, int] = {}
        self.name = ""
        self.errors = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pyshmem",
                "run",
                "-n",
                str(n),
                "--device",
                "none",
                *options,
                str(script),
            ],
            cwd=self.scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        """Until each PE has called ``ready()``."""
        assert self.process.stdout is not None
        while len(self.pids) < self.n:
            line = self.process.stdout.readline()
            assert line, f"the job ended before it was ready:\n{self.report()}"
            if line.startswith("ready "):
                _, self.name, pe, pid = line.split()
                self.pids[int(pe)] = int(pid)

    def end(self, timeout: float = 30) -> int:
        """The exit status of the launcher."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the job did not end in {timeout} s; it left {self.alive()}")

    def report(self) -> str:
        """What was written to stderr."""
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()

    def alive(self) -> list[psutil.Process]:
        """Processes of the job: by an inherited variable, or by the job's name in their command."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                named = bool(self.name) and self.name in process.cmdline()
                if named or process.environ().get("CLEANUP_TEST") == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def assert_nothing_left(self, within: float = 0.0) -> None:
        deadline = time.monotonic() + within
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.alive() == []
        if self.name:
            assert self.name not in Path("/proc/net/unix").read_text()
            assert not [name for name in os.listdir("/dev/shm") if self.name in name]
        assert list(self.scratch.iterdir()) == []

    def close(self) -> None:
        for process in [*self.alive(), self.process]:
            try:
                process.kill()
            except psutil.Error:
                continue
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()


Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(program, n, *options)``: a job that is ended with the test."""
    jobs: list[Job] = []

    def begin(program: str, n: int, *options: str) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Job(folder, program, n, *options))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


IN_BARRIER = """
pyshmem.init()
pyshmem.barrier_all()
ready()
if me == 1:
    time.sleep(60)
pyshmem.barrier_all()
"""

SLEEP = """
ready()
time.sleep(60)
"""

STUBBORN = """
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
ready()
while True:
    time.sleep(60)
"""

PARENTS = """
subprocess.Popen(["sleep", "60"])
subprocess.Popen(["sleep", "60"], start_new_session=True)
"""


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
    job.wait_ready()
    begin = time.monotonic()
    assert job.end() == 1
    assert time.monotonic() - begin < GONE_WITHIN + SLACK
    report = _launcher_lines(job)
    assert re.search(rf"PE 1 \(pid {job.pids[1]}\) ended with exit code 1", report)
    assert "ValueError: seven is not eight" in report
    assert "program.py" in report
    job.assert_nothing_left()


def test_a_pe_killed_in_its_work_is_named_with_the_place_of_the_others(start: Start) -> None:
    job = start(IN_BARRIER, 4)
    job.wait_ready()
    time.sleep(0.3)  # into the wait
    begin = time.monotonic()
    os.kill(job.pids[1], signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    assert time.monotonic() - begin < GONE_WITHIN + SLACK
    report = _launcher_lines(job)
    assert re.search(rf"PE 1 \(pid {job.pids[1]}\) was killed by SIGKILL", report)
    assert len(re.findall("in barrier_all for", report)) >= 1
    job.assert_nothing_left()


def test_a_pe_killed_inside_barrier_all(start: Start) -> None:
    job = start(IN_BARRIER, 3)
    job.wait_ready()
    time.sleep(0.3)
    os.kill(job.pids[2], signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    assert re.search(r"PE 2 was: in barrier_all", _launcher_lines(job))
    job.assert_nothing_left()


def test_a_crash_shows_signal_and_python_lines(start: Start) -> None:
    job = start("ready()\nif me == 1:\n    import ctypes; ctypes.string_at(8)\ntime.sleep(60)", 2)
    job.wait_ready()
    assert job.end() == 128 + signal.SIGSEGV
    assert "SIGSEGV" in _launcher_lines(job)
    assert "program.py" in job.report()
    job.assert_nothing_left()


def test_a_syntax_error_on_one_pe_ends_those_that_wait_in_init(start: Start) -> None:
    job = start("if me == 1: compile('def f(:', 'other.py', 'exec')\npyshmem.init()", 3)
    begin = time.monotonic()
    assert job.end() == 1
    assert time.monotonic() - begin < 10
    report = _launcher_lines(job)
    assert re.search(r"^pyshmem: PE 1 \(", report)
    assert "SyntaxError" in report
    job.assert_nothing_left()


def test_the_failing_exit_code_is_the_jobs(start: Start) -> None:
    job = start("ready()\nif me == 1: sys.exit(7)\ntime.sleep(60)", 2)
    job.wait_ready()
    assert job.end() == 7
    job.assert_nothing_left()


def test_a_pe_that_ends_early_with_0_is_no_failure(start: Start) -> None:
    job = start("if me: time.sleep(0.5)", 3)
    assert job.end() == 0
    assert job.report() == ""


def test_pes_that_ignore_every_signal_are_ended_too(start: Start) -> None:
    job = start(STUBBORN.replace("while True", "if me == 0: sys.exit(3)\nwhile True"), 3)
    job.wait_ready()
    begin = time.monotonic()
    assert job.end() == 3
    assert time.monotonic() - begin < GONE_WITHIN + SLACK
    job.assert_nothing_left()


def test_timeout_says_where_each_pe_stood(start: Start) -> None:
    job = start(IN_BARRIER, 3, "--timeout", "2")
    assert job.end() == 124
    report = _launcher_lines(job)
    assert "job still running after 2 s" in report
    assert "in barrier_all" in report
    assert "PE 1: running" in report
    job.assert_nothing_left()


# ---- signals to the launcher ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("program", [SLEEP, STUBBORN, IN_BARRIER], ids=["sleep", "stub", "barrier"])
def test_a_signal_to_the_launcher_ends_all(start: Start, number: int, program: str) -> None:
    job = start(program, 2)
    job.wait_ready()
    begin = time.monotonic()
    job.process.send_signal(number)
    assert job.end() == 128 + number
    assert time.monotonic() - begin < GONE_WITHIN + SLACK
    assert signal.Signals(number).name in _launcher_lines(job)
    job.assert_nothing_left()


def test_a_second_request_waits_for_nobody(start: Start) -> None:
    job = start(STUBBORN, 2)
    job.wait_ready()
    begin = time.monotonic()
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.4)
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130
    assert time.monotonic() - begin < 1.2
    job.assert_nothing_left()


@pytest.mark.parametrize("program", [SLEEP, STUBBORN, IN_BARRIER], ids=["sleep", "stub", "barrier"])
def test_a_launcher_that_is_killed_leaves_nothing(start: Start, program: str) -> None:
    job = start(PARENTS + program, 3)
    job.wait_ready()
    job.process.kill()
    assert job.end() == -signal.SIGKILL
    job.assert_nothing_left(within=GONE_WITHIN + SLACK)


# ---- output --------------------------------------------------------------------------------------


def test_lines_are_tagged_with_their_pe(start: Start) -> None:
    job = start("print('out'); print('err', file=sys.stderr)", 2, "--tag")
    assert job.end() == 0
    assert job.process.stdout is not None
    assert sorted(job.process.stdout.read().splitlines()) == ["[0] out", "[1] out"]
    assert sorted(job.report().splitlines()) == ["[0] err", "[1] err"]


def test_a_lot_of_output_passes_whole(start: Start) -> None:
    job = start("for i in range(20000): print(me, i, 'x' * 50, file=sys.stderr)", 3)
    assert job.end(60) == 0
    lines = job.report().splitlines()
    assert len(lines) == 60000
    assert all(re.fullmatch(r"\d \d+ x{50}", line) for line in lines)


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
            victim.kill()
        job.end()
        job.assert_nothing_left(within=GONE_WITHIN + SLACK)
        job.close()


def _launcher_lines(job: Job) -> str:
    """The launcher's own report: what follows its name at the end of stderr."""
    text = job.report()
    start = text.rfind("\npyshmem: ") + 1
    return text[start:]
