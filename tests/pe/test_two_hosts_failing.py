# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on two hosts of namespaces.py of which one is slow, out of reach or dead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from namespaces import HOSTS, Hosts, RunCommand, wait_for_link
from oshrun import permission

pytestmark = pytest.mark.flaky(reruns=1)  # as in test_oshrun.py

#: PE 1 is slow for a second, which is within the timeout; then nothing gets through to it any more.
NOT_REACHED = """
import os, pathlib, subprocess, sys, time
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="8M", device_heap_size="8M")
box = pyshmem.zeros(4, np.int64, heap="device")
pyshmem.barrier_all()
if job.my_pe == 1:
    pause = f"kill -STOP {os.getpid()}; sleep 1; kill -CONT {os.getpid()}"
    subprocess.Popen(["sh", "-c", pause])
else:
    pyshmem.put(box, np.ones(4, np.int64), 1)
pyshmem.barrier_all()
assert box[0] == job.my_pe
if job.my_pe == 0:
    subprocess.run(["ip", *sys.argv[1].split()], check=True)
try:
    pyshmem.put(box, np.ones(4, np.int64), 1 - job.my_pe)
except pyshmem.ShmemTimeout as error:
    print(error, flush=True)
again = pathlib.Path(sys.argv[3])
if job.my_pe == 0:
    subprocess.run(["ip", *sys.argv[2].split()], check=True)
    again.touch()
for _ in range(300):  # a PE that ends now would have the other one killed, and packets dropped for ever
    if again.exists():
        break
    time.sleep(0.1)
os._exit(1)
"""

#: What stops the packets to host b, and what lets them through again.
STOPS = {
    "link": ("link set pysh0 down", "link set pysh0 up"),
    "rule": ("route add blackhole 10.213.97.2/32", "route del blackhole 10.213.97.2/32"),
}


@pytest.mark.parametrize("stop", STOPS)
def test_a_host_that_is_not_reached_is_named(
    stop: str, hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    program = tmp_path / "down.py"
    program.write_text(NOT_REACHED)
    timeout = ["-x", "PYSHMEM_TIMEOUT=3"]
    command = hosts(1)
    command = [*command[:-1], *timeout, command[-1], program, *STOPS[stop], tmp_path / "again"]
    try:
        done = run_command(command, 60, **permission())
    finally:  # else no later job reaches that host
        again = ["ip", "-n", HOSTS[0], *STOPS[stop][1].split()]
        subprocess.run(again, capture_output=True, timeout=30)
    wait_for_link(HOSTS[0], "pysh0")
    assert done.stdout.count("put took longer than 3 s") >= 1, done.stderr
    assert f"PE 1: on host {HOSTS[1]}" in done.stdout
    assert "PE 1 has not answered 1 messages for" in done.stdout


#: PE 2 stands still again and again, for longer than the others wait; they make their calls again.
STANDS_STILL = """
import os, subprocess
import pyshmem

job = pyshmem.init(heap_size="8M")

def again(call, *arguments):
    while True:
        try:
            return call(*arguments)
        except pyshmem.ShmemTimeout:
            pass

stops = f"kill -STOP {os.getpid()}; sleep 0.4; kill -CONT {os.getpid()}; sleep 0.15; "
stopping = subprocess.Popen(["sh", "-c", 8 * stops]) if job.my_pe == 2 else None
moving = again(pyshmem.empty, 1)
moving[0] = 1
while moving[0]:
    again(pyshmem.free, again(pyshmem.empty, 4))
    if stopping and stopping.poll() is not None:
        moving[0] = 0
    again(pyshmem.barrier_all)
    moving[0] = pyshmem.g(moving, 2)
    again(pyshmem.barrier_all)
print("ok", flush=True)
again(pyshmem.barrier_all)
os._exit(0)  # finalize cannot be made again
"""


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_calls_that_took_too_long_are_made_again(
    shared: bool, hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    program = tmp_path / "stands_still.py"
    program.write_text(STANDS_STILL)
    command = hosts(2, device="none", shared=shared)
    command = [*command[:-1], "-x", "PYSHMEM_TIMEOUT=0.2", command[-1], str(program)]
    done = run_command(command, 60, **permission())
    assert done.stdout.count("ok") == 4, done.stdout + done.stderr


DIES = """
import os, signal
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="8M", device_heap_size="8M")
box = pyshmem.zeros(4, np.int64, heap="device")
pyshmem.barrier_all()
if job.my_pe == 1:
    os.kill(os.getppid(), signal.SIGKILL)  # the launcher's daemon there, and with it all of the host
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    pyshmem.put(box, np.ones(4, np.int64), 1)
"""


def test_a_host_that_dies_ends_the_job(
    hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    program = tmp_path / "dies.py"
    program.write_text(DIES)
    command = hosts(1)
    timeout = ["-x", "PYSHMEM_TIMEOUT=3"]
    done = run_command([*command[:-1], *timeout, command[-1], program], 60, **permission())
    assert done.returncode != 0
    assert HOSTS[1] in done.stdout + done.stderr
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if names(path, program)]


def names(cmdline: Path, program: Path) -> bool:
    """Is this the command of a process that still runs the program?"""
    try:
        return str(program) in cmdline.read_text()
    except OSError:  # it has ended meanwhile
        return False
