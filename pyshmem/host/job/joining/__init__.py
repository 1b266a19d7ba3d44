# SPDX-License-Identifier: BSD-3-Clause
"""How PEs on several hosts learn where they meet, when another launcher started them.

PE 0 opens a socket, and tells the others its address and a secret by what their launcher offers: the
store of ``torchrun``, PMIx, or PMI-1. From there on the PEs join as those of ``pyshmem run --hosts`` do:
by PYSHMEM_RENDEZVOUS and PYSHMEM_SECRET, which are set here.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import NamedTuple

from ...._core import library
from ...._core.errors import ShmemError
from ...._core.library import lib
from . import addresses, pmi, pmix, store

#: In the environment of this process afterwards.
RENDEZVOUS, LISTENER, SECRET = (
    f"PYSHMEM_{name}" for name in ("RENDEZVOUS", "RENDEZVOUS_FD", "SECRET")
)


class Way(NamedTuple):
    """A way to tell the others something."""

    name: str
    is_there: Callable[[], bool]
    #: ``tell(pe, n_pes, text, seconds)``: PE 0 gives ``text``; on all PEs it returns PE 0's.
    tell: Callable[[int, int, Callable[[], str], float], str]


WAYS = (
    Way("the store of torchrun", store.is_there, store.tell),
    Way("PMIx", pmix.is_there, pmix.tell),
    Way("PMI-1", pmi.is_there, pmi.tell),
)


def way_here() -> Way | None:
    """How this process would tell the PEs of other hosts; None: nothing is there, or is needed."""
    if os.environ.get(RENDEZVOUS) or "PYSHMEM_PE" in os.environ:
        return None
    if not lib.ishmemx_several_hosts():
        return None
    way = next((way for way in WAYS if way.is_there()), None)
    return way if way is not None and is_wanted(way) else None


def told(way: Way) -> str:
    """What ``info`` says of a way."""
    return f"{way.name}: where PE 0 listens, and a secret"


def is_wanted(way: Way) -> bool:
    """Whether the PEs go by UCX; where an OpenSHMEM library may join by PMIx or PMI, if asked for."""
    conduit = library.setting("CONDUIT")[0].lower()
    return conduit == "ucx" or (conduit == "auto" and way is WAYS[0])


def find_place() -> bool:
    """Set what ``mpirun`` would where only PMIx knows this process's place; whether that was so.

    Who calls it has seen that no variables of a launcher say it.

    Raises: ShmemError (PMIx does not answer).
    """
    if not pmix.is_there():
        return False
    try:
        os.environ.update(pmix.place())
    except (OSError, ValueError) as error:
        raise ShmemError(
            f"PMIx started this process as rank {os.environ['PMIX_RANK']}, of how many is not known: "
            f"{error}; for a job of its own set PYSHMEM_PE=0 and PYSHMEM_N_PES=1"
        ) from error
    return True


def join(pe: int, n_pes: int, seconds: float) -> None:
    """Set where the PEs of several hosts meet, if something else than our launcher started them so.

    Raises: ShmemError (what the launcher offers does not answer).
    """
    way = way_here() if n_pes > 1 else None
    if way is None:
        return
    listeners: list[socket.socket] = []

    def opened() -> str:
        made, address = listener()
        listeners.append(made)
        return f"{address} {secrets.token_hex(16)}"

    try:
        text = way.tell(pe, n_pes, opened, seconds)
    except (OSError, ValueError) as error:
        for made in listeners:
            made.close()
        raise ShmemError(f"PE {pe} cannot meet the others by {way.name}: {error}") from error
    os.environ[RENDEZVOUS], os.environ[SECRET] = text.split(" ")
    for made in listeners:  # the library's from here on
        os.environ[LISTENER] = str(made.detach())


def listener() -> tuple[socket.socket, str]:
    """What listens on this host for the others, and where they find it, ``host:port``."""
    address = own_address()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.create_server((address, 0), family=family)
    return made, addresses.with_port(address, made.getsockname()[1])


def own_address() -> str:
    """The address of this host that the others reach.

    That of PYSHMEM_INTERFACE; else the one from which this host reaches MASTER_ADDR, or that of its
    name, where it is none of this host alone; else that of its one network interface.

    Raises: OSError (none is known, or the interface is not there).
    """
    if interface := addresses.interface_asked_for():
        return addresses.of_interface(interface)
    for name in (os.environ.get("MASTER_ADDR", ""), socket.gethostname()):
        if name and (found := addresses.towards(name)) and not addresses.is_own_alone(found):
            return found
    if found := addresses.only_one():
        return found
    raise OSError(
        "by which address the other hosts reach this one is not known: PYSHMEM_INTERFACE names its "
        "network interface"
    )
