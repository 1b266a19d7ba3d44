# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts, and three, out of network namespaces on a bridge; ``oshrun`` starts PEs on all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from netns import Namespaces
from netns import ip as ip
from netns import wait_for_link as wait_for_link
from oshrun import permission, reason_to_skip

RunCommand = Callable[..., object]
Hosts = Callable[..., list[str]]

HOSTS = tuple(f"pysh-{os.getpid()}-{letter}" for letter in "abc")
NAMESPACES = Namespaces(HOSTS, f"pysh-{os.getpid()}-hub")
make_hosts, remove_hosts = NAMESPACES.make, NAMESPACES.remove

# oshrun calls it as it would call ssh: the host, then the command.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc sh -c "hostname $host; $*"
"""


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
