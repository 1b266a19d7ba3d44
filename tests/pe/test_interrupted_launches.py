# SPDX-License-Identifier: BSD-3-Clause
"""Whatever moment an interrupt, a signal or a broken stream hits: a job ends and leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from watched import PATIENCE, Job

#: Launches in a program that goes on, and is interrupted at moments that the seed gives: from none
#: to three times, by SIGINT or by a handler of the program's own that raises. Says what is left.
PROGRAM = """
import os, random, signal, sys, threading, time
import pyshmem

seed, count = map(int, sys.argv[1:])
generator = random.Random(seed)

def work(stubborn):
    import subprocess, time
    subprocess.Popen(["sleep", "600"])
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pyshmem.barrier_all()
    time.sleep(generator_pause)

class Alarm(Exception):
    pass

def ring(number, frame):
    raise Alarm

def disturb(pauses, number):
    for pause in pauses:
        time.sleep(pause)
        os.kill(os.getpid(), number)

def opened():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append((fd, os.readlink("/proc/self/fd/" + fd)))
        except OSError:
            pass  # the list's own
    return sorted(found)

def quietly(function, *args):
    # An interrupt may still be on its way when launch has returned.
    while True:
        try:
            return function(*args)
        except (KeyboardInterrupt, Alarm):
            pass

signal.signal(signal.SIGUSR1, ring)
generator_pause = 0.05
pyshmem.launch(work, 2, False, output="none")
before = opened()
handlers = {n: signal.getsignal(n) for n in signal.valid_signals()}
for turn in range(count):
    number = generator.choice([signal.SIGINT, signal.SIGINT, signal.SIGUSR1])
    pauses = [generator.choice([generator.uniform(0, 0.03), generator.uniform(0, 1.2)])]
    for _ in range(generator.randrange(3)):
        pauses.append(generator.choice([0.0, 0.001, generator.uniform(0, 0.5)]))
    thread = threading.Thread(target=disturb, args=(pauses, number))
    generator_pause = generator.choice([0.0, 600.0])
    outcome = "returned"
    try:
        thread.start()
        while True:  # until it is hit at all
            pyshmem.launch(work, 2, generator.random() < 0.3, output="none")
            if not thread.is_alive():
                break
    except (KeyboardInterrupt, Alarm) as error:
        outcome = type(error).__name__
    quietly(time.sleep, 0.01)
    if thread.ident:  # an interrupt of the turn before may have come before it began
        quietly(thread.join)
    quietly(time.sleep, 0.001)
    left = set(opened()) - set(before)
    changed = [n for n, handler in handlers.items() if signal.getsignal(n) != handler]
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    for what, wrong in (("descriptors", left), ("handlers", changed), ("children", children)):
        if wrong:
            print(f"turn {turn}, {pauses} {number!r}: {what} {wrong}", flush=True)
    print(outcome, flush=True)
print("done", flush=True)
"""


def interrupted(folder: Path, seed: int, count: int, **environment: str) -> list[str]:
    """What the program says of ``count`` launches; its processes are gone, with it or before."""
    mark = f"{seed}.{os.getpid()}.{random.random()}"
    script = folder / "program.py"
    script.write_text(PROGRAM)
    scratch = folder / "scratch"
    scratch.mkdir()
    before = set(os.listdir("/dev/shm"))
    done = subprocess.run(
        [sys.executable, script, str(seed), str(count)],
        env=os.environ | {"INTERRUPTED": mark, "TMPDIR": str(scratch), "PYSHMEM_DEVICE": "none"},
        capture_output=True,
        text=True,
        timeout=PATIENCE + 20 * count,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert living(mark) == []
    assert list(scratch.iterdir()) == []
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "pyshmem" in name]
    return done.stdout.splitlines()


def living(mark: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            inside = f"INTERRUPTED={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if inside:
            found.append(int(pid))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.long)])
def test_a_launch_interrupted_at_any_moment_leaves_nothing(tmp_path: Path, count: int) -> None:
    said = interrupted(tmp_path, count, count)
    assert [line for line in said if line.startswith("turn")] == []
    assert said[-1] == "done"
    assert len(said) == count + 1
    assert "KeyboardInterrupt" in said
    assert "Alarm" in said


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.long)])
def test_a_run_interrupted_at_any_moment_leaves_nothing(
    start: Callable[..., Job], count: int
) -> None:
    generator = random.Random(count)
    program = """
subprocess.Popen(["sleep", str(FOR_GOOD)])
pyshmem.init()
pyshmem.barrier_all()
time.sleep(FOR_GOOD)
"""
    for _ in range(count):
        job = start(program, 2, "--grace", "0.3")
        time.sleep(generator.choice([generator.uniform(0, 0.3), generator.uniform(0, 2.0)]))
        for _ in range(1 + generator.randrange(3)):
            number = generator.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            job.process.send_signal(number)
            time.sleep(generator.choice([0.0, 0.001, generator.uniform(0, 0.6)]))
        deadline = time.monotonic() + PATIENCE
        while job.process.poll() is None:  # the first may have come before anybody heard it
            assert time.monotonic() < deadline, job.report()
            job.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        job.assert_nothing_left(at_once=False)
        job.close()


@pytest.mark.parametrize("stream", [1, 2], ids=["stdout", "stderr"])
@pytest.mark.parametrize("how", ["signal", "timeout", "end"])
def test_a_reader_that_stands_still_keeps_no_job_from_ending(
    stream: int, how: str, tmp_path: Path
) -> None:
    """As ``less`` that nobody scrolls; what ends the job is heard while its output waits."""
    script = tmp_path / "program.py"
    script.write_text(
        "import os, time\n"
        f"for _ in range(3000): os.write({stream}, b'x' * 99 + b'\\n')\n"
        + ("" if how == "end" else "time.sleep(600)\n")
    )
    options = ["--tag", "--grace", "0.5", *(["--timeout", "3"] if how == "timeout" else [])]
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "1", "--device", "none", *options]
    mark = f"{how}.{stream}.{os.getpid()}.{random.random()}"
    launcher = subprocess.Popen(
        [*command, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"INTERRUPTED": mark},
    )
    if how != "timeout":
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for its reader if nobody minds
            launcher.wait(3)
        launcher.send_signal(signal.SIGINT)
    try:
        assert launcher.wait(PATIENCE) in ({124} if how == "timeout" else {130, -signal.SIGINT})
    finally:
        launcher.kill()
        launcher.communicate()
    assert living(mark) == []
