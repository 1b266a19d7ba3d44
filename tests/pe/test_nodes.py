# SPDX-License-Identifier: BSD-3-Clause
"""Nodes: PYSHMEM_NODE_SIZE makes parts of this host count as hosts, with far device heaps."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from oshrun import PYTEST, TESTS

DEVICE = TESTS / "spmd" / "device"
RunCommand = Callable[..., object]

#: Host calls on arrays of the device heap, to near PEs and far ones: 3 PEs, nodes of 2.
PROGRAM = """
import numpy as np
import pyshmem

with pyshmem.init(heap_size="8M", device_heap_size="64M") as job:
    me, n = job.my_pe, job.n_pes
    near = [pe for pe in range(n) if pe // 2 == me // 2]
    assert pyshmem.TEAM_SHARED.pes() == pyshmem.TEAM_NODE.pes() == near
    box = pyshmem.zeros(n, np.int64, heap="device")
    for pe in range(n):
        assert (pyshmem.ptr(box, pe) is None) == (pe not in near), pe
        pyshmem.put(box[me:], np.full(1, 10 + me), pe)
        pyshmem.atomic_add(box[pe:], 100, pe)
    pyshmem.barrier_all()
    expected = np.arange(10, 10 + n) + 100 * n * (np.arange(n) == me)
    assert sorted(pyshmem.to_numpy(box) % 100) == sorted(expected % 100), box

    # 3 MB, so many messages, and a signal that is behind all of them.
    large, sig = pyshmem.zeros(400_000, np.float64, heap="device"), pyshmem.new_signal(heap="device")
    right, left = (me + 1) % n, (me - 1) % n
    for turn in range(1, 6):
        data = np.full(400_000, turn * 100.0 + me)
        pyshmem.put_signal(large, data, sig, turn, pyshmem.SIGNAL_SET, right)
        pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, turn)
        assert (pyshmem.to_numpy(large) == turn * 100 + left).all()
        back = np.zeros(400_000)
        pyshmem.get(back, large, right)
        assert (back == turn * 100 + me).all()
        pyshmem.barrier_all()

    # Blocks of all sizes, so some in one message and some in several, with gaps that stay as they were.
    for block in (1, 3, 1000, 50_000):
        dest = pyshmem.zeros(4 * block * 2, np.int32, heap="device")
        source = np.arange(4 * block * 3, dtype=np.int32)
        pyshmem.barrier_all()
        pyshmem.ibput(dest, source, right, dst=2 * block, sst=3 * block, bsize=block, nblocks=4)
        pyshmem.barrier_all()
        seen = pyshmem.to_numpy(dest).reshape(4, 2 * block)
        assert (seen[:, :block] == source.reshape(4, 3 * block)[:, :block]).all()
        assert not seen[:, block:].any()
        back = np.zeros(4 * block, np.int32)
        pyshmem.ibget(back, dest, right, dst=block, sst=2 * block, bsize=block, nblocks=4)
        assert (back.reshape(4, block) == seen[:, :block]).all()
        pyshmem.barrier_all()

    old = pyshmem.atomic_fetch_add(box, 1, 0)
    assert old >= 10
    total = pyshmem.full(1, me + 1, dtype=np.int64, heap="device")
    pyshmem.sum_reduce(total, total)
    assert pyshmem.to_numpy(total)[0] == n * (n + 1) // 2
    print("ok", flush=True)
"""


def test_host_calls_on_far_device_arrays(run_pes: Callable) -> None:
    settings = {"PYSHMEM_NODE_SIZE": "2", "PYSHMEM_STAGE_SIZE": "1M"}
    done = run_pes(3, PROGRAM, device="sim", env=settings, timeout=60, check=True)
    assert done.stdout.count("ok") == 3


#: PE 1 stops; PE 0 is told so, and PE 2 serves it as before.
STOPPED = """
import os, signal, time
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="8M", device_heap_size="8M")
box, pids = pyshmem.zeros(4, np.int64, heap="device"), pyshmem.zeros(3, np.int64)
pyshmem.fcollect(pids, pyshmem.full(1, os.getpid(), dtype=np.int64))
pyshmem.barrier_all()
if job.my_pe == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
elif job.my_pe == 0:
    while "State:\tT" not in open(f"/proc/{pids[1]}/status").read():
        time.sleep(0.01)
    try:
        pyshmem.put(box, np.ones(4, np.int64), 1)
    except pyshmem.ShmemTimeout as error:
        text = str(error)
        assert "PE 1 has not answered 1 messages for" in text, text
    else:
        raise SystemExit("no timeout")
    pyshmem.put(box, np.ones(4, np.int64), 2)
    os.kill(int(pids[1]), signal.SIGCONT)
pyshmem.put(pids[:1], np.full(1, 5), job.my_pe)
while job.my_pe == 2 and pyshmem.to_numpy(box)[0] == 0:
    time.sleep(0.01)
