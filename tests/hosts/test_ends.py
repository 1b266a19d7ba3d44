# SPDX-License-Identifier: BSD-3-Clause
"""How jobs over several hosts end otherwise than well, who is kept out, and what is left: nothing."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import ADDRESS, Cluster, Pe, processes, sockets
from environment import clean_environment, random_seed
from namespaces import HOSTS, ip

#: A PE goes, and what the others are in meanwhile.
PROGRAM = """
import os, signal, sys, time
import numpy as np
import pyshmem

how, victim = sys.argv[1], int(sys.argv[2])
job = pyshmem.init(heap_size="16M", device="none")
box, ones, word = pyshmem.zeros(100_000), np.ones(100_000), pyshmem.zeros(1, np.int64)
pyshmem.barrier_all()
if job.my_pe == victim:
    print(os.getpid(), flush=True)
    time.sleep(0.3)
    if how == "raises":
        raise ValueError("bad luck")
    os.kill(os.getpid(), signal.SIGKILL)
try:
    if how == "barrier_all" or how == "raises":
        pyshmem.barrier_all()
    elif how == "wait_until":
        pyshmem.wait_until(word, pyshmem.CMP_EQ, 7)
    while how == "get":
        pyshmem.get(ones, box, victim)
    while how == "quiet":
        pyshmem.put_nbi(box, ones, victim)
        pyshmem.quiet()
    while how == "sum_reduce":
        pyshmem.sum_reduce(box[:1], box[1:2])
