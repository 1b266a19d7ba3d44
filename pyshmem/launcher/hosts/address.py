# SPDX-License-Identifier: BSD-3-Clause
"""Where the PEs of several hosts meet: an address of PE 0's host that others reach, and ports there."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Sequence

from ..._core.errors import LaunchError

_SIOCGIFADDR = 0x8915
_INTERFACE_NAME = 15  # characters, as Linux has it


def own_address(others: Sequence[str]) -> str:
    """The address at which this host is met, one of PYSHMEM_INTERFACE where that is set.

    Else it is the address at which sshd of this host was reached, or the one from which this host
    reaches the first of ``others`` whose name it knows; 127.0.0.1 where there are none.

    Raises: LaunchError (none is known).
    """
    if name := os.environ.get("PYSHMEM_INTERFACE", ""):
        return _of_interface(name)
    told = os.environ.get("SSH_CONNECTION", "").split()
    if len(told) == 4:
        return told[2].partition("%")[0]
    if not others:
        return "127.0.0.1"
    for other in others:
        if found := _towards(other.strip("[]")):
            return found
    raise LaunchError(
        "by which of its addresses the other hosts reach this one is not known; "
        "PYSHMEM_INTERFACE names a network interface of it"
    )


def _towards(other: str) -> str:
    """The address from which packets to ``other`` would come; none is sent."""
    try:
        found = socket.getaddrinfo(other.rpartition("@")[2], 9, type=socket.SOCK_DGRAM)
    except OSError:
        return ""
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError:
            continue
    return ""


def _of_interface(name: str) -> str:
    """The address of a network interface: of IPv4, else a global one of IPv6."""
    if len(name) <= _INTERFACE_NAME:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                return socket.inet_ntoa(found[20:24])
            except OSError:
                pass
        if found6 := _global_of(name):
            return found6
    there = ", ".join(each for _, each in socket.if_nameindex())
    raise LaunchError(
        f"PYSHMEM_INTERFACE is {name}: no interface with an address here; there are {there}"
    )


def _global_of(name: str) -> str:
    """An address of IPv6 that is not of one link alone."""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""
    for digits, _, _, scope, _, interface in rows:
        if interface == name and int(scope, 16) == 0:
            return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
    return ""


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


def with_port(address: str, port: int) -> str:
    """``address:port``, of IPv6 as ``[address]:port``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
