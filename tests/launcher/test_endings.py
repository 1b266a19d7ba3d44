# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on several hosts of which a part fails, is killed or not reached: what is said, what is left."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from of_hosts import Job
from sshd import Hosts

Run = Callable[..., list[str]]
Start = Callable[..., Job]

STAYS = "stay()"
FAILS = "if me == 2: sys.exit(7)\nstay()"


def name_of(command: list[str], number: int) -> str:
    """How messages call a host of the job: by its name, or its number where names are the same."""
    return "ab"[number] if "--ssh" in command else rf"localhost \(#{number}\)"


def test_a_program_that_ends_well(run: Run, start: Start) -> None:
    job = start(run(1, 2, options=("-l",)), "print(me, 'of', n, 'on stderr', file=sys.stderr)")
    output, _ = job.process.communicate(timeout=60)
    status, errors = job.end()
    assert status == 0, errors
    assert sorted(re.findall(r"\[(\d)\] ready (\d) ", output)) == [
        (str(k), str(k)) for k in range(3)
    ]
    assert sorted(errors.split("\n")) == ["", *(f"[{k}] {k} of 3 on stderr" for k in range(3))]


def test_a_pe_that_fails_ends_all(run: Run, start: Start) -> None:
    command = run(2, 2)
    job = start(command, FAILS)
    status, errors = job.end()
    assert status == 7, errors
    assert re.search(
        rf"host {name_of(command, 1)}: PE 2 \(pid \d+\) ended with exit code 7", errors
    )
    assert re.search(rf"host {name_of(command, 0)}: PEs 0, 1: ", errors), errors


def test_a_pe_that_is_killed_is_named(run: Run, start: Start) -> None:
    command = run(1, 2)
    job = start(command, STAYS)
    job.wait_ready(3)
    job.pes[1].process.kill()
    since = time.monotonic()
    status, errors = job.end()
    assert status == 137, errors
    assert re.search(rf"host {name_of(command, 1)}: PE 1 \(pid \d+\) was killed by SIGKILL", errors)
    assert time.monotonic() - since < 10


def test_a_launcher_that_is_killed_is_told_as_a_lost_host(run: Run, start: Start) -> None:
    command = run(1, 2)
    job = start(command, STAYS)
    job.wait_ready(3)
    job.pes[1].agent.kill()
    status, errors = job.end()
    assert status == 1, errors
    assert re.search(rf"host {name_of(command, 1)} was lost, with PEs 1\.\.2: ", errors), errors


def test_ssh_that_is_killed_is_told_as_a_lost_host(run: Run, start: Start) -> None:
    command = run(1, 1)
    job = start(command, STAYS)
    job.wait_ready(2)
    job.ssh_to(1).kill()
    status, errors = job.end()
    assert status == 1, errors
    what = "ssh" if "--ssh" in command else "its launcher"
    expected = rf"host {name_of(command, 1)} was lost, with PE 1: {what} was killed by SIGKILL"
    assert re.search(expected, errors), errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_all(number: signal.Signals, run: Run, start: Start) -> None:
    job = start(run(1, 2), "signal.signal(signal.SIGTERM, signal.SIG_DFL)\nstay()")
    job.wait_ready(3)
    job.process.send_signal(number)
    status, errors = job.end()
    assert status == 128 + number, errors
    assert f"ended by {number.name}" in errors


def test_sigterm_to_programs_that_leave_in_order_is_no_failure(run: Run, start: Start) -> None:
    program = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nos.write(1, b'set\\n')\nstay()"
    )
    job = start(run(1, 1), program)
    job.wait_ready(2)
    time.sleep(1)  # the handlers are set behind the line that is waited for
    job.process.send_signal(signal.SIGTERM)
    status, errors = job.end()
    assert status == 0, errors


def test_a_second_ctrl_c_kills_at_once(run: Run, start: Start) -> None:
    program = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nos.write(1, b'set\\n')\nstay()"
    job = start(run(1, 1, options=("--grace", "500")), program)
    job.wait_ready(2)
    time.sleep(1)
    job.process.send_signal(signal.SIGINT)
    time.sleep(1)
    job.process.send_signal(signal.SIGINT)
    status, errors = job.end()
    assert status == 130, errors


def test_a_head_that_is_killed_leaves_nothing(run: Run, start: Start) -> None:
    job = start(run(1, 2), "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nstay()")
    job.wait_ready(3)
    job.process.kill()
    job.process.wait()
    job.assert_nothing_left()


def test_a_job_that_takes_too_long(run: Run, start: Start) -> None:
    job = start(run(1, 1, options=("--timeout", "1")), STAYS)
    status, errors = job.end()
    assert status == 124, errors
    assert "job still running after 1 s" in errors


def test_children_of_pes_are_ended(run: Run, start: Start) -> None:
    program = (
        "import subprocess\nsubprocess.Popen(['sleep', '600'])\nif me == 1: sys.exit(3)\nstay()"
    )
    job = start(run(1, 1), program)
    status, errors = job.end()
    assert status == 3, errors


