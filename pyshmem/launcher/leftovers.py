# SPDX-License-Identifier: BSD-3-Clause
"""Processes of a job: known for sure, signalled, and ended when they outlive it.

A number says nothing of a process: it is given to the next one when its process has been waited for.
So a process is known as a ``Target``, and every signal of the launcher goes through ``send``.

A PE dies with the launcher (``PR_SET_PDEATHSIG``), but what a PE started does not. Such processes
are known by ``MARKS`` in their environment, or by the process group of their PE.

Standard library only and no relative import: ``guard.py`` starts this file as a program of its own.
Its standard input holds number and start time of a PE a line; ``done`` tells it that the launcher
ended in order, ``later`` that too, and to stay for a moment (see ``Guard.dismiss``). The end of the
input without such a word means that the launcher was killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

DONE = "done"
LATER = "later"

#: Seconds that a guard stays that somebody had stopped.
_STAY = 1.0

#: By which of these variables a process belongs to a job. The second is of one host of several, of which
#: two may be one machine.
MARKS = ("PYSHMEM_JOB", "PYSHMEM_HOST")

#: Looks for processes that do not end, one each 0.01 s: in seconds, a machine that stood still had none.
_TRIES = 200

#: PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9. The group is known as the process is, and not by its number.
_WHOLE_GROUP = 4

#: Of kernels and sandboxes without pidfds, or without the flag.
_UNKNOWN_TO_KERNEL = (errno.EINVAL, errno.ENOSYS, errno.EPERM)


class Facts(NamedTuple):
    """What ``/proc`` says of a process."""

    state: bytes
    parent: int
    group: int
    start: int  #: in the clock's ticks since the machine began


def facts_of(pid: int) -> Facts | None:
    """None: there is no such process, or no ``/proc``."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # After the command, which may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return Facts(fields[0], int(fields[1]), int(fields[2]), int(fields[19]))
    except (OSError, IndexError):
        return None


def can_look() -> bool:
    """Whether processes can be listed: ``/proc`` is there."""
    return os.path.exists("/proc/self/stat")


class Target:
    """One process, and no other that has its number later: held by a pidfd where the kernel has them.

    Args:
        pid: its number.
        start: when it began, as found before; None: it is a child of this process, and asked now.

    Raises: ProcessLookupError (it is not there any more).
    """

    def __init__(self, pid: int, start: int | None = None) -> None:
        self.pid = pid
        try:
            self.fd = os.pidfd_open(pid)
        except (OSError, AttributeError) as error:
            if isinstance(error, ProcessLookupError):
                raise
            self.fd = -1  # such a kernel has the time of its start alone
        # Asked behind the descriptor: what it names then is what had the number all the while.
        facts = facts_of(pid)
        if can_look():
            gone = facts is None or (
                facts.parent != os.getpid() if start is None else facts.start != start
            )
        else:
            gone = start is not None
        if gone:
            self.close()
            raise ProcessLookupError(errno.ESRCH, f"process {pid} has ended")
        self.start = facts.start if facts is not None else 0

    def keeps_number(self) -> bool:
        """Whether its number is its own still: it runs, or nobody has waited for it."""
        if can_look():
            facts = facts_of(self.pid)
            return facts is not None and facts.start == self.start
        try:  # a child that nobody has waited for
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            return False
        return True

    def keeps_group(self) -> bool:
        """Whether the group that it began has processes still, so that its number is that group's."""
        return send(self, 0, group=True)

    def close(self) -> None:
        """Forget it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def send(to: Target, number: int, *, group: bool = False) -> bool:
    """Send a signal to that very process, or to the group that it began; False: it is not there.

    The one place from which the launcher signals other processes.
    """
    if to.fd >= 0:
        try:
            signal.pidfd_send_signal(to.fd, number, None, _WHOLE_GROUP if group else 0)
            return True
        except ProcessLookupError:
            return False
        except OSError as error:
            if error.errno not in _UNKNOWN_TO_KERNEL:
                raise
    if not to.keeps_number():
        return False
    try:
        (os.killpg if group else os.kill)(to.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


# ---- the processes of a job ------------------------------------------------------------------


def find(job: str, leaders: Collection[Target] = ()) -> list[tuple[int, int]]:
    """Living processes that belong to ``job``, other than the calling one: number and start of each.

    Args:
        job: its mark; who has it in the environment, as one of ``MARKS``, belongs to it.
        leaders: PEs, whose groups belong to it for as long as they are the groups that these began.
    """
    if not can_look():
        return []
    needles = [os.fsencode(f"\0{name}={job}\0") for name in MARKS]
    of_group = {leader.pid: leader for leader in leaders}
    named: list[tuple[int, Facts]] = []
    grouped: list[tuple[int, Facts]] = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        facts = facts_of(pid)
        if facts is None or facts.state in b"ZX" or pid == os.getpid():
            continue
        if _is_named(pid, needles):
            named.append((pid, facts))
        elif facts.group in of_group:
            grouped.append((pid, facts))
    # Behind the list: a group that has not been empty since its PE began is still that PE's.
    groups = {facts.group for _, facts in grouped}
    ours = {number for number in groups if of_group[number].keeps_group()}
    ours |= {facts.group for pid, facts in named if _is_still(pid, facts)}
    grouped = [one for one in grouped if one[1].group in ours]
    return [(pid, facts.start) for pid, facts in (*named, *grouped)]


def _is_still(pid: int, before: Facts) -> bool:
    now = facts_of(pid)
    return now is not None and (now.start, now.group) == (before.start, before.group)


def _is_named(pid: int, needles: list[bytes]) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = b"\0" + file.read() + b"\0"
        return any(needle in found for needle in needles)
    except OSError:
        return False  # gone, or not ours


def end(job: str, leaders: Collection[Target] = (), grace: float = 0.0) -> int:
    """Kill what is left of ``job`` after ``grace`` seconds; return how many processes that hit."""
    if not can_look():
        time.sleep(grace)
        for leader in leaders:
            send(leader, signal.SIGKILL, group=True)
        return 0
    start = time.monotonic()
    killed: set[tuple[int, int]] = set()
    clear = tries = 0
    while True:
        found = find(job, leaders)
        # Twice, for a process has no environment for a moment while it starts a program.
        clear = 0 if found else clear + 1
        if clear == 2 or tries == _TRIES:
            return len(killed)
        if time.monotonic() - start >= grace:
            tries += 1
            killed.update(one for one in found if _kill(*one))
        time.sleep(0.01)


def _kill(pid: int, start: int) -> bool:
    """Kill the process of that number, if it is the one that began then."""
    try:
        with contextlib.closing(Target(pid, start)) as target:
            return send(target, signal.SIGKILL)
    except ProcessLookupError:
        return False


# ---- the guard's program ---------------------------------------------------------------------


def guard(job: str, lines: Iterable[str]) -> None:
    """Wait for the launcher's end; kill what it leaves if it did not end in order."""
    leaders = []
    for line in lines:
        if line.strip() == DONE:
            return
        if line.strip() == LATER:
            time.sleep(_STAY)
            return
        pid, start = map(int, line.split())
        with contextlib.suppress(ProcessLookupError):
            leaders.append(Target(pid, start))
    end(job, leaders)


if __name__ == "__main__":
    guard(sys.argv[1], sys.stdin)
