# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts out of network namespaces, joined by a veth pair; ``oshrun`` starts PEs on both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oshrun import EXAMPLES, PYTEST, SUITE, permission, reason_to_skip

RunCommand = Callable[..., object]
Hosts = Callable[..., list[str]]

HOSTS = ("pysh-a", "pysh-b")

# oshrun calls it as it would call ssh: the host, then the command.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=30)


def make_hosts() -> None:
    for host in HOSTS:
        ip("netns", "add", host)
    ip("-n", HOSTS[0], "link", "add", "pysh0", "type", "veth", "peer", "pysh1", "netns", HOSTS[1])
    for number, host in enumerate(HOSTS):
        ip("-n", host, "addr", "add", f"10.213.97.{number + 1}/24", "dev", f"pysh{number}")
        ip("-n", host, "link", "set", f"pysh{number}", "up")
        ip("-n", host, "link", "set", "lo", "up")


def remove_hosts() -> None:
    for host in HOSTS:
        subprocess.run(["ip", "netns", "del", host], capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """``hosts(n)``: the beginning of a command that runs on ``n`` PEs of each host."""
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

    def command(n: int) -> list[str]:
        here = ["ip", "netns", "exec", HOSTS[0], "unshare", "--uts", "sh", "-c"]
        here += [f'hostname {HOSTS[0]}; exec "$@"', "sh"]
        job = ["oshrun", "--mca", "plm_rsh_agent", str(agent), "--bind-to", "none"]
        job += ["--host", ",".join(f"{host}:{n}" for host in HOSTS), "-n", str(2 * n)]
        # One kernel has both hosts: without this the PEs would use its shared memory.
        return [*here, *job, "-x", "UCX_TLS=tcp,self", sys.executable]

    yield command
    remove_hosts()


def run(run_command: RunCommand, hosts: Hosts, n: int, *arguments: str | Path):
    return run_command([*hosts(n), *map(str, arguments)], 280, check=True, **permission())


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", ["00_hello", "01_ring_put", "02_ping_pong", "04_pi"])
def test_example(name: str, n: int, hosts: Hosts, run_command: RunCommand) -> None:
    done = run(run_command, hosts, n, EXAMPLES / f"{name}.py")
    assert "ok" in done.stdout


def test_the_pes_are_on_two_hosts(hosts: Hosts, run_command: RunCommand, tmp_path: Path) -> None:
    program = tmp_path / "where.py"
    program.write_text(
        "import socket, pyshmem\n"
        "with pyshmem.init() as job:\n"
        "    print('PE', job.my_pe, 'on', socket.gethostname(), 'with', job.device, flush=True)\n"
    )
    done = run(run_command, hosts, 1, program)
    assert sorted(done.stdout.splitlines()) == [
        "PE 0 on pysh-a with none",
        "PE 1 on pysh-b with none",
    ]


def test_host_suite(hosts: Hosts, run_command: RunCommand) -> None:
    done = run(run_command, hosts, 1, *PYTEST, SUITE)
    assert "passed" in done.stdout


def test_host_suite_on_two_pes_a_host(hosts: Hosts, run_command: RunCommand) -> None:
    if len(os.sched_getaffinity(0)) < 4:
        pytest.skip("4 PEs that poll the network need 4 cores")
    run(run_command, hosts, 2, *PYTEST, SUITE)
