# SPDX-License-Identifier: BSD-3-Clause
"""Where the PEs of several hosts meet: an address of PE 0's host that others reach, and ports there."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from ..._core.errors import LaunchError
from ...host.job.joining import addresses


def own_address(others: Sequence[str]) -> str:
    """The address at which this host is met, one of PYSHMEM_INTERFACE where that is set.

    Else it is the address at which sshd of this host was reached, or the one from which this host
    reaches the first of ``others`` whose name it knows; 127.0.0.1 where there are none.

    Raises: LaunchError (none is known), OSError (the interface is not there).
    """
    if name := addresses.interface_asked_for():
        return addresses.of_interface(name)
    told = os.environ.get("SSH_CONNECTION", "").split()
    if len(told) == 4:
        return told[2].partition("%")[0]
    if not others:
        return "127.0.0.1"
    for other in others:
        if found := addresses.towards(other.rpartition("@")[2]):
            return found
    if found := addresses.only_one():
        return found
    raise LaunchError(
        "by which of its addresses the other hosts reach this one is not known; "
        "PYSHMEM_INTERFACE names a network interface of it"
    )


def opened(address: str, ports: range, *, listening: bool) -> socket.socket:
    """A socket at ``address`` with a free port, out of ``ports`` where there are any.

    With ``listening`` it takes connections; else it only keeps the port from others that ask for any,
    and whoever allows reuse may listen there.

    Raises: LaunchError (the address is not this host's, or no port is free).
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(made, address, ports)
        if listening:
            made.listen(socket.SOMAXCONN)
    except OSError as error:
        made.close()
        among = f", ports {ports.start}-{ports.stop - 1}" if ports else ""
        raise LaunchError(
            f"the other hosts cannot meet PE 0 at {address}{among}: {error.strerror}"
        ) from error
    return made


def _bind(made: socket.socket, address: str, ports: range) -> None:
    why: OSError | None = None
    for port in ports or (0,):
        try:
            made.bind((address, port))
            return
        except OSError as error:
            why = error
    assert why is not None
    raise why
