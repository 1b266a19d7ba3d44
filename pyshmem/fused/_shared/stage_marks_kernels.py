# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that say when work of a stream begins and ends, for timelines."""

import triton
import triton.language as tl

import pyshmem.triton as shmem


@triton.jit
def begin_mark(mark):
    """Keep the time."""
    tl.store(mark, shmem.stage_begin())


@triton.jit
def end_mark(mark, ctx, LABEL: tl.constexpr):
    """The stage that began at the time kept ends."""
    shmem.stage_end(tl.load(mark), LABEL, ctx)