def test_stopped_and_continued(run: Run, start: Start) -> None:
    """As by the terminal's stop key: longer than a silent host would be given."""
    job = start(run(1, 1), "time.sleep(3)")
    job.wait_ready(2)
    job.process.send_signal(signal.SIGTSTP)
    time.sleep(1.5)
    states = {pe.process.status() for pe in job.pes.values()}
    job.process.send_signal(signal.SIGCONT)
    status, errors = job.end()
    assert states == {"stopped"}
    assert status == 0, errors


# ---- hosts that are not as they should be ---------------------------------------------------------


def test_a_link_that_is_cut_ends_the_job_on_both_sides(ssh_hosts: Hosts, start: Start) -> None:
    job = start(ssh_hosts.run("--hosts", "a:1,b:2"), STAYS)
    job.wait_ready(3)
    far = [pe for pe in job.pes.values() if pe.agent.pid == job.pes[1].agent.pid]
    since = time.monotonic()
    ssh_hosts.link("down")
    try:
        status = job.process.wait(60)
        told = time.monotonic() - since
        while any(pe.process.is_running() for pe in far):
            assert time.monotonic() - since < 15, "PEs of the host that was cut off still run"
            time.sleep(0.05)
    finally:
        ssh_hosts.link("up")
    assert status == 1
    assert re.search(r"host b was lost, with PEs 1\.\.2: nothing was heard of it", job.errors())
    assert told < 12
    job.assert_nothing_left()


def test_a_host_that_cannot_be_reached(ssh_hosts: Hosts, start: Start) -> None:
    job = start(ssh_hosts.run("--hosts", "a:1,10.213.98.77:1"), STAYS)
    status, errors = job.end()
    assert status == 1
    assert re.search(
        r"host 10\.213\.98\.77: ssh ended with exit code 255: ssh: connect to ", errors
    )


@pytest.fixture
def on_b(ssh_hosts: Hosts, tmp_path: Path) -> Callable[[str], list[str]]:
    """``on_b(line)``: a command on a and b, whose ssh runs ``line`` on b in place of the agent."""

    def begin(line: str) -> list[str]:
        agent = tmp_path / "agent.sh"
        other = f'[ "$host" = a ] || set -- {shlex.quote(line)}'
        agent.write_text(f'#!/bin/sh\nhost=$1; shift\n{other}\nexec {ssh_hosts.ssh} "$host" "$@"\n')
        agent.chmod(0o755)
        command = ssh_hosts.on("a", sys.executable, "-m", "pyshmem", "run", "--device", "none")
        return [*command, "--hosts", "a:1,b:1", "--ssh", str(agent)]

    return begin


def test_no_python_there(on_b: Callable[[str], list[str]], start: Start) -> None:
    status, errors = start(on_b("exec /no/such/python -m x"), STAYS).end()
    assert status == 1
    assert "host b: there is no " in errors
    assert "at the same path on all hosts" in errors


def test_no_pyshmem_there(on_b: Callable[[str], list[str]], start: Start) -> None:
    line = f"exec {sys.executable} -S -P -m pyshmem.launcher.hosts.agent"
    status, errors = start(on_b(line), STAYS).end()
    assert status == 1
    assert re.search(r"host b: agent.sh ended with exit code 1: .*No module named", errors), errors


def test_another_version_there(on_b: Callable[[str], list[str]], start: Start) -> None:
    code = (
        "from pyshmem._core import library; library.__version__ = '0.0.1'; "
        "from pyshmem.launcher.hosts import agent; raise SystemExit(agent.main())"
    )
    status, errors = start(on_b(f'exec {sys.executable} -c "{code}"'), STAYS).end()
    assert status == 1
    assert "host b: pyshmem 0.0.1 is installed there, and here " in errors


def test_a_shell_that_prints_before_is_no_matter(
    on_b: Callable[[str], list[str]], start: Start
) -> None:
    line = f"echo welcome; exec {sys.executable} -P -m pyshmem.launcher.hosts.agent"
    status, errors = start(on_b(line), "").end()
    assert status == 0, errors


def test_rubbish_in_place_of_frames(on_b: Callable[[str], list[str]], start: Start) -> None:
    line = "printf '\\npyshmem agent 1\\n'; head -c 1000 /dev/urandom; sleep 100"
    status, errors = start(on_b(line), STAYS).end()
    assert status == 1
    assert "host b: what it says is not of this job" in errors


def test_a_wrong_setting_is_told_by_the_first_host_that_reads_it(
    start: Start, ssh_hosts: Hosts
) -> None:
    job = start(ssh_hosts.run("--hosts", "a:1,b:1", "--env", "PYSHMEM_TIMEOUT=never"), STAYS)
    status, errors = job.end()
    assert status == 1
    assert "host a: PYSHMEM_TIMEOUT" in errors or "host b: PYSHMEM_TIMEOUT" in errors


def test_no_ssh_here(start: Start) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "--hosts", "b.invalid:1", "--ssh", "/no/ssh"]
    status, errors = start(command, STAYS).end()
    assert status == 1
    assert "host b.invalid: cannot run /no/ssh: No such file or directory" in errors
