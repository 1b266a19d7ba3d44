# SPDX-License-Identifier: BSD-3-Clause
"""A job on several hosts under test: its processes on all of them, what it says, what it leaves."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
from environment import clean_environment, listing

#: Seconds for what has to come. Programs that are to be ended stay for longer.
PATIENCE = 60

PROGRAM = """
import os, signal, sys, time
me, n = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])
os.write(1, f"ready {me} {os.getpid()} {os.getppid()}\\n".encode())
def stay():
    time.sleep(600)
"""


@dataclass
class Pe:
    """A PE, and the launcher of its host."""

    process: psutil.Process
    agent: psutil.Process


class Job:
    """A job that runs.

    Args:
        command: ``pyshmem run`` with its options but the program.
        program: what the PEs run, behind ``PROGRAM``.
        folder: for the program and the job's stderr.
        hands_on: what another launcher takes behind the command, ``PYSHMEM_TEST_MARK`` being set.
        begin: what the program begins with, and says that it is there by.
        variables: for the launcher.
    """

    def __init__(
        self,
        command: Sequence[str],
        program: str,
        folder: Path,
        hands_on: Sequence[str] = ("--env", "PYSHMEM_TEST_MARK"),
        begin: str = PROGRAM,
        **variables: str,
    ) -> None:
        self.mark = uuid.uuid4().hex
        script = folder / "program.py"
        script.write_text(begin + program)
        self._errors: IO[str] = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [*command, *hands_on, str(script)],
            env=clean_environment(PYSHMEM_TEST_MARK=self.mark, **variables),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self.head = psutil.Process(self.process.pid)
        self.pes: dict[int, Pe] = {}
        self.seen: list[psutil.Process] = []

    def wait_ready(self, n: int) -> None:
        """Until ``n`` PEs have said that they are there."""
        assert self.process.stdout is not None
        while len(self.pes) < n:
            words = self.process.stdout.readline().split()
            assert words, f"the job ended: {self.errors()}"
            if words[0] == "ready":
                pe, pid, agent = map(int, words[1:])
                self.pes[pe] = Pe(psutil.Process(pid), psutil.Process(agent))
        self.seen += [each for pe in self.pes.values() for each in (pe.process, pe.agent)]
        self.seen += self.head.children(recursive=True)

    def ssh_to(self, pe: int) -> psutil.Process:
        """What the head started for the host of that PE."""
        agent = self.pes[pe].agent
        by_host = list(dict.fromkeys(each.agent.pid for _, each in sorted(self.pes.items())))
        begun = sorted(self.head.children(), key=lambda child: child.pid)
        return begun[by_host.index(agent.pid)]

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def end(self, seconds: float = PATIENCE) -> tuple[int, str]:
        """Its exit status and what it said on stderr, once it has ended; and nothing of it is left."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs: {self.errors()}\n{listing(self.left())}") from None
        self.assert_nothing_left()
        return status, self.errors()

    def assert_nothing_left(self, seconds: float = 15.0) -> None:
        """A host that was cut off has these seconds to notice."""
        deadline = time.monotonic() + seconds
        while left := self.left():
            assert time.monotonic() < deadline, f"left: {listing(left)}\n{self.errors()}"
            time.sleep(0.05)

    def left(self) -> list[psutil.Process]:
        """What still runs of it: what it was seen to start, and all that has its mark."""
        found = [each for each in self.seen if _lives(each)]
        for process in psutil.process_iter():
            try:
                if process.environ().get("PYSHMEM_TEST_MARK") == self.mark and _lives(process):
                    found.append(process)
            except psutil.Error:
                continue
        return [
            each for each in found if each.pid != self.process.pid or self.process.poll() is None
        ]

    def close(self) -> None:
        for process in self.left():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
