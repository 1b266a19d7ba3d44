# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of this host that others reach."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import socket
import struct

_SIOCGIFADDR = 0x8915
_LONGEST_NAME = 15  # of an interface


def interface_asked_for() -> str:
    """The network interface that PYSHMEM_INTERFACE names, the first of several; empty: none."""
    first = os.environ.get("PYSHMEM_INTERFACE", "").partition(",")[0]
    return first.partition(":")[0]  # UCX takes a port of a device behind it, mlx5_0:1


def of_interface(name: str) -> str:
    """The address of a network interface: of IPv4, else a global one of IPv6.

    Raises: OSError (it is not there, or has none).
    """
    if len(name) <= _LONGEST_NAME:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                return socket.inet_ntoa(found[20:24])
            except OSError:
                pass
        if found6 := _global_of(name):
            return found6
    there = ", ".join(each for _, each in socket.if_nameindex())
    raise OSError(
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


def towards(other: str) -> str:
    """The address from which packets to a host would come; none is sent. Empty: it is not known."""
    try:
        found = socket.getaddrinfo(other.strip("[]"), 9, type=socket.SOCK_DGRAM)
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


def only_one() -> str:
    """The address of this host's one network interface; empty where it has several, or none."""
    found = []
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError):
            found.append(of_interface(name))
    found = [each for each in found if not is_own_alone(each)]
    return found[0] if len(found) == 1 else ""


def is_own_alone(address: str) -> bool:
    """Whether no other host can mean this one by it."""
    return ipaddress.ip_address(address).is_loopback


def with_port(address: str, port: int) -> str:
    """``address:port``, of IPv6 as ``[address]:port``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
