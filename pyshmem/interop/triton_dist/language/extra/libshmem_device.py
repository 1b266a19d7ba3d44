# SPDX-License-Identifier: BSD-3-Clause
"""``libshmem_device``: the functions of SHMEM in kernels.

A name's scope (``_block``, ``_warp``, ``_wave``, ``_wg``, ``_rma``, none) says who the caller is in
Triton-distributed; here it is the program, which does it once. Puts and gets with ``_nbi`` are those
without: by stores, a source has been read when the call returns. Names of NVSHMEM and of ROCSHMEM are
the same constants.
"""

import triton.language as tl

from .....triton.dist import (
    barrier_all_block,
    fence_block,
    getmem_block,
    my_pe,
    n_pes,
    putmem_block,
    putmem_signal_block,
    quiet_block,
    remote_ptr,
    signal_op,
    signal_wait_until,
    sync_all_block,
)
from .....triton.ordering import barrier as _barrier
from .....triton.ordering import sync as _sync
from .....triton.primitives.backend import device_function
from .....triton.primitives.backend import end_with as _end_with
from .....triton.primitives.job_constants import bytes_of as _bytes_of
from .....triton.primitives.job_constants import running_job
from .....triton.runtime.constants import (
    BROADCAST,
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    FAULT_PE,
    SIGNAL_ADD,
    SIGNAL_SET,
    TEAM_NODE,
    TEAM_SHARED,
    TEAM_WORLD,
)
from .....triton.teams import team_my_pe as _team_my_pe
from .....triton.teams import team_n_pes as _team_n_pes
from .....triton.teams import team_translate_pe as _team_translate_pe
from .....triton.tile import store as _store


@device_function
def team_my_pe(team):
    """Number of the calling PE in the team."""
    return _team_my_pe(team, running_job())


@device_function
def team_n_pes(team):
    """Number of the team's PEs."""
    return _team_n_pes(team, running_job())


@device_function
def team_translate_pe(src_team, pe_in_src_team, dest_team):
    """The number that a PE of one team has in another; -1 if it is not in it."""
    return _team_translate_pe(src_team, pe_in_src_team, dest_team, running_job())


@device_function
def int_p(dest, value, pe, qp_id=0):
    """Store one word at ``dest`` on ``pe``."""
    _store(dest, tl.cast(value, dest.dtype.element_ty), pe, running_job())


@device_function
def ulong_put_signal(dest, source, nelems, sig_addr, signal, sig_op, pe):
    """``putmem_signal`` of words of 64 bits."""
    putmem_signal_block(dest, source, 8 * tl.cast(nelems, tl.int64), sig_addr, signal, sig_op, pe)


@device_function
def remote_mc_ptr(team, ptr):
    """Has no body: pyshmem does not use multicast."""
    tl.static_assert(False, "remote_mc_ptr is not in pyshmem, which does not use multicast memory")


@device_function
def quiet_pe(pe=0):
    """``quiet``, for all PEs."""
    quiet_block()


@device_function
def barrier(team):
    """``quiet``, and wait until all members have called it, one program each."""
    _barrier(running_job(), team)


@device_function
def team_sync_block(team):
    """Wait until all members have called it, one program each."""
    _sync(running_job(), team)


@device_function
def broadcastmem(team, dest, source, nelems, pe_root):
    """``nelems`` bytes of member ``pe_root`` to all members; one program each."""
    n_members = _team_n_pes(team, running_job())
    if (pe_root < 0) | (pe_root >= n_members):
        _end_with(FAULT_PE, BROADCAST, pe_root, n_members, running_job())
    if _team_my_pe(team, running_job()) == pe_root:
        for member in range(n_members):
            pe = _team_translate_pe(team, member, TEAM_WORLD, running_job())
            putmem_block(dest, source, nelems, pe)
    _barrier(running_job(), team)


@device_function
def broadcast(team, dest, source, nelems, pe_root):
    """``nelems`` elements of member ``pe_root`` to all members; one program each."""
    nbytes: tl.constexpr = _bytes_of(dest.dtype.element_ty)
    broadcastmem(team, dest, source, tl.cast(nelems, tl.int64) * nbytes, pe_root)


@device_function
def fcollectmem(team, dest, source, nelems):
    """``nelems`` bytes of each member, one behind the other, on all members; one program each."""
    mine = _team_my_pe(team, running_job())
    place = tl.cast(dest, tl.pointer_type(tl.int8)) + mine.to(tl.int64) * nelems
    for member in range(_team_n_pes(team, running_job())):
        pe = _team_translate_pe(team, member, TEAM_WORLD, running_job())
        putmem_block(place, source, nelems, pe)
    _barrier(running_job(), team)


@device_function
def fcollect(team, dest, source, nelems):
    """``nelems`` elements of each member, one behind the other, on all members; one program each."""
    nbytes: tl.constexpr = _bytes_of(dest.dtype.element_ty)
    fcollectmem(team, dest, source, tl.cast(nelems, tl.int64) * nbytes)


quiet, fence = quiet_block, fence_block
barrier_all = barrier_all_warp = barrier_all_wave = barrier_all_wg = barrier_all_block
barrier_block = barrier_warp = barrier
sync_all = sync_all_warp = sync_all_block
team_sync_warp = team_sync_block
broadcastmem_block = broadcastmem_warp = broadcastmem
broadcast_block = broadcast_warp = broadcast
fcollectmem_block = fcollectmem_warp = fcollectmem
fcollect_block = fcollect_warp = fcollect

