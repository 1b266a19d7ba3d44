# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that do one thing again and again. Block k leaves its begin and end in row k of ``ns``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from pyshmem import device as shmem
from pyshmem.device.leaf.backend import now
from pyshmem.device.ring.requests import NULL, ask, tell


def mover(routine: Callable[..., Any]) -> Any:
    """Blocks each move their part of ``source``."""

    @cuda.jit
    def kernel(dest, source, peer, iterations, ns):
        part = source.size // cuda.gridDim.x
        lo = cuda.blockIdx.x * part
        begin = now()
        for _ in range(iterations):
            routine(dest[lo : lo + part], source[lo : lo + part], peer)
        shmem.quiet_work_group()
        if cuda.threadIdx.x == 0:
            ns[cuda.blockIdx.x, 0] = begin
            ns[cuda.blockIdx.x, 1] = now()

    return kernel


def sync(routine: Callable[..., Any]) -> Any:
    """One group calls a routine without arguments."""

    @cuda.jit
    def kernel(iterations, ns):
        begin = now()
        for _ in range(iterations):
            routine()
        if cuda.threadIdx.x == 0:
            ns[0, 0] = begin
            ns[0, 1] = now()

    return kernel


def exchange(routine: Callable[..., Any]) -> Any:
    """One group calls a collective of the world."""

    @cuda.jit
    def kernel(dest, source, nelems, iterations, ns):
        begin = now()
        for _ in range(iterations):
            routine(shmem.TEAM_WORLD, dest, source, nelems)
        if cuda.threadIdx.x == 0:
            ns[0, 0] = begin
            ns[0, 1] = now()

    return kernel


@cuda.jit
def broadcast(dest, source, nelems, iterations, ns):
    """As ``exchange``, with PE 0 as the root."""
    begin = now()
    for _ in range(iterations):
        shmem.broadcast_work_group(shmem.TEAM_WORLD, dest, source, nelems, 0)
    if cuda.threadIdx.x == 0:
        ns[0, 0] = begin
        ns[0, 1] = now()


@cuda.jit
def fetch_add(dest, peer, iterations, ns):
    """One thread, to one word."""
    total = np.int64(0)
    begin = now()
    for _ in range(iterations):
        total += shmem.atomic_fetch_add(dest, 1, peer)
    ns[0, 0] = begin
    ns[0, 1] = now() + (total == -1)


@cuda.jit
def ring_ask(iterations, ns):
    """One thread sends requests that ask for nothing, and waits for each reply."""
    begin = now()
    for _ in range(iterations):
        ask(NULL, 0, 0, 0, 0, 0, 0)
    ns[0, 0] = begin
    ns[0, 1] = now()


@cuda.jit
def ring_tell(iterations, ns):
    """All threads send requests that ask for nothing; at the end they have been served."""
    begin = now()
    for _ in range(iterations):
        tell(NULL, 0, 0, 0, 0, 0, 0)
    shmem.quiet_work_group()
    if cuda.threadIdx.x == 0:
        ns[cuda.blockIdx.x, 0] = begin
        ns[cuda.blockIdx.x, 1] = now()


@cuda.jit
def signal_pingpong(sig, iterations, ns):
    """PE 0 and PE 1 answer each other by signals."""
    me = shmem.my_pe()
    peer = 1 - me
    k = 1
    begin = now()
    while k <= iterations:
        if me == 0:
            shmem.signal_op(sig, k, shmem.SIGNAL_SET, peer)
            shmem.signal_wait_until(sig, shmem.CMP_GE, k)
        else:
            shmem.signal_wait_until(sig, shmem.CMP_GE, k)
            shmem.signal_op(sig, k, shmem.SIGNAL_SET, peer)
        k += 1
    ns[0, 0] = begin
    ns[0, 1] = now()


@cuda.jit
def put_signal_pingpong(dest, source, sig, iterations, ns):
    """The same with data in front of the signal, by a block."""
    me = shmem.my_pe()
    peer = 1 - me
    k = 1
    begin = now()
    while k <= iterations:
        if me == 0:
            shmem.put_signal_work_group(dest, source, sig, k, shmem.SIGNAL_SET, peer)
            shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, k)
        else:
            shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, k)
            shmem.put_signal_work_group(dest, source, sig, k, shmem.SIGNAL_SET, peer)
        k += 1
    if cuda.threadIdx.x == 0:
        ns[0, 0] = begin
        ns[0, 1] = now()
