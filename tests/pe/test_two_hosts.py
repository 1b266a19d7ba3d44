# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts, and three, out of network namespaces on a bridge; ``oshrun`` starts PEs on all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oshrun import EXAMPLES, PYTEST, SUITE, TESTS, permission, reason_to_skip

pytestmark = pytest.mark.flaky(reruns=1)  # as in test_oshrun.py

RunCommand = Callable[..., object]
Hosts = Callable[..., list[str]]

HOSTS = tuple(f"pysh-{os.getpid()}-{letter}" for letter in "abc")
HUB = f"pysh-{os.getpid()}-hub"
SECONDS_TO_LINK = 10
PARTS = ("heap", "teams", "team_collectives", "contexts", "locks", "signals", "wait_sets")
#: Of the device suite, by PEs a host: with one all others are far, with two some are near.
DEVICE_PARTS = {
    1: ("put_get", "strided", "atomics", "waits"),
    2: ("signals", "teams", "locks", "faults"),
}
COLLECTIVES = TESTS / "pe" / "far_collectives.py"
#: Of the stress; set it to 1000000 for the long one, of some 10 minutes.
OPERATIONS = int(os.environ.get("STRESS_OPERATIONS", "4000"))

# oshrun calls it as it would call ssh: the host, then the command.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc sh -c "hostname $host; $*"
"""


def ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def make_hosts() -> None:
    for host in (HUB, *HOSTS):
        ip("netns", "add", host)
    ip("-n", HUB, "link", "add", "bridge", "type", "bridge")
    ip("-n", HUB, "link", "set", "bridge", "up")
    for number, host in enumerate(HOSTS):
        end = f"port{number}"
        ip("-n", host, "link", "add", f"pysh{number}", "type", "veth", "peer", end, "netns", HUB)
        ip("-n", HUB, "link", "set", end, "master", "bridge")
        ip("-n", HUB, "link", "set", end, "up")
    for number, host in enumerate(HOSTS):
        ip("-n", host, "addr", "add", f"10.213.97.{number + 1}/24", "dev", f"pysh{number}")
        ip("-n", host, "link", "set", f"pysh{number}", "up")
        ip("-n", host, "link", "set", "lo", "up")
    for number, host in enumerate(HOSTS):
        wait_for_link(host, f"pysh{number}")


def wait_for_link(host: str, device: str) -> None:
    """Until the kernel has noticed both ends: UCX takes a link that is not up for none at all."""
    deadline = time.monotonic() + SECONDS_TO_LINK
    while "state UP" not in ip("-n", host, "-o", "link", "show", device):
        if time.monotonic() > deadline:
            pytest.fail(f"{device} of {host} is not up after {SECONDS_TO_LINK} s")
        time.sleep(0.05)


def remove_hosts() -> None:
    for host in (*HOSTS, HUB):
        subprocess.run(["ip", "netns", "del", host], capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """``hosts(n)``: the beginning of a command on ``n`` PEs of each of two, or ``count``, hosts.

    Those of one host have no memory in common either, unless it is ``shared``.
    """
    if reason_to_skip():
        pytest.skip(reason_to_skip())
    if not (shutil.which("ip") and shutil.which("unshare") and shutil.which("hostname")):
        pytest.skip("ip, unshare or hostname is not installed")
    agent = tmp_path_factory.mktemp("agent") / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    try:
        make_hosts()
    except (subprocess.CalledProcessError, OSError) as error:
        remove_hosts()
        pytest.skip(f"network namespaces are not allowed: {getattr(error, 'stderr', error)}")

    def command(n: int, device: str = "sim", count: int = 2, shared: bool = False) -> list[str]:
        here = ["ip", "netns", "exec", HOSTS[0], "unshare", "--uts", "--ipc", "sh", "-c"]
        here += [f'hostname {HOSTS[0]}; exec "$@"', "sh"]
        job = ["oshrun", "--mca", "plm_rsh_agent", str(agent), "--bind-to", "none"]
        places = [f"{host}:{n}" for host in HOSTS[:count]]
        job += ["--host", ",".join(places), "-n", str(count * n)]
        # One kernel has both hosts: of its shared memory PEs may use at most what is one host's alone.
        transports = "tcp,self,sysv" if shared else "tcp,self"
        for setting in ("NUMBA_ENABLE_CUDASIM=1", f"PYSHMEM_DEVICE={device}"):
            job += ["-x", setting]
        job += ["-x", f"UCX_TLS={transports}"]
        return [*here, *job, sys.executable]

    yield command
    remove_hosts()


def run(run_command: RunCommand, hosts: Hosts, n: int, *arguments: str | Path, **how: object):
    command = [*hosts(n, **how), *map(str, arguments)]
    return run_command(command, 280, check=True, **permission())


@pytest.mark.parametrize("name", ["01_ring_put", "02_ping_pong", "06_all_reduce"])
def test_example(name: str, hosts: Hosts, run_command: RunCommand) -> None:
    done = run(run_command, hosts, 1, EXAMPLES / f"{name}.py")
    assert "ok" in done.stdout


def test_heat_draws_its_picture(hosts: Hosts, run_command: RunCommand, tmp_path: Path) -> None:
    small = ("--rows", 24, "--cols", 24, "--steps", 20)
    done = run(run_command, hosts, 1, EXAMPLES / "heat.py", *small, "--out", tmp_path / "heat.png")
    assert re.search(r"maximum error against NumPy +│ +0\.00", done.stdout), done.stdout
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")


def test_the_pes_are_on_two_hosts(hosts: Hosts, run_command: RunCommand, tmp_path: Path) -> None:
    program = tmp_path / "where.py"
    program.write_text(
        "import socket, pyshmem\n"
        "with pyshmem.init() as job:\n"
        "    other = pyshmem.ptr(pyshmem.zeros(1), 1 - job.my_pe)\n"
        "    print('PE', job.my_pe, 'on', socket.gethostname(), job.device, other, flush=True)\n"
    )
    done = run(run_command, hosts, 1, program)
    assert sorted(done.stdout.splitlines()) == [
        f"PE 0 on {HOSTS[0]} sim None",
        f"PE 1 on {HOSTS[1]} sim None",
    ]


def test_an_exception_on_one_host_ends_the_other(
    hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    program = tmp_path / "fails.py"
    program.write_text(
        "import pyshmem\n"
        "pyshmem.init()\n"
        "if pyshmem.my_pe() == 1: raise ValueError('bad luck')\n"
        "pyshmem.barrier_all()\n"
    )
    done = run_command([*hosts(1), str(program)], 60, **permission())
    assert done.returncode != 0
    assert "ValueError: bad luck" in done.stderr


COMMUNICATORS = """
import numpy as np, pyshmem
from mpi4py import MPI
world = MPI.COMM_WORLD
back = world.Split(0, -world.rank)
try:
    pyshmem.init(comm=back)
