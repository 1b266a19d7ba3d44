# SPDX-License-Identifier: BSD-3-Clause
"""The launcher signals processes of its job and nobody else, whatever became of their numbers."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pyshmem
from pyshmem.launcher import leftovers
from pyshmem.launcher.guard import Guard

PACKAGE = Path(pyshmem.__file__).parent

#: What sends a signal to another process, by the last name of the call.
SENDING = {
    "kill",
    "killpg",
    "pidfd_send_signal",
    "send_signal",
    "terminate",
    "tgkill",
    "pthread_kill",
}


def calls_of(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str, int]]:
    """Each call of a method or function: the function it is in, its last name, its line."""
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else inside
        if isinstance(node, ast.Attribute | ast.Name):
            yield inside, getattr(node, "attr", getattr(node, "id", "")), node.lineno
        yield from calls_of(node, name)


def test_every_signal_to_another_process_goes_through_one_function() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for inside, name, line in calls_of(tree):
            if name in SENDING and not (path.name == "leftovers.py" and inside == "send"):
                found[f"{path.name}:{line}"] = name
    assert not found, f"{found}: signal other processes by leftovers.send, which knows whom it hits"


def sleeper(**options: object) -> subprocess.Popen[bytes]:
    """A process that is no business of any job, in a group of its own."""
    return subprocess.Popen(["sleep", "60"], process_group=0, env={}, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = sleeper()
    yield process
    process.kill()
    process.wait()


@pytest.fixture(params=["as it is", "without pidfds", "without signals to groups"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the kernel has."""

    def refuse(*_: object) -> int:
        raise OSError(38, "not there")

    def refuse_groups(fd: int, number: int, info: None, flags: int) -> None:
        if flags:
            raise OSError(22, "which flag?")
        signal_alone(fd, number)

    signal_alone = signal.pidfd_send_signal
    if request.param == "without pidfds":
        monkeypatch.setattr(os, "pidfd_open", refuse)
    elif request.param == "without signals to groups":
        monkeypatch.setattr(signal, "pidfd_send_signal", refuse_groups)
    return str(request.param)


def ended(target: leftovers.Target, process: subprocess.Popen[bytes]) -> leftovers.Target:
    """The target of a process that has ended and was waited for."""
    process.kill()
    process.wait()
    return target


@pytest.mark.usefixtures("kernel")
def test_a_number_that_another_process_has_now_is_not_signalled(
    stranger: subprocess.Popen[bytes],
) -> None:
    first = sleeper()
    target = ended(leftovers.Target(first.pid), first)
    time.sleep(1.5 / os.sysconf("SC_CLK_TCK"))
    second = sleeper()  # it began later, as one with a number given again has
    target.pid = second.pid  # what the kernel does when it gives the number again
    try:
        for group in (False, True):
            assert not leftovers.send(target, signal.SIGKILL, group=group)
        assert leftovers.find("no such job", [target]) == []
        assert leftovers.end("no such job", [target]) == 0
        assert second.poll() is None
        assert stranger.poll() is None
    finally:
        target.close()
        ended(target, second)


@pytest.mark.usefixtures("kernel")
def test_a_process_is_signalled_with_and_without_pidfds() -> None:
    for group in (False, True):
        process = sleeper()
        target = leftovers.Target(process.pid)
        assert leftovers.send(target, signal.SIGKILL, group=group)
        assert process.wait(10) == -signal.SIGKILL
        target.close()


def test_a_process_that_began_at_another_time_is_another(
    stranger: subprocess.Popen[bytes],
) -> None:
    known = leftovers.Target(stranger.pid)
    leftovers.Target(stranger.pid, known.start).close()
    with pytest.raises(ProcessLookupError):
        leftovers.Target(stranger.pid, known.start - 1)
    with pytest.raises(ProcessLookupError):
        leftovers.Target(os.getppid())  # no child of this process
    known.close()


