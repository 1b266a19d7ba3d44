# SPDX-License-Identifier: BSD-3-Clause
"""What is around a job over UCX: children of its PEs, IPv6, several networks, a range of ports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cluster import ADDRESS, Cluster, processes, sockets
from namespaces import HOSTS, NAMESPACES, ip, wait_for_link

#: Puts go on while children come and go; what these inherit of UCX does no harm.
CHILDREN = """
import multiprocessing, os, subprocess, sys, threading, time
import numpy as np, pyshmem

def square(value):
    return value * value

def forked(value):
    try:
        pyshmem.barrier_all()
    except pyshmem.ShmemError as error:
        return "forked this process" in str(error)

if __name__ == "__main__":
    job = pyshmem.init(heap_size="8M", device="none")
    box, right = pyshmem.zeros(1000), (job.my_pe + 1) % job.n_pes
    stop = threading.Event()

    def puts():
        while not stop.is_set():
            pyshmem.put(box, np.full(1000, float(job.my_pe)), right)
            pyshmem.quiet()
            time.sleep(0.001)

    putting = threading.Thread(target=puts)
    putting.start()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(forked, range(20)) == [True] * 20
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(square, range(20)) == [k * k for k in range(20)]
    assert subprocess.check_output(["echo", "child"]) == b"child\\n"
    for _ in range(5):
        child = os.fork()
        if child == 0:
            sys.exit(0)  # with all exit handlers
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    putting.join()
    pyshmem.barrier_all()
    assert (box == (job.my_pe - 1) % job.n_pes).all()
    pyshmem.finalize()
    print("ok")
"""


def test_children_of_pes(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "children.py"  # those that are spawned read it
    script.write_text(CHILDREN)
    cluster.run([str(script)], 2, 2, 120)


#: A child of the PE that is killed has its sockets open for longer.
ORPHAN = """
import os, signal, sys, time
import pyshmem

job = pyshmem.init(heap_size="8M", device="none")
pyshmem.barrier_all()
if job.my_pe == 1:
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    pyshmem.barrier_all()
except pyshmem.PeerDied as error:
    print(error, flush=True)
    os._exit(0)
"""


def test_a_killed_pe_whose_child_lives_on_is_named(cluster: Cluster) -> None:
    pes = cluster.start(["-c", ORPHAN], 1, 2)
    pes[0].wait(60)
    assert f"PE 1 on host {HOSTS[1]} died" in pes[0].out, pes[0].out + pes[0].err
    left = processes(HOSTS[1])
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert left, "the child was to be there still"


# ---- networks ---------------------------------------------------------------------------------------

#: Until its sockets have been looked at.
GOES_ROUND = """
import numpy as np, pathlib, pyshmem, sys, time
folder = pathlib.Path(sys.argv[1])
with pyshmem.init(heap_size="8M", device="none") as job:
    box = pyshmem.zeros(50_000)
    pyshmem.put(box, np.full(50_000, job.my_pe + 1.0), (job.my_pe + 1) % job.n_pes)
    pyshmem.barrier_all()
    assert (box == (job.my_pe - 1) % job.n_pes + 1).all()
    print("in", flush=True)
    (folder / str(job.my_pe)).touch()
    while not (folder / "seen").exists():
        time.sleep(0.05)
    pyshmem.barrier_all()
"""


def addresses_of(host: str) -> set[tuple[str, int]]:
    """Own addresses and ports of the sockets of TCP on a host, those that listen too."""
    found, ended = set(), "06"  # the kernel keeps the ends of connections for a while
    for version in ("tcp", "tcp6"):
        shown = subprocess.run(
            ["ip", "netns", "exec", host, "cat", f"/proc/net/{version}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for line in shown.splitlines()[1:]:
            _, own, _, state, *_ = line.split()
            if state == ended:
                continue
            digits, _, port = own.partition(":")
            # Words of 32 bits, each with its lowest byte first.
            packed = b"".join(
                bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)
            )
            found.add((str(ip_address(packed)), int(port, 16)))
    return found


def go_round(cluster: Cluster, **settings: str) -> dict[str, set[tuple[str, int]]]:
    """A job of a PE on each of two hosts; the sockets that it had there while it ran."""
    seen: dict[str, set[tuple[str, int]]] = {host: set() for host in HOSTS[:2]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pes = cluster.start(["-c", GOES_ROUND, name], 1, 2, **settings)
        while any(pe.process.poll() is None for pe in pes):
            both_in = (folder / "0").exists() and (folder / "1").exists()
            for host in seen:
                seen[host] |= addresses_of(host)
            if both_in:
                (folder / "seen").touch()
            time.sleep(0.05)
    for pe in pes:
        pe.wait(60)
        assert (pe.process.returncode, pe.out) == (0, "in\n"), pe.out + pe.err
    assert not any(sockets(host) for host in HOSTS)
    return seen


@pytest.fixture
def two_networks(made_hosts: None) -> Iterator[str]:
    """The name of a second device that both hosts have, ``other``; host ``k`` is 10.213.96.<k + 1>."""
    first, second = HOSTS[:2]
    ip("-n", first, "link", "add", "other", "type", "veth", "peer", "other", "netns", second)
    for number, host in enumerate((first, second)):
        ip("-n", host, "addr", "add", f"10.213.96.{number + 1}/24", "dev", "other")
        ip("-n", host, "link", "set", "other", "up")
    for host in (first, second):
        wait_for_link(host, "other")
    yield "other"
    ip("-n", first, "link", "del", "other")


def test_of_two_networks_the_one_that_is_named_is_used(cluster: Cluster, two_networks: str) -> None:
    seen = go_round(cluster, PYSHMEM_INTERFACE=two_networks, **at("10.213.96.1"))
    for number, host in enumerate(HOSTS[:2]):
        assert {address for address, _ in seen[host]} == {f"10.213.96.{number + 1}"}, seen


def test_a_job_between_addresses_of_ipv6_alone(cluster: Cluster) -> None:
    with only_ipv6():
        seen = go_round(cluster, **at("[fd13::1]"))
    for number, host in enumerate(HOSTS[:2]):
        found = {address for address, _ in seen[host]}  # UCX listens on the host's own device, too
        assert found - {"127.0.0.1", "::1"} == {f"fd13::{number + 1}"}, seen


def test_ports_out_of_a_range(cluster: Cluster) -> None:
    seen = go_round(cluster, UCX_TCP_PORT_RANGE="23000-23100", **at(ADDRESS, 23101))
    for host in HOSTS[:2]:  # the system gives those that connect a port of its own range
        listening = {port for _, port in seen[host] if port < 32768}
        assert listening & set(range(23000, 23101)), seen
        assert listening <= set(range(23000, 23102)), seen


def at(address: str, port: int = 23200) -> dict[str, str]:
    """Where the PEs meet."""
    return {"PYSHMEM_RENDEZVOUS": f"{address}:{port}"}


@contextlib.contextmanager
def only_ipv6() -> Iterator[None]:
    """Both hosts have lost their addresses of IPv4, and have fd13::1 and fd13::2."""
    for number, host in enumerate(HOSTS[:2]):
        ip("-n", host, "addr", "flush", "dev", f"pysh{number}")
        ip("-n", host, "addr", "add", f"fd13::{number + 1}/64", "dev", f"pysh{number}", "nodad")
    try:
        yield
    finally:
        for number, host in enumerate(HOSTS[:2]):
            ip("-n", host, "addr", "flush", "dev", f"pysh{number}")
            own = f"{NAMESPACES.address(number)}/24"
            ip("-n", host, "addr", "add", own, "dev", f"pysh{number}")
