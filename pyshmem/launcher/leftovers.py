# SPDX-License-Identifier: BSD-3-Clause
"""Processes of a job that outlive it, and the guard that ends them when the launcher cannot.

A PE dies with the launcher (``PR_SET_PDEATHSIG``), but what a PE started does not. Such processes
are known by ``PYSHMEM_JOB`` in their environment, or by the process group of their PE; where there
is no ``/proc`` to read this from, only by the group.

Standard library only and no relative import: the launcher starts this file as a program of its own.
Its standard input holds one process group a line; ``done`` tells it that the launcher ended in
order. The end of the input without that word means that the launcher was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection

DONE = "done"

#: Looks for processes that do not end, one each 0.01 s: in seconds, a machine that stood still had none.
_TRIES = 200

#: What the guard does not end by: a batch system signals all processes of a job alike.
_DEAF_TO = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)


def _of_job(pid: int, needle: bytes, groups: Collection[int]) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # After the command, which may hold anything: state, parent, process group.
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] in b"ZX":
            return False
        if int(fields[2]) in groups:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return needle in b"\0" + file.read() + b"\0"
    except (OSError, IndexError):
        return False  # gone, or not ours


def can_look() -> bool:
    """Whether processes can be listed: ``/proc`` is there."""
    return os.path.exists("/proc/self/stat")


def _end_groups(groups: Collection[int]) -> None:
    """Without a list of processes: kill the groups whole. Their leaders are not reaped yet or gone."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def find(job: str, groups: Collection[int] = ()) -> list[int]:
    """Living processes that belong to ``job``, other than the calling one."""
    needle = b"\0PYSHMEM_JOB=" + os.fsencode(job) + b"\0"
    if not can_look():
        return []
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _of_job(pid, needle, groups)]


def end(job: str, groups: Collection[int] = (), grace: float = 0.0) -> int:
    """Kill what is left of ``job`` after ``grace`` seconds; return how many processes that hit."""
    if not can_look():
        time.sleep(grace)
        _end_groups(groups)
        return 0
    start = time.monotonic()
    killed: set[int] = set()
    clear = tries = 0
    while True:
        pids = find(job, groups)
        # Twice, for a process has no environment for a moment while it starts a program.
        clear = 0 if pids else clear + 1
        if clear == 2 or tries == _TRIES:
            return len(killed)
        if time.monotonic() - start >= grace:
            tries += 1
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                except (ProcessLookupError, PermissionError):
                    pass
        time.sleep(0.01)


class Guard:
    """This file running as a program beside the launcher, in a session of its own."""

    def __init__(self, job: str) -> None:
        # The environment stays, for this Python may need its LD_LIBRARY_PATH or PYTHONHOME to start;
        # but for the name of a job that the launcher itself may be in, which would find the guard.
        environment = {name: text for name, text in os.environ.items() if name != "PYSHMEM_JOB"}
        # What is blocked here is blocked there, for good. Not a function to call after fork: programs
        # that call ``launch`` have threads.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-S", __file__, job],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                bufsize=0,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def watch(self, group: int) -> None:
        """Have the processes of a group ended too if the launcher is killed."""
        self._say(str(group))

    def dismiss(self) -> str:
        """End the guard: the launcher has left nothing.

        Returns: why it did not guard, if it could not start; else nothing.
        """
        self._say(DONE)
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        words = self._process.stderr.read().decode(errors="replace").strip()
        self._process.stderr.close()
        status = self._process.wait()
        if status <= 0:
            return ""  # or somebody ended it
        return words.rpartition("\n")[2] or f"exit code {status}"

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # somebody ended the guard; the job goes on without it
            self._process.stdin.write(word.encode() + b"\n")


def guard(job: str) -> None:
    """Wait for the launcher's end; kill what it leaves if it did not end in order."""
    words = sys.stdin.read().split()
    if DONE not in words:
        end(job, {int(word) for word in words})


if __name__ == "__main__":
    guard(sys.argv[1])
