# SPDX-License-Identifier: BSD-3-Clause
"""A job of the launcher under test, seen from outside: its processes, its report, what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from environment import listing

#: Seconds: how long we wait for what has to come, and how long programs stay that are to be ended. Far
#: apart, so that no machine is too slow.
PATIENCE, FOR_GOOD = 60, 600

PRELUDE = f"""
import os, signal, subprocess, sys, time
import pyshmem
FOR_GOOD = {FOR_GOOD}
control = os.dup(int(os.environ["PYSHMEM_CONTROL_FD"]))
me, n = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])
def ready():
    # One line a PE, in one write: the tests wait for it.
    os.write(1, f"ready {{os.environ['PYSHMEM_JOB']}} {{me}} {{os.getpid()}}\\n".encode())
def until_others_wait():
    from pyshmem._core import library
    text = library.ffi.new("char[]", 256)
    for pe in set(range(n)) - {{me}}:
        while not library.ffi.string(text).startswith(b"in "):
            library.check(library.lib.ishmemx_control_describe(control, pe, text, len(text)))
            time.sleep(0.01)
        text[0] = bytes(1)
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
            self._note(line)

    def hear_out(self) -> None:
        """Until the last PE has ended; those that end by themselves need not wait for who is slow."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._note(line)

    def _note(self, line: str) -> None:
        if line.startswith("ready "):
            _, self.name, pe, pid = line.split()
            self.pids[int(pe)] = int(pid)

    def end(self, timeout: float = PATIENCE) -> int:
        """The exit status of the launcher."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(
                f"the job did not end in {timeout} s; it left\n{listing(self.alive())}\n{self.report()}"
            )

    def report(self) -> str:
        """What was written to stderr."""
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()

    def launcher_lines(self) -> str:
        """The launcher's own report: what follows its name at the end of stderr."""
        text = self.report()
        return text[text.rfind("\npyshmem: ") + 1 :]

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

    def assert_nothing_left(self, at_once: bool = True) -> None:
        """Now, or when the guard of a launcher that was killed has done its work."""
        deadline = time.monotonic() + (0 if at_once else PATIENCE)
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


IN_BARRIER = """
pyshmem.init()
pyshmem.barrier_all()
if me == 1:
    until_others_wait()
    ready()
    time.sleep(FOR_GOOD)
ready()
pyshmem.barrier_all()
"""

SLEEP = """
ready()
time.sleep(FOR_GOOD)
"""

STUBBORN = """
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
ready()
while True:
    time.sleep(FOR_GOOD)
"""

PARENTS = """
subprocess.Popen(["sleep", str(FOR_GOOD)])
subprocess.Popen(["sleep", str(FOR_GOOD)], start_new_session=True)
"""
