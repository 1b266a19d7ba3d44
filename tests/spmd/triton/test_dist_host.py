# SPDX-License-Identifier: BSD-3-Clause
"""Triton-distributed's helpers of threads and of the host."""

from __future__ import annotations

import os

import numpy as np
import pytest
import triton.language as tl
from dist_values import dtype_of, tensor, torch, values

import pyshmem
import pyshmem.interop.triton_dist as triton_dist
import pyshmem.interop.triton_dist.language as dl
from pyshmem.interop.triton_dist import utils
from pyshmem.interop.triton_dist.kernels.nvidia import common_ops
from pyshmem.interop.triton_dist.language.extra.language_extra import (
    atomic_add,
    atomic_cas,
    ld,
    ld_acquire,
    num_warps,
    st,
    tid,
)

NEAR = os.environ.get("PYSHMEM_P2P", "1") != "0"


@pytest.fixture(scope="module")
def group(job):
    yield utils.initialize_distributed()
    utils.finalize_distributed()


@triton_dist.jit
def words_of_threads(words, symm, n, rank, ranks):
    if tid(0) == 0:
        st(words, 7, scope="gpu", semantic="release")
    old = atomic_add(words + 1, 5, scope="gpu", semantic="relaxed")
    seen = atomic_cas(words + 1, 5 + old, 6, "sys", "acq_rel")
    tl.store(words + 2, ld(words, scope="sys", semantic="acquire") + ld_acquire(words + 1) + seen)
    tl.store(words + 3, num_warps())
    found = common_ops.bisect_left_kernel(symm, tl.arange(0, 8), N=4)
    tl.store(words + 4 + tl.arange(0, 8), found)
    found = common_ops.bisect_right_kernel_aligned(symm, tl.arange(0, 8), N=4)
    tl.store(words + 12 + tl.arange(0, 8), found)
    common_ops.barrier_all_intra_node_atomic_cas_block(rank, rank, ranks, symm)
    common_ops.barrier_all_intra_node_non_atomic(rank, rank, ranks, symm, 1, use_cooperative=False)


@triton_dist.jit
def lanes_of_threads(words):
    if tid(0) < 2:
        tl.store(words, 1)


def test_what_threads_do_is_done_by_the_program(group):
    words, listed = tensor(np.zeros(20, np.int32)), tensor(np.array([1, 3, 3, 6], np.int32))
    words_of_threads[(1,)](words, listed, 4, group.rank(), group.size())
    got = values(words).tolist()
    assert got[:4] == [7, 6, 18, 4]
    given = np.array([1, 3, 3, 6])
    assert got[4:12] == np.searchsorted(given, np.arange(8), "left").tolist()
    assert got[12:] == np.searchsorted(given, np.arange(8), "right").tolist()
    with pytest.raises(Exception, match="with 0 alone"):
        lanes_of_threads[(1,)](words)
    for use in (lambda: dl.simt_exec_region, lambda: triton_dist.kernels.nvidia.ag_gemm):
        with pytest.raises(pyshmem.UnsupportedError):
            use()


def test_the_helpers_of_the_host(group, capfd):
    rank, ranks = group.rank(), group.size()
    assert (rank, ranks) == (pyshmem.my_pe(), pyshmem.n_pes())
    assert utils.is_shmem_initialized()
    context = common_ops.BarrierAllContext(True)
    assert (context.rank, context.num_local_ranks) == (rank, ranks)
    common_ops.barrier_all_on_stream(context)
    if NEAR:
        views = utils.nvshmem_create_tensors((2, 3), dtype_of("float32"), rank, ranks)
        for made in views[:1] if torch is None else []:
            assert made.shape == (2, 3)
        if torch:
            views[rank].fill_(rank)
            utils.nvshmem_barrier_all_on_stream()
            assert [float(view[1, 2]) for view in views] == list(range(ranks))
        utils.nvshmem_barrier_all_on_stream()
        utils.nvshmem_free_tensor_sync(views[rank])
    with pytest.raises(ValueError, match="none of nvshmem_create_tensor"):
        utils.nvshmem_free_tensor_sync(triton_dist.utils.wrap(np.zeros(1)))
    utils.dist_print("a line", rank, allowed_ranks="all", prefix=True, need_sync=True)
    assert f"[rank:{rank}]a line {rank}" in capfd.readouterr().out
    ones = np.ones(3, np.float32)
    utils.assert_allclose(ones, ones + 1e-7, rtol=1e-3, atol=1e-3)
    with pytest.raises(AssertionError, match="3 of 3 elements"):
        utils.assert_allclose(ones, 2 * ones, rtol=1e-3, atol=1e-3, verbose=False)
    with pytest.raises(AssertionError, match="nan"):
        utils.assert_allclose(ones * np.nan, ones, rtol=1, atol=1)
    output, ms = utils.perf_func(lambda: 5, iters=2, warmup_iters=1)
    assert output == 5
    assert ms >= 0