except pyshmem.PeerDied as error:
    print(error, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("how", ["barrier_all", "wait_until", "get", "quiet", "sum_reduce"])
def test_a_pe_that_is_killed_is_named(how: str, victim: int, cluster: Cluster) -> None:
    pes = cluster.start(["-c", PROGRAM, how, str(victim)], 1, 3)
    for pe in pes:
        pe.wait(60)
    for i, pe in enumerate(pes):
        if i != victim:
            assert f"PE {victim} on host {HOSTS[victim]} died" in pe.out, pe.out + pe.err
            assert f"this PE was in {how}" in pe.out
    assert not any(sockets(host) or processes(host) for host in HOSTS)


def test_why_a_pe_gave_up_is_told_on_all_hosts(cluster: Cluster) -> None:
    pes = cluster.start(["-c", PROGRAM, "raises", "1"], 1, 3)
    for pe in pes:
        pe.wait(60)
    assert "ValueError: bad luck" in pes[1].err
    for pe in (pes[0], pes[2]):
        assert "the job is being aborted: PE 1 gave up with code 1: ValueError: bad luck" in pe.out


#: A PE says that it is in the job, by a file.
SAYS = "import pathlib\npathlib.Path({folder!r}, str(pyshmem.my_pe())).touch()\n"


def wait_until_in(folder: Path, pes: list[Pe]) -> None:
    """All PEs are in the job, and have said so."""
    deadline = time.monotonic() + 100
    while len(list(folder.iterdir())) < len(pes):
        assert all(pe.process.poll() is None for pe in pes), "a PE has ended"
        assert time.monotonic() < deadline, "not all PEs came"
        time.sleep(0.05)


def test_a_host_that_is_cut_off_is_named(cluster: Cluster, tmp_path: Path) -> None:
    waits = PROGRAM.replace(
        "if job.my_pe ==", SAYS.format(folder=str(tmp_path)) + "if job.my_pe =="
    )
    pes = cluster.start(["-c", waits, "wait_until", "9"], 1, 2)
    wait_until_in(tmp_path, pes)
    time.sleep(1)  # into the wait
    assert all(pe.process.poll() is None for pe in pes)
    ip("-n", HOSTS[1], "link", "set", "pysh1", "down")
    try:
        for pe in pes:
            pe.wait(30)
    finally:
        ip("-n", HOSTS[1], "link", "set", "pysh1", "up")
    assert f"PE 1 on host {HOSTS[1]} died or cannot be reached" in pes[0].out
    assert f"PE 0 on host {HOSTS[0]} died or cannot be reached" in pes[1].out


def test_a_program_that_does_not_finalise_ends(cluster: Cluster, tmp_path: Path) -> None:
    leaves = "import os, pyshmem; pyshmem.init(heap_size='8M', device='none'); os._exit(0)"
    cluster.run(["-c", leaves], 1, 2, 60)
    interrupted = (
        "import pyshmem; pyshmem.init(heap_size='8M', device='none')\n"
        + SAYS.format(folder=str(tmp_path))
        + "if pyshmem.my_pe() == 0: pyshmem.signal_wait_until(pyshmem.new_signal(), pyshmem.CMP_EQ, 1)\n"
        "else:\n    import time; time.sleep(9)"
    )
    pes = cluster.start(["-c", interrupted], 1, 2)
    wait_until_in(tmp_path, pes)
    time.sleep(1)
    for pe in pes:
        pe.process.send_signal(signal.SIGINT)
    for pe in pes:
        pe.wait(30)
        assert "KeyboardInterrupt" in pe.err


# ---- who is kept out -----------------------------------------------------------------------------

RING = """
import numpy as np, pyshmem
with pyshmem.init(heap_size="8M", device="none") as job:
    box = pyshmem.zeros(1)
    pyshmem.put(box, np.full(1, job.my_pe + 1.0), (job.my_pe + 1) % job.n_pes)
    pyshmem.barrier_all()
    assert box[0] == (job.my_pe - 1) % job.n_pes + 1
    print("ok")
"""

#: In a host's network: rubbish to an address, again and again for so many seconds.
STRANGER = """
import random, socket, sys, time
seconds, ports = float(sys.argv[2]), sys.argv[3:]
chance, end, n = random.Random(int(sys.argv[1])), time.monotonic() + 60, 0
while time.monotonic() < end:
    for port in ports:
        try:
            with socket.create_connection(("10.213.97.1", int(port)), 1) as one:
                if not n:
                    end = time.monotonic() + seconds
                n += 1
                one.settimeout(0.2)
                one.sendall(chance.randbytes(chance.choice([1, 7, 32, 64, 300, 5000])))
                one.recv(1)
        except OSError:
            time.sleep(0.01)
print(n)
"""


def stranger(host: str, seconds: float, *ports: int) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", host, sys.executable, "-c", STRANGER]
    command += [str(random.randrange(10**6)), str(seconds), *map(str, ports)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())


def test_strangers_at_the_rendezvous_are_refused(cluster: Cluster) -> None:
    cluster.new_job()
    place = [cluster.place(pe, 3) for pe in range(3)]
    first = [cluster.begin_pe(HOSTS[i], ["-c", RING], place[i]) for i in range(2)]
    cluster.pes = first
    came = stranger(HOSTS[2], 3, int(cluster.rendezvous.rpartition(":")[2]))
    wrong = cluster.begin_pe(HOSTS[2], ["-c", RING], {**place[2], "PYSHMEM_SECRET": "0" * 32})
    wrong.wait(30)
    assert wrong.process.returncode != 0
    assert (
        "PE 0 closed the connection" in wrong.err or "does not know the job's secret" in wrong.err
    )
    assert int(came.communicate(timeout=30)[0]) > 3
    assert all(pe.process.poll() is None for pe in first)
    cluster.pes = [*first, cluster.begin_pe(HOSTS[2], ["-c", RING], place[2])]
    for pe in cluster.pes:
        pe.wait(60)
        assert (pe.process.returncode, pe.out) == (0, "ok\n"), pe.err


def test_strangers_at_the_ports_of_ucx_do_no_harm(cluster: Cluster) -> None:
    """They are not refused by name, as UCX asks for none; but nothing that they say is carried out."""
    busy = RING.replace("pyshmem.barrier_all()", "for _ in range(20_000): pyshmem.barrier_all()", 1)
    pes = cluster.start(["-c", busy], 1, 2)
    ports: set[int] = set()
    deadline = time.monotonic() + 30
    while not ports and time.monotonic() < deadline:
        lines = [line.split() for line in sockets(HOSTS[0])]
        listening = {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A"}
        if any(line[3] == "01" for line in lines):
            ports = listening
        time.sleep(0.05)
    assert ports
    came = stranger(HOSTS[2], 2, *ports)
    for pe in pes:
        pe.wait(100)
        assert (pe.process.returncode, pe.out) == (0, "ok\n"), pe.err
    came.communicate(timeout=30)


OTHER = """
import sys
import pyshmem
from pyshmem._core.library import ffi, lib
config = ffi.new("ishmemx_config_t *")
assert lib.ishmemx_config_from_environment(config) == 0
config.accelerator = lib.ISHMEMX_DEVICE_NONE
other = ffi.new("char[]", b"9.8.7 for x86_64")
if config.pe == 1 and sys.argv[1] == "version":
    config.version = other
config.heap_bytes = (config.pe + 1 << 20) if sys.argv[1] == "heap" else 1 << 20
pyshmem._core.library.tell_of_ucx()
status = lib.ishmemx_init(config)
print(status == lib.ISHMEMX_ERR_MISMATCH, ffi.string(lib.ishmemx_error()).decode())
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [("version", "PE 1 runs pyshmem 9.8.7"), ("heap", "PE 1 has a host heap of 2")],
)
def test_what_does_not_fit_is_refused_on_all_hosts(what: str, told: str, cluster: Cluster) -> None:
    for pe in cluster.run(["-c", OTHER, what], 1, 2, 60):
        assert pe.out.startswith("True"), pe.out
        assert told in pe.out


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"PYSHMEM_SECRET": ""}, "PYSHMEM_SECRET is not set"),
        ({"PYSHMEM_SECRET": "abc"}, "another length"),
        ({"PYSHMEM_RENDEZVOUS": "nowhere"}, "not host:port"),
        ({"PYSHMEM_UCX_LIBRARY": "/nowhere/libucp.so"}, "cannot be opened"),
        ({"PYSHMEM_INIT_TIMEOUT": "1"}, "PE 1 did not come to PE 0"),
    ],
    ids=["no secret", "short", "address", "library", "alone"],
)
def test_what_is_wrong_with_a_rendezvous(
    extra: dict[str, str], told: str, cluster: Cluster
) -> None:
    cluster.new_job()
    pe = cluster.begin_pe(HOSTS[0], ["-c", RING], {**cluster.place(0, 2), **extra})
    cluster.pes = [pe]
    pe.wait(60)
    assert pe.process.returncode != 0
    assert told in pe.err, pe.err


def test_the_secret_is_not_handed_on(cluster: Cluster) -> None:
    looks = (
        "import pyshmem, subprocess\n"
        "with pyshmem.init(heap_size='8M', device='none'):\n"
        "    assert 'SECRET' not in subprocess.check_output(['env'], text=True)\n"
    )
    cluster.run(["-c", looks], 1, 2, 60)


def test_after_kills_at_any_time_nothing_is_left(cluster: Cluster) -> None:
    seed = random_seed()
    chance = random.Random(seed)
    busy = RING.replace("pyshmem.barrier_all()", "while True: pyshmem.barrier_all()", 1)
    for _ in range(5):
        pes = cluster.start(["-c", busy], 2, 2, PYSHMEM_INIT_TIMEOUT="8")
        time.sleep(chance.uniform(0.5, 5))
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(pes).process.pid, signal.SIGKILL)
        for pe in pes:
            pe.wait(60)
            assert pe.process.returncode != 0, f"seed {seed}"
        assert not any(sockets(host) or processes(host) for host in HOSTS), f"seed {seed}"


def test_ucx_makes_no_shared_memory(cluster: Cluster) -> None:
    """Its files in /dev/shm would stay behind a PE that is killed at the wrong moment."""
    looks = (
        "import pyshmem\n"
        "with pyshmem.init(heap_size='8M', device='none'):\n"
        "    mapped = open('/proc/self/maps').read()\n"
        "assert 'ucp' in mapped and 'ucx_shm' not in mapped and 'SYSV' not in mapped\n"
    )
    cluster.run(["-c", looks], 1, 2, 60)


def test_a_port_that_is_taken_is_named(cluster: Cluster) -> None:
    cluster.new_job()
    port = cluster.rendezvous.rpartition(":")[2]
    holder = (
        "import socket, time\n"
        "made = socket.create_server(('0.0.0.0', %s))\n"
        "print('in', flush=True)\n"
        "time.sleep(60)"
    )
    command = ["ip", "netns", "exec", HOSTS[0], sys.executable, "-c", holder % port]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as held:
        assert held.stdout
        held.stdout.readline()
        pe = cluster.begin_pe(HOSTS[0], ["-c", RING], cluster.place(0, 2))
        cluster.pes = [pe]
        pe.wait(60)
        held.kill()
    assert f"PE 0 cannot listen at {ADDRESS}:{port}" in pe.err


def test_pe_0_takes_a_socket_that_listens_already(cluster: Cluster) -> None:
    """As a launcher makes it that lets the system choose the port."""
    cluster.new_job()
    port = cluster.rendezvous.rpartition(":")[2]
    opens = (
        "import os, socket\n"
        f"made = socket.create_server(('{ADDRESS}', {port}))\n"
        "os.environ['PYSHMEM_RENDEZVOUS_FD'] = str(made.detach())\n"
    )
    pes = [
        cluster.begin_pe(HOSTS[i], ["-c", (opens if i == 0 else "") + RING], cluster.place(i, 2))
        for i in range(2)
    ]
    cluster.pes = pes
    for pe in pes:
        pe.wait(60)
        assert (pe.process.returncode, pe.out) == (0, "ok\n"), pe.err
