# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on two hosts, and three: see namespaces.py. How they fail: test_two_hosts_failing.py."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from namespaces import HOSTS, Hosts, RunCommand, run
from oshrun import EXAMPLES, PYTEST, SUITE, TESTS, permission

pytestmark = pytest.mark.flaky(reruns=1)  # as in test_oshrun.py

PARTS = ("heap", "teams", "team_collectives", "contexts", "locks", "signals", "wait_sets")
#: Of the device suite, by PEs a host: with one all others are far, with two some are near.
DEVICE_PARTS = {
    1: ("put_get", "strided", "atomics", "waits"),
    2: ("signals", "teams", "locks", "faults"),
}
COLLECTIVES = TESTS / "pe" / "far_collectives.py"
#: Of the stress; set it to 1000000 for the long one, of some 10 minutes.
OPERATIONS = int(os.environ.get("STRESS_OPERATIONS", "4000"))


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
#: A non-blocking form makes two flags each way (sync one), where a host shares memory, and gets.
PACKETS |= {"sync_nb": 7, "broadcast_nb": 15, "fcollect_nb": 23, "sum_reduce_nb": 21}


@pytest.mark.serial
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_a_collective_crosses_once_between_two_hosts(
    shared: bool, hosts: Hosts, run_command: RunCommand
) -> None:
    traffic = TESTS / "pe" / "traffic.py"
    done = run(run_command, hosts, 2, traffic, device="none", shared=shared)
    seen = [line.split() for line in done.stdout.splitlines()]
    assert len(seen) == 30, done.stdout
    for name, what, each in seen:
        if name.endswith("_nb") and not shared:
            continue
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
