# SPDX-License-Identifier: BSD-3-Clause
"""Jobs without a launcher that ends the others when a PE dies: those who wait for it are told."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from environment import clean_environment

START = """
import os, sys, pyshmem
pyshmem.init(heap_size="1M")
pyshmem.barrier_all()
os.write(1, b"ready\\n")
"""


@pytest.fixture
def start_alone(tmp_path: Path) -> Iterator[Callable]:
    """``start_alone(program, n)``: the processes of a job that nobody watches."""
    processes: list[subprocess.Popen[str]] = []

    def start(program: str, n: int) -> list[subprocess.Popen[str]]:
        script = tmp_path / "program.py"
        script.write_text(START + program)
        job = {"WORLD_SIZE": str(n), "TORCHELASTIC_RUN_ID": uuid.uuid4().hex}
        job |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "PYSHMEM_DEVICE": "none"}
        for pe in range(n):
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(script)],
                    env=clean_environment(RANK=str(pe), LOCAL_RANK=str(pe), **job),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        return processes

    yield start
    for process in processes:
        process.kill()
        process.communicate()


WAITS = {
    "barrier_all": "pyshmem.barrier_all()",
    "zeros": "pyshmem.zeros(3)",
    "wait_until": "word = pyshmem.zeros(1, int)\nif me: pyshmem.wait_until(word, pyshmem.CMP_NE, 0)",
    "sum_reduce": "pyshmem.sum_reduce(word, word)",
}


@pytest.mark.parametrize("routine", WAITS)
def test_a_pe_killed_while_others_wait_is_named(routine: str, start_alone: Callable) -> None:
    program = f"""
me = pyshmem.my_pe()
word = pyshmem.zeros(1, int)
if me == 2 and {routine!r} != "wait_until":
    import time; time.sleep(600)
{WAITS[routine]}
if me == 0: pyshmem.barrier_all()
import time; time.sleep(600)
"""
    processes = start_alone(program, 3)
    os.kill(processes[2].pid, signal.SIGKILL)
    for process in processes[:2]:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert re.search(r"PeerDied: .*PE \d", errors), errors
    if routine == "zeros":
        assert "in zeros" in errors


INSIDE = """
import time
from pyshmem.host.faults import report
word = pyshmem.new_signal()
if pyshmem.my_pe():
    WAIT
while report().count("in NAME") < 2:
    pass
os.write(1, b"inside\\n")
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        ("pyshmem.barrier_all()", "barrier_all"),
        ("pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 1)", "signal_wait_until (== 1, seen 0)"),
    ],
)
def test_a_pe_killed_inside_a_wait_is_named_by_those_inside(
    wait: str, name: str, start_alone: Callable
) -> None:
    program = INSIDE.replace("WAIT", wait).replace("NAME", name)
    processes = start_alone(program, 3)
    assert processes[0].stdout.readline() == "inside\n"
    os.kill(processes[2].pid, signal.SIGKILL)
    _, errors = processes[1].communicate(timeout=60)
    expected = rf"PE 2 \(pid {processes[2].pid}\) died while this PE was in {re.escape(name)}"
    assert re.search(expected, errors), errors


#: Starts the two PEs of a job as torchrun's agent does, and says who they are.
AGENT = """
import os, subprocess, sys, time
environment = dict(os.environ)
pes = [
    subprocess.Popen([sys.executable, *sys.argv[1:]], env=environment | {"RANK": pe, "LOCAL_RANK": pe})
    for pe in ("0", "1")
]
print(*(pe.pid for pe in pes), flush=True)
time.sleep(600)
"""


def test_pes_whose_agent_was_killed_end(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(START + "pyshmem.signal_wait_until(pyshmem.new_signal(), pyshmem.CMP_EQ, 1)")
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": uuid.uuid4().hex}
    job |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "PYSHMEM_DEVICE": "none"}
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(script)],
        env=clean_environment(**job),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stdout is not None
    lines = [agent.stdout.readline() for _ in range(3)]
    pes = [int(word) for line in lines for word in line.split() if word.isdigit()]
    try:
        assert sorted(lines)[1:] == ["ready\n"] * 2
        agent.kill()
        _, errors = agent.communicate(timeout=60)  # of the PEs too: until they have ended
    finally:
        for pid in pes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert re.search(
        rf"the launcher's process \(pid {agent.pid}\), which started PE \d, died", errors
    ), errors