print("ok", flush=True)
os._exit(0)
"""


GIVEN_UP = """
import gc, os, signal, time, weakref
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="8M", device_heap_size="8M")
box, sig = pyshmem.zeros(4000, np.int64, heap="device"), pyshmem.new_signal(heap="device")
pids = pyshmem.zeros(2, np.int64)
pyshmem.fcollect(pids, pyshmem.full(1, os.getpid(), dtype=np.int64))
calls = {
    "put": lambda: pyshmem.put(box, there, 1),
    "put, nelems": lambda: pyshmem.put(box, there, 1, nelems=np.int64(9)),
    "get": lambda: pyshmem.get(there, box, 1),
    "put_nbi": lambda: pyshmem.put_nbi(box, there, 1),
    "put_signal": lambda: pyshmem.put_signal(box, there, sig, 1, pyshmem.SIGNAL_SET, 1),
    "iput": lambda: pyshmem.iput(box, there, 1),
    "iget": lambda: pyshmem.iget(there, box, 1),
}
pyshmem.barrier_all()
if job.my_pe == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
else:
    while "State:\tT" not in open(f"/proc/{pids[1]}/status").read():
        time.sleep(0.01)
    for name, call in calls.items():
        there = np.ones(4000, np.int64)
        seen = weakref.ref(there)
        try:
            call()
            print(name, "has not timed out", flush=True)
        except pyshmem.ShmemTimeout:
            pass
        del there
        gc.collect()
        if seen() is None:
            print(name, "has let go of its array", flush=True)
    os.kill(int(pids[1]), signal.SIGCONT)
print("ok", flush=True)
os._exit(0)
"""


def test_arrays_of_transfers_that_were_given_up_stay(run_pes: Callable) -> None:
    """The conduit may still read them, and a copy engine still write to them."""
    settings = {"PYSHMEM_NODE_SIZE": "1", "PYSHMEM_TIMEOUT": "1.5"}
    done = run_pes(2, GIVEN_UP, device="sim", env=settings, timeout=60)
    assert done.stdout == "ok\n" * 2, done.stderr


def test_a_pe_that_stops_is_named_and_holds_up_nobody_else(run_pes: Callable) -> None:
    settings = {"PYSHMEM_NODE_SIZE": "1", "PYSHMEM_TIMEOUT": "3"}
    done = run_pes(3, STOPPED, device="sim", env=settings, timeout=60)
    assert "no timeout" not in done.stderr
    assert "Error" not in done.stderr, done.stderr
    assert done.stdout.count("ok") == 3


@pytest.mark.parametrize(
    ("size", "says"), [("-1", "NODE_SIZE is '-1'"), ("x", "PYSHMEM_NODE_SIZE")]
)
def test_a_node_size_that_is_none(size: str, says: str, run_pes: Callable) -> None:
    program = "import pyshmem\npyshmem.init()\n"
    done = run_pes(2, program, device="none", env={"PYSHMEM_NODE_SIZE": size}, timeout=20)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize("name", ["NODE_SIZE", "STAGE_SIZE", "CHECK"])
def test_settings_that_differ(name: str, run_pes: Callable) -> None:
    program = (
        f"import os\nos.environ['PYSHMEM_{name}'] = os.environ['PYSHMEM_PE']\n"
        "import pyshmem\npyshmem.init()\n"
    )
    done = run_pes(2, program, timeout=20)
    assert done.returncode != 0
    assert f"PYSHMEM_{name} is 1 on PE 1, 0 on PE 0; it must be the same" in done.stderr


def test_device_suite_with_near_and_far_pes(run_command: RunCommand) -> None:
    parts = [DEVICE / f"test_{part}.py" for part in ("signals", "paths", "faults")]
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "3", "--device", "sim"]
    done = run_command(
        [*command, *PYTEST, *map(str, parts)], 200, check=True, PYSHMEM_NODE_SIZE="2"
    )
    assert "passed" in done.stdout


#: PEs and PEs a node: one with fewer; two nodes alike; only single ones.
@pytest.mark.parametrize(("n", "size"), [(5, 2), (4, 2), (3, 1)])
def test_host_collectives_between_nodes(n: int, size: int, run_command: RunCommand) -> None:
    names = ("collectives", "team_collectives", "reduce_scatter")
    parts = [TESTS / "spmd" / "host" / f"test_host_{name}.py" for name in names]
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n), "--device", "none"]
    command += [*PYTEST, *map(str, parts)]
    done = run_command(command, 200, check=True, PYSHMEM_NODE_SIZE=str(size))
    assert "passed" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(("n", "size"), [(5, 3), (3, 2)])
def test_host_suite_on_several_nodes(n: int, size: int, run_command: RunCommand) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", str(n), "--device", "sim"]
    command += [*PYTEST, str(TESTS / "spmd" / "host")]
    done = run_command(command, 400, check=True, PYSHMEM_NODE_SIZE=str(size))
    assert "passed" in done.stdout


def test_streams_reach_near_and_far_pes(run_command: RunCommand) -> None:
    parts = [
        TESTS / "spmd" / "host" / f"test_host_streams{part}.py" for part in ("", "_collectives")
    ]
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "3", "--device", "sim"]
    done = run_command(
        [*command, *PYTEST, *map(str, parts)], 200, check=True, PYSHMEM_NODE_SIZE="2"
    )
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def test_random_operations_on_near_and_far_pes(run_command: RunCommand) -> None:
    command = [sys.executable, "-m", "pyshmem", "run", "-n", "3", "--device", "sim"]
    stress = [str(TESTS / "gpu" / "stress.py"), "--operations", "1000", "--seed", "5"]
    done = run_command([*command, *stress], 200, check=True, PYSHMEM_NODE_SIZE="2")
    assert "operations" in done.stdout
