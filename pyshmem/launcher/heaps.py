# SPDX-License-Identifier: BSD-3-Clause
"""How full the heaps of running jobs are, as their PEs on this host show it to their user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from .._core import errors
from .._core.library import HEAPS, check, ffi, lib
from ..host.memory.sites import HeapSite, shown
from ..host.query import HeapInfo
from .leftovers import facts_of

#: What the library calls the file, and what ``/proc`` makes of that.
_LINK = "/memfd:pyshmem-board"


class Seen(NamedTuple):
    """A PE of a running job, and its heaps."""

    job: str
    pe: int
    n_pes: int
    pid: int
    heaps: dict[str, HeapInfo]
    sites: list[tuple[str, HeapSite]]  # of a job in checking mode


def running(pid: int = 0) -> list[Seen]:
    """The PEs of this host whose heaps can be seen; ``pid``: of that process's job.

    It is a PE of it, or has started it.

    Raises: UnsupportedError (there is no /proc), ShmemError (PEs of another version).
    """
    if not os.path.isdir("/proc/self/fd"):
        raise errors.UnsupportedError("there is no /proc, by which running jobs are found")
    found = {one.pid: one for number in _processes() for one in _shown_by(number)}
    if pid:
        jobs = {one.job for one in found.values() if _is_or_began(pid, one.pid)}
        found = {number: one for number, one in found.items() if one.job in jobs}
    return sorted(found.values())


def why_none(pid: int) -> str:
    """Why ``running`` has found nothing."""
    seen = "on this host, as far as its PEs can be seen"
    if not pid:
        return f"no job of yours runs {seen}"
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"there is no process {pid} on this host"
    if os.geteuid() not in (0, owner):
        return f"process {pid} is user {owner}'s, whom alone its PEs show their heaps"
    return f"process {pid} has started no PE and is none {seen}"


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _shown_by(pid: int) -> Iterator[Seen]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # gone, or another user's
        return
    for name in names:
        path = f"{folder}/{name}"
        try:
            if not os.readlink(path).startswith(_LINK):
                continue
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            yield _read(fd, pid)
        finally:
            os.close(fd)


def _read(fd: int, pid: int) -> Seen:
    """``pid`` is the process by its number here, which in a container it does not know itself."""
    seen = ffi.new("ishmemx_heaps_seen_t *")
    check(lib.ishmemx_heaps_seen(fd, seen))
    heaps = {
        name: HeapInfo(*(int(getattr(seen.heap[number], field)) for field in HeapInfo._fields))
        for name, number in HEAPS.items()
        if seen.heap[number].nbytes
    }
    job = ffi.string(seen.job).decode(errors="replace") or f"process {pid}"
    sites = list(shown(ffi.string(seen.sites).decode(errors="replace")))
    return Seen(job, seen.pe, seen.n_pes, pid, heaps, sites)


def _is_or_began(ancestor: int, pid: int) -> bool:
    while pid > 1 and pid != ancestor:
        facts = facts_of(pid)
        pid = facts.parent if facts else 0
    return pid == ancestor