except pyshmem.UnsupportedError as error:
    assert "spans 2 hosts" in str(error) and "MPI.COMM_WORLD" in str(error)
else:
    raise SystemExit("not refused")
with pyshmem.init(comm=world) as job:
    assert (job.my_pe, job.n_pes) == (world.rank, world.size)
    box = pyshmem.zeros(job.n_pes, dtype=np.int64)
    pyshmem.fcollect(box, pyshmem.full(1, world.rank, dtype=np.int64))
    assert world.allreduce(int(box.sum())) == job.n_pes * sum(range(job.n_pes))
    print("ok", flush=True)
"""


def test_a_communicator_of_both_hosts(
    hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    program = tmp_path / "communicators.py"
    program.write_text(COMMUNICATORS)
    job = [{"oshrun": "mpirun"}.get(word, word) for word in hosts(2)]
    done = run_command([*job, str(program)], 120, check=True, **permission())
    assert done.stdout.count("ok") == 4


def test_far_copies_while_the_program_waits_in_the_driver(
    hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    """With the fake driver of tests/native; here messages go by the OpenSHMEM library."""
    native, program, driver = TESTS / "native", tmp_path / "far_copies", tmp_path / "libcuda.so.1"
    sources = sorted(native.glob("fake_cuda*.c"))
    shared = ["gcc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-o", str(driver)]
    run_command([*shared, *map(str, sources), "-lpthread"], 60, check=True)
    info = run_command(
        [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"], 60, check=True
    )
    headers = [f"-I{TESTS.parent / folder}" for folder in ("host_proxy", "native/src")]
    command = ["gcc", "-std=gnu11", "-O2", "-o", str(program), *headers]
    command += [str(native / "far_copies.c"), *info.stdout.split(), "-lpthread", "-ldl"]
    run_command(command, 60, check=True)
    library = ":".join(filter(None, (str(tmp_path), os.environ.get("LD_LIBRARY_PATH"))))
    settings = {"LD_LIBRARY_PATH": library, "PYSHMEM_TIMEOUT": "60"}
    settings |= {"PYSHMEM_DEVICE_HEAP_SIZE": "8M", "PYSHMEM_STAGE_SIZE": "1M"}
    job = hosts(1, device="cuda")[:-1]
    for name, value in settings.items():
        job += ["-x", f"{name}={value}"]
    done = run_command([*job, str(program)], 120, check=True, **permission())
    assert done.stdout == "ok\n"


def test_what_collectives_of_kernels_cost(hosts: Hosts, run_command: RunCommand) -> None:
    """On two PEs of each host, which have no memory in common either: a message for each far PE."""
    job = hosts(2)
    command = [*job[:-1], "-x", "PYSHMEM_STAGE_SIZE=1M", job[-1], str(COLLECTIVES), "16384"]
    done = run_command(command, 200, check=True, **permission())
    assert (done.stdout.count("ok"), done.stdout.count("apart")) == (4, 4)


@pytest.mark.parametrize("n", [1, 2])
def test_static_variables_of_a_c_program(
    n: int, hosts: Hosts, run_command: RunCommand, tmp_path: Path
) -> None:
    program, source = tmp_path / "statics", TESTS / "native" / "statics.c"
    info = run_command(
        [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"], 60, check=True
    )
    command = ["gcc", "-std=gnu11", "-o", str(program), str(source), *info.stdout.split()]
    run_command([*command, "-lpthread"], 60, check=True)
    job = [*hosts(n)[:-1], str(program), "library"]
    done = run_command(job, 120, check=True, **permission())
    assert "ok" in done.stdout


#: Arrays that have to leave a host of two PEs: partial sums, results, or what both PEs give.
BYTES = {"sum_reduce": 1, "sum_inscan": 1, "fcollect": 2, "collect": 2, "broadcast": 1}
#: A small call makes a flag and a get each way; when each PE asked for itself there were 10 and more.
#: An allocation and a free are an exchange each: a barrier, and a get each way. There were 33.
PACKETS = {"malloc": 25}


@pytest.mark.serial
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_a_collective_crosses_once_between_two_hosts(
    shared: bool, hosts: Hosts, run_command: RunCommand
) -> None:
    traffic = TESTS / "pe" / "traffic.py"
    done = run(run_command, hosts, 2, traffic, device="none", shared=shared)
    seen = [line.split() for line in done.stdout.splitlines()]
    assert len(seen) == 22, done.stdout
    for name, what, each in seen:
        most = 1.1 * BYTES[name] if what == "bytes" else PACKETS.get(name, 9)
        assert float(each) < most, done.stdout


# Serial: Open MPI's PEs spin, four of them on what may be two cores.
@pytest.mark.serial
def test_host_suite(hosts: Hosts, run_command: RunCommand) -> None:
    done = run(run_command, hosts, 1, *PYTEST, SUITE, device="none")
    assert "passed" in done.stdout


@pytest.mark.serial
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_host_suite_on_two_pes_a_host(shared: bool, hosts: Hosts, run_command: RunCommand) -> None:
    # Some PEs mapped, some not. PEs that poll the network on one core take turns: less of it then.
    few_cores = len(os.sched_getaffinity(0)) < 4
    parts = PARTS if shared else ("heap", "teams")
    whole = shared and not few_cores
    suite = [SUITE] if whole else [SUITE / f"test_host_{part}.py" for part in parts]
    done = run(run_command, hosts, 2, *PYTEST, *suite, device="none", shared=shared)
    assert "passed" in done.stdout


@pytest.mark.serial
def test_both_suites_on_three_hosts(hosts: Hosts, run_command: RunCommand) -> None:
    parts = [TESTS / "spmd" / "device" / "test_signals.py"]
    parts += [SUITE / f"test_host_{part}.py" for part in ("signals", "teams")]
    command = [*hosts(1, count=3), *PYTEST, *map(str, parts)]
    done = run_command(command, 280, check=True, **permission())
    assert "passed" in done.stdout


@pytest.mark.serial
@pytest.mark.parametrize("n", DEVICE_PARTS)
def test_device_suite(n: int, hosts: Hosts, run_command: RunCommand) -> None:
    parts = [TESTS / "spmd" / "device" / f"test_{part}.py" for part in DEVICE_PARTS[n]]
    done = run(run_command, hosts, n, *PYTEST, *parts)
    assert "passed" in done.stdout


@pytest.mark.serial
@pytest.mark.parametrize("n", [1, 2])
def test_random_operations_of_kernels(n: int, hosts: Hosts, run_command: RunCommand) -> None:
    stress = [TESTS / "gpu" / "stress.py", "--operations", str(OPERATIONS), "--seed", str(n)]
    seconds = 120 + OPERATIONS // 500
    command = [*hosts(n), *map(str, stress)]
    done = run_command(command, seconds, check=True, **permission())
    assert re.search(r"^mismatches +0$", done.stdout, re.MULTILINE), done.stdout


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
