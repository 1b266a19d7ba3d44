# SPDX-License-Identifier: BSD-3-Clause
"""Which hosts a job runs on, and how many of its PEs each has."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..._core.errors import LaunchError
from ..call.arguments import MOST_PES

_TO_MEET = 2  # ports of PE 0's host, see agent.py
#: What stands for this machine, and takes no ssh.
_HERE = ("localhost", "127.0.0.1", "::1", "[::1]")
#: Of a host: no blank, no comma, and nothing that ssh would take for an option.
_NAME = re.compile(r"[\w.@:%\[\]][\w.@:%\[\]-]*")


class Place(NamedTuple):
    """One host of a job. The same name twice is two places: each has a launcher of its own."""

    host: str
    n_pes: int

    @property
    def is_here(self) -> bool:
        """Whether it is this machine, by a name that needs no ssh."""
        return self.host in (*_HERE, socket.gethostname(), socket.getfqdn())


def places(hosts: str, n_pes: int | None) -> list[Place]:
    """By ``a,b`` (even shares of ``n_pes``) or ``a:2,b:6``.

    Raises: LaunchError for an empty name, a count that is none, the wrong sum, more PEs than a job has,
        no number of PEs at all.
    """
    rows = [_row_of(text.strip()) for text in hosts.split(",")]
    if not all(_NAME.fullmatch(name) for name, _ in rows):
        raise LaunchError(f"--hosts {hosts}: give names of hosts, as in a,b or a:2,b:6")
    counts = [count for _, count in rows]
    if not any(counts):
        return _shared(f"--hosts {hosts}", [name for name, _ in rows], n_pes)
    if not all(map(_is_count, counts)):
        raise LaunchError(
            f"--hosts {hosts}: give a number of PEs, 1 to {MOST_PES}, for each host, or for none"
        )
    total = sum(map(int, counts))
    if n_pes is not None and total != n_pes:
        raise LaunchError(f"--hosts {hosts}: these are {total} PEs, not -n {n_pes}")
    if total > MOST_PES:
        raise LaunchError(f"--hosts {hosts}: {total} PEs; a job has at most {MOST_PES}")
    return [Place(name, int(count)) for name, count in rows]


def check_ports(ports: range, found: Sequence[Place], of_ucx: bool) -> None:
    """Refuse ports that cannot do, before PEs that find none stand still.

    Args:
        ports: given by ``--ports``.
        found: the hosts; those of one name share its ports.
        of_ucx: PEs speak by these too, and not by others that UCX was told.

    Raises: LaunchError.
    """
    names = ["localhost" if place.is_here else place.host for place in found]
    n_pes = dict.fromkeys(names, 0)
    for name, place in zip(names, found, strict=True):
        n_pes[name] += place.n_pes if of_ucx else 0
    for name, count in n_pes.items():
        least = count + (_TO_MEET if name == names[0] else 0)
        if len(ports) < least:
            raise LaunchError(
                f"--ports {ports.start}-{ports.stop - 1} are {len(ports)}; host {name} takes at least "
                f"{least}: one for each PE, for each of the host's networks one more, and on the first "
                f"host {_TO_MEET} to meet"
            )


def _row_of(text: str) -> tuple[str, str]:
    """Name and count, ``""`` without one. An address of IPv6 has its colons in brackets."""
    if text.startswith("["):
        name, _, count = text.partition("]")
        return f"{name}]", count.removeprefix(":")
    name, _, count = text.partition(":")
    return name, count


def _is_count(text: str) -> bool:
    """Python reads no integers of thousands of digits."""
    return text.isdecimal() and len(text) <= len(str(MOST_PES)) and 0 < int(text) <= MOST_PES


def _shared(what: str, names: list[str], n_pes: int | None) -> list[Place]:
    if n_pes is None:
        raise LaunchError(f"{what}: how many PEs? Give -n, or a number for each host: {names[0]}:4")
    if n_pes < len(names):
        raise LaunchError(f"{what}: {n_pes} PEs are fewer than the {len(names)} hosts")
    share, more = divmod(n_pes, len(names))
    return [Place(name, share + (k < more)) for k, name in enumerate(names)]


def places_in(file: Path, n_pes: int | None) -> list[Place]:
    """By a file with a line a host, as Open MPI and DeepSpeed have: ``a slots=4``; ``#`` for comments.

    With ``n_pes`` the hosts are filled in their order, each up to its slots; else all slots are used.
    A line without ``slots=`` is one slot.

    Raises: LaunchError (a line that is none, no text, fewer slots than PEs), OSError (of the file).
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise LaunchError(f"--hostfile {file}: it is no text in UTF-8") from None
    found = [
        _line_of(file, number, line.partition("#")[0].split())
        for number, line in enumerate(lines, 1)
        if line.partition("#")[0].strip()
    ]
    if not found:
        raise LaunchError(f"--hostfile {file}: there is no host in it")
    if n_pes is None:
        return found
    slots = sum(place.n_pes for place in found)
    if n_pes > slots:
        raise LaunchError(
            f"--hostfile {file}: -n {n_pes}, but it has {slots} slots (slots=N a line)"
        )
    filled: list[Place] = []
    for place in found:
        taken = min(place.n_pes, n_pes - sum(each.n_pes for each in filled))
        filled += [Place(place.host, taken)] if taken else []
    return filled


def _line_of(file: Path, number: int, words: list[str]) -> Place:
    slots = "1"
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name != "slots":
            raise LaunchError(
                f"--hostfile {file}, line {number}: {word} is not known; a line is NAME slots=N"
            )
        slots = value
    if not _NAME.fullmatch(words[0]) or not _is_count(slots):
        raise LaunchError(
            f"--hostfile {file}, line {number}: {' '.join(words)}; a line is NAME slots=N"
        )
    return Place(words[0], int(slots))
