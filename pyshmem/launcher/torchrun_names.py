# SPDX-License-Identifier: BSD-3-Clause
"""A PE's place by the names that torchrun gives it: PyTorch and what builds on it look for these."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

#: Says that ``RANK`` and ``WORLD_SIZE`` are this launcher's: a program that a PE starts in another job,
#: or in none, inherits them, and is no PE by them (``native/src/join/variables.c``).
MARK = "RANK_SET_BY"

#: All that this file sets.
NAMES = (*_PLACE, "MASTER_ADDR", "MASTER_PORT", MARK)


def variables(
    pe: int,
    n_pes: int,
    port: int,
    environment: Mapping[str, str],
    *,
    here: range | None = None,
    address: str = "127.0.0.1",
) -> dict[str, str]:
    """What ``environment`` does not say yet: place and meeting point, ``port`` at ``address``.

    ``here``: the PEs of this host; None: all.

    All of the place or none: half of it somebody else's would be two places. What an outer job of this
    launcher has set is not this job's.
    """
    ours = MARK in environment and environment[MARK] == _mark_of(environment)
    found: dict[str, str] = {}
    if ours or not any(name in environment for name in _PLACE):
        here = here or range(n_pes)
        place = dict(zip(_PLACE, (pe, n_pes, pe - here.start, len(here)), strict=True))
        found = {name: str(number) for name, number in place.items()}
        found[MARK] = _mark_of(found)
    meeting = {"MASTER_ADDR": address, "MASTER_PORT": str(port)} if port else {}
    return found | {name: text for name, text in meeting.items() if ours or name not in environment}


def _mark_of(environment: Mapping[str, str]) -> str:
    return f"pyshmem:{environment.get('RANK')}/{environment.get('WORLD_SIZE')}"


@contextmanager
def meeting_point() -> Iterator[int]:
    """A port of this host that is nobody's while the job runs; 0: there is none.

    It is bound and not listened at, and may be used again: rank 0's store may listen there, and the
    system gives it to no one who asks for any.
    """
    with socket.socket() as held:
        port = 0
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        except OSError:
            pass  # a sandbox without a network
        yield port
