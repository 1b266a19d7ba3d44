# SPDX-License-Identifier: BSD-3-Clause
"""The names of Triton-distributed, for its users' kernels: ``import pyshmem.triton.dist as dl``.

``rank num_ranks symm_at wait consume_token notify`` as in ``triton_dist.language``, and of its
``libshmem_device`` what has the scope of a block. Its kernels take no context argument, so kernels that
use this module are compiled for the running job: import it, and call ``pyshmem.init``, before the first
launch; a later job of the process at another address is refused by Triton.

Differences: all scopes are the system's, which includes the smaller ones. A program is a block; there
are no helpers of one thread or of one warp.
"""

import triton.language as tl

from .ordering import barrier, fence, quiet, sync
from .primitives.backend import device_function, program_barrier, reach
from .primitives.by_proxy import atomic_by_proxy
from .primitives.job_constants import all_p2p, bytes_of, checks, running_job
from .primitives.ring import settle
from .requests import get_chunk, put_chunk
from .runtime.constants import (
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    GET,
    PUT,
    SIGNAL_ADD,
    SIGNAL_OP,
    SIGNAL_SET,
)
from .signals import signal_op as _signal_op
from .signals import signal_wait_until as _signal_wait_until
from .signals import wait_until_all
from .teams import my_pe as _my_pe
from .teams import n_pes as _n_pes
from .tile import needs_atomics, ptr

__all__ = [
    "CMP_EQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT", "CMP_NE", "SIGNAL_ADD", "SIGNAL_SET",
    "barrier_all", "barrier_all_block", "consume_token", "fence_block", "getmem_block",
    "getmem_nbi_block", "my_pe", "n_pes", "notify", "num_ranks", "putmem_block", "putmem_nbi_block",
    "putmem_signal_block", "putmem_signal_nbi_block", "quiet_block", "rank", "remote_ptr",
    "signal_op", "signal_wait_until", "symm_at", "sync_all_block", "wait",
]  # fmt: skip


_SET, _INTER_NODE = tl.constexpr("set"), tl.constexpr("inter_node")


@device_function
def rank(axis=-1):
    """Number of the calling PE, int32."""
    return _my_pe(running_job())


@device_function
def num_ranks(axis=-1):
    """Number of PEs, int32."""
    return _n_pes(running_job())


@device_function
def symm_at(pointer, rank):
    """Where PE ``rank`` keeps what is at the scalar ``pointer`` here."""
    return ptr(pointer, rank, running_job())


@device_function
def _on(pointer, nbytes, rank, op: tl.constexpr):
    """``symm_at`` of the next ``nbytes``; where places are checked, a fault if they are off the heap."""
    if checks():
        return reach(pointer, nbytes, rank, op, running_job())
    else:
        return symm_at(pointer, rank)


@device_function
def wait(barrierPtrs, numBarriers, scope: tl.constexpr, semantic: tl.constexpr, waitValue=1):
    """Wait until ``numBarriers`` words from ``barrierPtrs`` on equal ``waitValue``; a token.

    ``scope`` and ``semantic`` are Triton-distributed's words; the wait is an acquire for the system.
    """
    wait_until_all(barrierPtrs, numBarriers, CMP_EQ, waitValue, running_job())
    return tl.cast(0, tl.int32)


@device_function
def consume_token(value, token):
    """``value``; what it leads to is accessed behind the wait that gave the token."""
    return value


@device_function
def notify(
    ptr, rank, signal=1, sig_op: tl.constexpr = _SET, comm_scope: tl.constexpr = _INTER_NODE
):
    """Set or add to the word at ``ptr`` on PE ``rank``, behind all that the program has stored.

    ``sig_op``: "set" or "add".
    """
    value = tl.cast(signal, ptr.dtype.element_ty)
    nbytes: tl.constexpr = bytes_of(ptr.dtype.element_ty)
    program_barrier()
    if not all_p2p():
        ctx = running_job()
        if sig_op == "add":
            atomic_by_proxy(ptr, value, 0, rank, "add", SIGNAL_OP, ctx)
        else:
            tl.static_assert(sig_op == "set", 'sig_op is "set" or "add"')
            atomic_by_proxy(ptr, value, 0, rank, "swap", SIGNAL_OP, ctx)
    elif sig_op == "add":
        needs_atomics(rank, SIGNAL_OP, running_job())
        tl.atomic_add(_on(ptr, nbytes, rank, SIGNAL_OP), value, sem="release", scope="sys")
    else:
        tl.static_assert(sig_op == "set", 'sig_op is "set" or "add"')
        tl.atomic_xchg(_on(ptr, nbytes, rank, SIGNAL_OP), value, sem="release", scope="sys")