def test_the_group_of_a_pe_that_ended_is_known_by_its_members(kernel: str) -> None:
    """A child of the PE that cleared its environment; where the kernel tells of groups alone."""
    command = ["sh", "-c", "env -i sleep 60 & echo $!"]
    leader = subprocess.Popen(command, process_group=0, stdout=subprocess.PIPE)
    target = leftovers.Target(leader.pid)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    while Path(f"/proc/{child}/comm").read_text() != "sleep\n":
        time.sleep(0.01)
    assert [pid for pid, _ in leftovers.find("no such job", [target])].count(child) == 1
    leader.wait()
    leader.stdout.close()
    members = leftovers.find("no such job", [target])
    if kernel == "as it is" and not target.keeps_group():
        pytest.skip("this kernel does not tell of groups: Linux 6.9 does")
    assert [pid for pid, _ in members] == ([child] if kernel == "as it is" else [])
    target.close()
    os.kill(child, signal.SIGKILL)


PROGRAM = """
import os, sys, time
if os.environ["PYSHMEM_PE"] == "0":
    open(sys.argv[1] + "/pid", "w").write(str(os.getpid()) + "\\n")
    sys.exit(0)
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.01)
"""


def with_number(pid: int) -> subprocess.Popen[bytes]:
    """A process with the number of one that has ended, where this machine lets us ask for it."""
    for _ in range(200):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            pytest.skip("this machine does not let us choose the number of a process")
        found = sleeper()
        if found.pid == pid:
            return found
        found.kill()
        found.wait()
    pytest.skip("other processes took the numbers")


@pytest.mark.parametrize("killed", [False, True], ids=["in order", "launcher killed"])
def test_a_stranger_with_the_number_of_a_pe_outlives_the_job(tmp_path: Path, killed: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = ["-m", "pyshmem", "run", "--device", "none", "-n", "2", program, tmp_path]
    with ended_at_last([sys.executable, *command]) as launcher:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        pid = int((tmp_path / "pid").read_text())
        until(lambda: not Path(f"/proc/{pid}").exists())
        stranger = with_number(pid)
        guards = children_of(launcher.pid, b"leftovers.py")
        if killed:
            launcher.kill()
        (tmp_path / "go").touch()
        assert launcher.wait(60) == (-signal.SIGKILL if killed else 0)
        until(lambda: have_ended(guards))
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()


@contextlib.contextmanager
def ended_at_last(command: list[object]) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher that is gone when its test is, skipped or not."""
    launcher = subprocess.Popen(list(map(str, command)), start_new_session=True)
    try:
        yield launcher
    finally:
        launcher.kill()
        launcher.wait()


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children_of(pid: int, word: bytes) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if word in Path(f"/proc/{one}/cmdline").read_bytes()]


def have_ended(pids: list[int]) -> bool:
    facts = [leftovers.facts_of(pid) for pid in pids]
    return all(one is None or one.state == b"Z" for one in facts)


# ---- the guard -------------------------------------------------------------------------------


def test_a_guard_that_is_stopped_is_dismissed_all_the_same() -> None:
    guard = Guard("a")
    guard._process.send_signal(signal.SIGSTOP)
    until(lambda: guard._is_stopped())
    assert guard.dismiss() == ""
    # Who stopped it finds it still, and then it ends, and nothing of it stays.
    assert leftovers.facts_of(guard._process.pid) is not None
    guard._process.send_signal(signal.SIGCONT)
    until(lambda: guard._process.poll() == 0)
    assert leftovers.facts_of(guard._process.pid) is None


def test_a_guard_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "_say", lambda *_: None)
    monkeypatch.setattr("pyshmem.launcher.guard._PATIENCE", 0.2)
    guard = Guard("a")
    assert guard._process.stdin is not None
    held = os.dup(guard._process.stdin.fileno())  # its input does not end
    assert guard.dismiss() == ""
    assert guard._process.returncode == -signal.SIGKILL
    os.close(held)


def test_a_guard_that_does_not_read_stops_nobody() -> None:
    guard = Guard("a")
    guard._process.send_signal(signal.SIGSTOP)
    for _ in range(20000):  # more than a pipe has room for
        guard._say("1 1")
    assert guard.dismiss() == ""
    until(lambda: guard._process.poll() is not None)
