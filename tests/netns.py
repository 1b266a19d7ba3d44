# SPDX-License-Identifier: BSD-3-Clause
"""Hosts out of network namespaces on a bridge: for tests that root runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

SECONDS_TO_LINK = 10


def ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


class Namespaces(NamedTuple):
    """Host ``k`` of ``names`` has the address ``<network>.<k + 1>`` on its device ``pysh<k>``."""

    names: Sequence[str]
    hub: str  #: the namespace of the bridge
    network: str = "10.213.97"

    def make(self) -> None:
        """Raises: CalledProcessError, OSError (they are not allowed, or ``ip`` is not installed)."""
        for host in (self.hub, *self.names):
            ip("netns", "add", host)
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        for number, host in enumerate(self.names):
            end, device = f"port{number}", f"pysh{number}"
            ip("-n", host, "link", "add", device, "type", "veth", "peer", end, "netns", self.hub)
            ip("-n", self.hub, "link", "set", end, "master", "bridge")
            ip("-n", self.hub, "link", "set", end, "up")
        for number, host in enumerate(self.names):
            ip("-n", host, "addr", "add", f"{self.address(number)}/24", "dev", f"pysh{number}")
            ip("-n", host, "link", "set", f"pysh{number}", "up")
            ip("-n", host, "link", "set", "lo", "up")
        for number, host in enumerate(self.names):
            wait_for_link(host, f"pysh{number}")

    def address(self, number: int) -> str:
        return f"{self.network}.{number + 1}"

    def remove(self) -> None:
        for host in (*self.names, self.hub):
            subprocess.run(["ip", "netns", "del", host], capture_output=True, timeout=30)


def wait_for_link(host: str, device: str) -> None:
    """Until the kernel has noticed both ends: UCX takes a link that is not up for none at all."""
    deadline = time.monotonic() + SECONDS_TO_LINK
    while "state UP" not in ip("-n", host, "-o", "link", "show", device):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{device} of {host} is not up after {SECONDS_TO_LINK} s")
        time.sleep(0.05)
