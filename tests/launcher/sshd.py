# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts that ssh reaches: network namespaces with an sshd in each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from environment import listing
from netns import Namespaces, ip

NAMES = ("a", "b")

SSHD = """
Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
"""

CLIENT = """
Host {name}
    HostName {address}
    User root
    IdentityFile {folder}/key
    IdentitiesOnly yes
    StrictHostKeyChecking no
    UserKnownHostsFile {folder}/known
    LogLevel ERROR
"""


@dataclass
class Hosts:
    """Hosts ``a`` and ``b``. Commands run on ``a``, as those of a user who has logged in there do."""

    namespaces: Namespaces
    folder: Path
    daemons: list[subprocess.Popen[bytes]]

    @property
    def ssh(self) -> str:
        """What ``--ssh`` takes to reach them."""
        return f"ssh -F {self.folder}/config -o BatchMode=yes -o ConnectTimeout=5"

    def on(self, name: str, *command: str) -> list[str]:
        """The command, on that host."""
        return ["ip", "netns", "exec", self.namespaces.names[NAMES.index(name)], *command]

    def run(self, *arguments: str) -> list[str]:
        """``pyshmem run`` on host a, which starts a job by ssh."""
        command = [sys.executable, "-m", "pyshmem", "run", "--ssh", self.ssh, "--device", "none"]
        return self.on("a", *command, *arguments)

    def link(self, state: str) -> None:
        """Set the link of host b ``up`` or ``down``."""
        ip("-n", self.namespaces.names[1], "link", "set", "pysh1", state)

    def assert_no_session(self, seconds: float) -> None:
        """Until no sshd serves anybody; their connections are closed then."""
        deadline = time.monotonic() + seconds
        while left := [
            c for d in self.daemons for c in psutil.Process(d.pid).children(recursive=True)
        ]:
            # One command of `ip netns exec` stands between for a moment.
            assert time.monotonic() < deadline, listing(left)
            time.sleep(0.1)

    def sockets(self) -> list[str]:
        """Of both hosts, but for where sshd listens and ends that the kernel keeps for a while."""
        ended, at_22 = "06", ":0016"
        found = []
        for name in NAMES:
            shown = subprocess.run(
                self.on(name, "cat", "/proc/net/tcp", "/proc/net/tcp6"),
                check=True,
                capture_output=True,
                text=True,
                timeout=30,
            )
            lines = [line.split() for line in shown.stdout.splitlines() if "address" not in line]
            found += [
                f"{name}: {own} {other} {state}"
                for _, own, other, state, *_ in lines
                if state != ended and not own.endswith(at_22)
            ]
        return found

    def assert_no_socket(self, seconds: float) -> None:
        """Until none is left, of whatever program."""
        deadline = time.monotonic() + seconds
        while left := self.sockets():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        self.namespaces.remove()


def made(folder: Path) -> Hosts:
    names = [f"pysh-{os.getpid()}-ssh-{name}" for name in NAMES]
    namespaces = Namespaces(names, f"pysh-{os.getpid()}-ssh-hub", "10.213.98")
    hosts = Hosts(namespaces, folder, [])
    try:
        namespaces.make()
        for key in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True, timeout=30)
        Path("/run/sshd").mkdir(exist_ok=True)
        client = ""
        for number, name in enumerate(NAMES):
            where = {"address": namespaces.address(number), "folder": folder, "name": name}
            (folder / f"sshd-{name}").write_text(SSHD.format(**where))
            client += CLIENT.format(**where)
            sshd = [
                str(shutil.which("sshd", path=SEARCHED)),
                "-D",
                "-f",
                str(folder / f"sshd-{name}"),
            ]
            hosts.daemons.append(subprocess.Popen(hosts.on(name, *sshd)))
        (folder / "config").write_text(client)
        for name in NAMES:
            wait_for_ssh(hosts, name)
    except BaseException:
        hosts.close()
        raise
    return hosts


#: sshd is not on the path of all who may start it.
SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def wait_for_ssh(hosts: Hosts, name: str) -> None:
    deadline = time.monotonic() + 20
    command = hosts.on("a", *hosts.ssh.split(), name, "true")
    while subprocess.run(command, capture_output=True, timeout=30).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no sshd answers on host {name}")
        time.sleep(0.1)


def reason_to_skip() -> str:
    if os.geteuid():
        return "network namespaces need root"
    for name in ("ip", "ssh", "sshd", "ssh-keygen"):
        if not shutil.which(name, path=SEARCHED):
            return f"{name} is not installed"
    return ""