# -- libshmem_device ---------------------------------------------------------------------------------

my_pe, n_pes = rank, num_ranks


@device_function
def remote_ptr(pointer, pe):
    """The same as ``symm_at``."""
    return ptr(pointer, pe, running_job())


@device_function
def _copy_bytes(dest, source, nbytes, BLOCK: tl.constexpr = 4096):
    bytes_out = tl.cast(dest, tl.pointer_type(tl.int8))
    bytes_in = tl.cast(source, tl.pointer_type(tl.int8))
    aligned = (tl.cast(dest, tl.int64) | tl.cast(source, tl.int64) | nbytes) & 15 == 0
    if aligned:
        wide_out = tl.cast(
            tl.multiple_of(tl.cast(dest, tl.int64) + 0, 16), tl.pointer_type(tl.int32)
        )
        wide_in = tl.cast(
            tl.multiple_of(tl.cast(source, tl.int64) + 0, 16), tl.pointer_type(tl.int32)
        )
        words = tl.multiple_of(tl.cast(nbytes, tl.int64) // 4, 4)
        at = tl.cast(0, tl.int64)
        while at < words:
            offs = at + tl.arange(0, BLOCK)
            tl.store(wide_out + offs, tl.load(wide_in + offs, mask=offs < words), mask=offs < words)
            at += BLOCK
    else:
        at = tl.cast(0, tl.int64)
        while at < nbytes:
            offs = at + tl.arange(0, BLOCK)
            tl.store(
                bytes_out + offs, tl.load(bytes_in + offs, mask=offs < nbytes), mask=offs < nbytes
            )
            at += BLOCK


@device_function
def putmem_block(dest, source, nbytes, pe):
    """Copy bytes from ``source`` here to ``dest`` on ``pe``; scalar pointers."""
    if all_p2p():
        _copy_bytes(_on(dest, nbytes, pe, PUT), source, nbytes)
    else:
        to, begin = (
            tl.cast(dest, tl.pointer_type(tl.int8)),
            tl.cast(source, tl.pointer_type(tl.int8)),
        )
        put_chunk(to, begin, nbytes, pe, running_job())
        settle(running_job())


@device_function
def getmem_block(dest, source, nbytes, pe):
    """Copy bytes from ``source`` on ``pe`` to ``dest`` here; scalar pointers."""
    if all_p2p():
        _copy_bytes(dest, _on(source, nbytes, pe, GET), nbytes)
    else:
        to, begin = (
            tl.cast(dest, tl.pointer_type(tl.int8)),
            tl.cast(source, tl.pointer_type(tl.int8)),
        )
        get_chunk(to, begin, nbytes, pe, running_job())
        settle(running_job())
    program_barrier()


@device_function
def putmem_signal_block(dest, source, nbytes, sig_addr, signal, sig_op, pe):
    """``putmem_block``, and then the signal of 64 bits."""
    putmem_block(dest, source, nbytes, pe)
    signal_op(sig_addr, signal, sig_op, pe)


@device_function
def signal_op(sig_addr, signal, sig_op, pe):
    """Set or add to a signal on ``pe``, behind all that the program has stored."""
    _signal_op(sig_addr, signal, sig_op, pe, running_job())


@device_function
def signal_wait_until(sig_addr, cmp: tl.constexpr, cmp_value):
    """Wait until the own signal compares as asked; the value it had then."""
    return _signal_wait_until(sig_addr, cmp, cmp_value, running_job())


@device_function
def fence_block():
    """Order what the program has stored before what it stores next."""
    fence(running_job())


@device_function
def quiet_block():
    """Complete what the program has stored."""
    quiet(running_job())


@device_function
def barrier_all_block():
    """``quiet``, and wait until all PEs have called it, one program each."""
    barrier(running_job())


@device_function
def sync_all_block():
    """Wait until all PEs have called it, one program each."""
    sync(running_job())


# By stores, a source has been read when the call returns.
putmem_nbi_block, getmem_nbi_block = putmem_block, getmem_block
putmem_signal_nbi_block, barrier_all = putmem_signal_block, barrier_all_block