putmem = putmem_warp = putmem_wave = putmem_wg = putmem_block
putmem_nbi = putmem_nbi_block = putmem_nbi_warp = putmem_nbi_wave = putmem_nbi_wg = putmem_block
putmem_rma = putmem_rma_block = putmem_rma_warp = putmem_block
putmem_rma_nbi = putmem_rma_nbi_block = putmem_rma_nbi_warp = putmem_block
getmem = getmem_warp = getmem_wave = getmem_wg = getmem_block
getmem_nbi = getmem_nbi_block = getmem_nbi_warp = getmem_nbi_wave = getmem_nbi_wg = getmem_block
putmem_signal = putmem_signal_warp = putmem_signal_wave = putmem_signal_wg = putmem_signal_block
putmem_signal_nbi = putmem_signal_nbi_block = putmem_signal_nbi_warp = putmem_signal_block
putmem_signal_nbi_wave = putmem_signal_nbi_wg = putmem_signal_block
putmem_signal_rma = putmem_signal_rma_block = putmem_signal_rma_warp = putmem_signal_block
putmem_signal_rma_nbi = putmem_signal_rma_nbi_block = putmem_signal_block
putmem_signal_rma_nbi_warp = putmem_signal_block

NVSHMEM_CMP_EQ = ROCSHMEM_CMP_EQ = CMP_EQ
NVSHMEM_CMP_NE = ROCSHMEM_CMP_NE = CMP_NE
NVSHMEM_CMP_GT = ROCSHMEM_CMP_GT = CMP_GT
NVSHMEM_CMP_GE = ROCSHMEM_CMP_GE = CMP_GE
NVSHMEM_CMP_LT = ROCSHMEM_CMP_LT = CMP_LT
NVSHMEM_CMP_LE = ROCSHMEM_CMP_LE = CMP_LE
NVSHMEM_SIGNAL_SET = ROCSHMEM_SIGNAL_SET = NVSHMEMI_AMO_SIGNAL_SET = SIGNAL_SET
NVSHMEM_SIGNAL_ADD = ROCSHMEM_SIGNAL_ADD = NVSHMEMI_AMO_SIGNAL_ADD = SIGNAL_ADD
NVSHMEM_TEAM_WORLD, NVSHMEM_TEAM_SHARED, NVSHMEMX_TEAM_NODE = TEAM_WORLD, TEAM_SHARED, TEAM_NODE

__all__ = [
    "NVSHMEMI_AMO_SIGNAL_ADD", "NVSHMEMI_AMO_SIGNAL_SET", "NVSHMEMX_TEAM_NODE", "NVSHMEM_CMP_EQ",
    "NVSHMEM_CMP_GE", "NVSHMEM_CMP_GT", "NVSHMEM_CMP_LE", "NVSHMEM_CMP_LT", "NVSHMEM_CMP_NE",
    "NVSHMEM_SIGNAL_ADD", "NVSHMEM_SIGNAL_SET", "NVSHMEM_TEAM_SHARED", "NVSHMEM_TEAM_WORLD",
    "ROCSHMEM_CMP_EQ", "ROCSHMEM_CMP_GE", "ROCSHMEM_CMP_GT", "ROCSHMEM_CMP_LE", "ROCSHMEM_CMP_LT",
    "ROCSHMEM_CMP_NE", "ROCSHMEM_SIGNAL_ADD", "ROCSHMEM_SIGNAL_SET", "barrier", "barrier_all",
    "barrier_all_block", "barrier_all_warp", "barrier_all_wave", "barrier_all_wg", "barrier_block",
    "barrier_warp", "broadcast", "broadcast_block", "broadcast_warp", "broadcastmem",
    "broadcastmem_block", "broadcastmem_warp", "fcollect", "fcollect_block", "fcollect_warp",
    "fcollectmem", "fcollectmem_block", "fcollectmem_warp", "fence", "fence_block", "getmem",
    "getmem_block", "getmem_nbi", "getmem_nbi_block", "getmem_nbi_warp", "getmem_nbi_wave",
    "getmem_nbi_wg", "getmem_warp", "getmem_wave", "getmem_wg", "int_p", "my_pe", "n_pes",
    "putmem", "putmem_block", "putmem_nbi", "putmem_nbi_block", "putmem_nbi_warp",
    "putmem_nbi_wave", "putmem_nbi_wg", "putmem_rma", "putmem_rma_block", "putmem_rma_nbi",
    "putmem_rma_nbi_block", "putmem_rma_nbi_warp", "putmem_rma_warp", "putmem_signal",
    "putmem_signal_block", "putmem_signal_nbi", "putmem_signal_nbi_block",
    "putmem_signal_nbi_warp", "putmem_signal_nbi_wave", "putmem_signal_nbi_wg",
    "putmem_signal_rma", "putmem_signal_rma_block", "putmem_signal_rma_nbi",
    "putmem_signal_rma_nbi_block", "putmem_signal_rma_nbi_warp", "putmem_signal_rma_warp",
    "putmem_signal_warp", "putmem_signal_wave", "putmem_signal_wg", "putmem_warp", "putmem_wave",
    "putmem_wg", "quiet", "quiet_block", "quiet_pe", "remote_mc_ptr", "remote_ptr", "signal_op",
    "signal_wait_until", "sync_all", "sync_all_block", "sync_all_warp", "team_my_pe", "team_n_pes",
    "team_sync_block", "team_sync_warp", "team_translate_pe", "ulong_put_signal",
]  # fmt: skip
