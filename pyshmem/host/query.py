# SPDX-License-Identifier: BSD-3-Clause
"""Query: what memory of other PEs can be reached, how full the heaps are, threads, version."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.arrays.checks import heap_number, place
from .._core.arrays.peer_views import view_of_peer
from .._core.arrays.types import AnyArray
from .._core.dtypes import integer, pe_number
from .._core.library import ThreadLevel, check, ffi, lib, size_text
from .job import runtime
from .teams.arguments import refuse_team
from .teams.team import TEAM_WORLD, Team

#: The specification that the library implements.
MAJOR_VERSION: int = 1
MINOR_VERSION: int = 6

THREAD_SINGLE, THREAD_FUNNELED = ThreadLevel.SINGLE, ThreadLevel.FUNNELED
THREAD_SERIALIZED, THREAD_MULTIPLE = ThreadLevel.SERIALIZED, ThreadLevel.MULTIPLE


def ptr(array: AnyArray, pe: int, *, team: Team = TEAM_WORLD) -> Any:
    """Another PE's copy of a symmetric array, for loads and stores without a call.

    Args:
        array: contiguous symmetric array or view.
        pe: PE of the team whose copy is meant, ``0 <= pe < team.n_pes()``.
        team: team whose numbers count.

    Returns:
        An array of the same shape and dtype (NumPy, or CuPy for the device heap of a GPU) that
        views the copy on ``pe``; None where that memory cannot be reached from here. It is valid
        until the array is freed; the one it came from is kept alive.

    Raises: ValueError (pe, array, team destroyed), NotInitialized.
    Example: ``theirs = pyshmem.ptr(dest, right)``
    Spec: shmem_ptr (OpenSHMEM 1.5), shmem_team_ptr (OpenSHMEM 1.6).
    """
    if team is not TEAM_WORLD:
        if not isinstance(team, Team):
            raise refuse_team(team, "team")
        return team.ptr(array, pe)
    address, nbytes, _ = place(array, "array", symmetric=True, writable=False)
    peer = ffi.new("uintptr_t *")
    check(lib.ishmemx_ptr(address, pe_number(pe), peer))
    return view_of_peer(peer[0], nbytes, array)


def pe_accessible(pe: int) -> bool:
    """Whether ``pe`` is a PE of the job that operations can reach.

    Raises: NotInitialized.
    Example: ``near = pyshmem.pe_accessible(right)``
    Spec: shmem_pe_accessible (OpenSHMEM 1.5).
    """
    runtime.current()
    return bool(lib.ishmemx_pe_accessible(integer("pe", pe)))


def addr_accessible(array: AnyArray, pe: int) -> bool:
    """Whether operations can reach the copy on ``pe`` of an array of this PE.

    Args:
        array: any array; True only for a symmetric one.
        pe: any number; False for one outside the job.

    Raises: TypeError (not an array), ValueError (not contiguous), NotInitialized.
    Example: ``near = pyshmem.addr_accessible(dest, right)``
    Spec: shmem_addr_accessible (OpenSHMEM 1.5).
    """
    runtime.current()
    address = place(array, "array", symmetric=False, writable=False)[0]
    return bool(lib.ishmemx_addr_accessible(address, integer("pe", pe)))


def query_thread() -> ThreadLevel:
    """The thread level of the job, as ``init`` provided it.

    Raises: NotInitialized.
    Example: ``assert pyshmem.query_thread() == pyshmem.THREAD_MULTIPLE``
    Spec: shmem_query_thread (OpenSHMEM 1.5).
    """
    runtime.current()
    provided = ffi.new("int *")
    check(lib.ishmemx_query_thread(provided))
    return ThreadLevel(provided[0])


def info_get_version() -> tuple[int, int]:
    """The version of the OpenSHMEM specification that pyshmem implements: major, minor.

    Example: ``major, minor = pyshmem.info_get_version()``
    Spec: shmem_info_get_version (OpenSHMEM 1.5).
    """
    return MAJOR_VERSION, MINOR_VERSION


def info_get_name() -> str:
    """The name of the library.

    Example: ``print(pyshmem.info_get_name())``
    Spec: shmem_info_get_name (OpenSHMEM 1.5).
    """
    return "pyshmem"


class HeapInfo(NamedTuple):
    """The state of a heap of this PE, in bytes where not said otherwise."""

    nbytes: int
    used: int  # with rounding
    free: int
    largest_free: int
    allocations: int  # blocks in use
    released: int  # blocks dropped here that other PEs still hold
    memory: int  # what the heap has memory for: of one that grows fewer than ``nbytes``

    def __str__(self) -> str:
        grows = f" ({size_text(self.memory)} now)" if self.memory < self.nbytes else ""
        return (
            f"{size_text(self.used)} of {size_text(self.nbytes)}{grows} in {self.allocations} blocks, "
            f"largest free {size_text(self.largest_free)}"
        )


def heap_info(heap: str = "host") -> HeapInfo:
    """How full a heap is here.

    Of a device heap that grows (``PYSHMEM_DEVICE_HEAP_GROWS``) ``nbytes``, ``free`` and
    ``largest_free`` are of what it may become, and ``memory`` is what it has by now.

    Raises: ValueError (heap), NotInitialized, UnsupportedError (no device heap).
    Example: ``print(pyshmem.heap_info("host").free)``
    Extension.
    """
    stats = ffi.new("ishmemx_heap_stats_t *")
    check(lib.ishmemx_heap_stats(heap_number(heap), stats))
    return HeapInfo(*(int(getattr(stats, field)) for field in HeapInfo._fields))
