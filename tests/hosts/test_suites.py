# SPDX-License-Identifier: BSD-3-Clause
"""The suites that every PE of a job runs, over UCX: on hosts, and on one that is cut in nodes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import PYTEST, TESTS, Cluster, ucx_of_package
from namespaces import HOSTS

HOST = str(TESTS / "spmd" / "host")
#: Of the device suite, in the simulator: PEs of a host, and what runs there.
DEVICE = {
    (1, 2): ("put_get", "strided", "atomics", "waits", "collectives"),
    (2, 2): ("signals", "teams", "locks", "faults", "paths"),
}


@pytest.mark.parametrize(("n", "count"), [(1, 2), (1, 3), (2, 2)])
def test_the_host_suite_on_hosts(n: int, count: int, cluster: Cluster) -> None:
    pes = cluster.run([*PYTEST, HOST], n, count, 280, PYSHMEM_DEVICE="none")
    assert re.search(r"\d{4} passed", pes[0].out)  # PE 0 speaks for all, who have to end well


@pytest.mark.parametrize(("n", "count"), DEVICE, ids=str)
def test_the_device_suite_on_hosts(n: int, count: int, cluster: Cluster) -> None:
    parts = [str(TESTS / "spmd" / "device" / f"test_{part}.py") for part in DEVICE[n, count]]
    settings = {"PYSHMEM_DEVICE": "sim", "PYSHMEM_STAGE_SIZE": "1M"}
    pes = cluster.run([*PYTEST, *parts], n, count, 290, **settings)
    assert " passed" in pes[0].out


@pytest.mark.parametrize(("n", "size"), [(2, 1), (4, 2)])
def test_the_host_suite_on_nodes(n: int, size: int, run_command: Callable) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n), "--device", "none"]
    settings = {"PYSHMEM_CONDUIT": "ucx", "PYSHMEM_NODE_SIZE": str(size)}
    settings["PYSHMEM_UCX_LIBRARY"] = ucx_of_package()
    done = run_command([*command, *PYTEST, HOST], 280, check=True, **settings)
    assert re.search(r"\d{4} passed", done.stdout)


VERSION = """
import ctypes
numbers = [ctypes.c_uint() for _ in range(3)]
ctypes.CDLL("libucp.so.0").ucp_get_version(*map(ctypes.byref, numbers))
print(*[number.value for number in numbers])
"""


def test_the_ucx_of_the_system(cluster: Cluster) -> None:
    """It serves, or is refused by name: 1.13 lost messages in this very test."""
    asked = subprocess.run(
        [sys.executable, "-c", VERSION], capture_output=True, text=True, check=False
    )
    version = [int(word) for word in asked.stdout.split()]
    settings = {"PYSHMEM_DEVICE": "none", "PYSHMEM_UCX_LIBRARY": "libucp.so.0"}
    if version >= [1, 20]:
        parts = [f"{HOST}/test_host_{part}.py" for part in ("rma", "atomics", "collectives")]
        cluster.run([*PYTEST, *parts], 1, 3, 200, **settings)
        return
    for pe in cluster.start(["-c", "import pyshmem; pyshmem.init()"], 1, 2, **settings):
        pe.wait(60)
        assert pe.process.returncode == 1
        text = "conduit ucx needs 1.20 or later" if version else "cannot be opened"
        assert text in pe.err, pe.err


WHERE = """
import socket, pyshmem
with pyshmem.init(heap_size="8M", device="none") as job:
    one = pyshmem.zeros(1)
    near = [pe for pe in range(job.n_pes) if pyshmem.ptr(one, pe) is not None]
    print("PE", job.my_pe, "on", socket.gethostname(), near)
with pyshmem.init(heap_size="8M", device="none") as job:  # a second job of the same processes
    pyshmem.barrier_all()
    print("again")
"""


def test_pes_of_one_host_share_memory(cluster: Cluster) -> None:
    pes = cluster.run(["-c", WHERE], 2, 2, 60)
    near = {HOSTS[0]: [0, 1], HOSTS[1]: [2, 3]}
    for i, pe in enumerate(pes):
        assert pe.out == f"PE {i} on {pe.host} {near[pe.host]}\nagain\n"


def test_static_variables_of_a_c_program(
    cluster: Cluster, run_command: Callable, tmp_path: Path
) -> None:
    program, source = f"{tmp_path}/statics", TESTS / "native" / "statics.c"
    info = run_command(
        [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"], 60, check=True
    )
    command = ["gcc", "-std=gnu11", "-o", program, str(source), *info.stdout.split(), "-lpthread"]
    run_command(command, 60, check=True)
    start = f"import os; os.execv({program!r}, [{program!r}, 'library'])"
    pes = cluster.run(["-c", start], 1, 2, 60)
    assert "ok" in "".join(pe.out for pe in pes)
