# SPDX-License-Identifier: BSD-3-Clause
"""Triton-distributed's helpers of threads and of the host."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl
from dist_values import dtype_of, tensor, torch, values

import pyshmem
import pyshmem.interop.triton_dist as triton_dist
import pyshmem.interop.triton_dist.language as dl
from pyshmem.interop.triton_dist import profiler_utils, utils
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
from pyshmem.interop.triton_dist.test import utils as test_utils

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


def test_the_names_that_its_test_programs_begin_with(group):
    ones = np.ones(3, np.float32)
    test_utils.assert_bitwise_equal(ones, ones.copy())
    with pytest.raises(AssertionError, match="the bits differ"):
        test_utils.assert_bitwise_equal(ones, ones.astype(np.float64))
    begin = time.perf_counter()
    profiler_utils.sleep_async(20)
    assert utils.has_tma() or time.perf_counter() - begin >= 0.02
    with profiler_utils.group_profile("none", do_prof=False) as profile:
        assert profile is None
    needs = utils.requires_p2p_native_atomic(lambda: 5)
    if utils.supports_p2p_native_atomic():
        assert needs() == 5
    else:
        with pytest.raises(pyshmem.UnsupportedError, match="needs links that have atomic"):
            needs()
    assert utils.support_launch_cooperative_grid()
    assert not utils.is_nvshmem_multimem_supported()
    with pytest.raises(RuntimeError, match="the job has a group"):
        utils.init_nvshmem_by_torch_process_group(group)


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_tensors_and_profiles_of_torch(group, tmp_path, monkeypatch):
    assert utils.is_fp8_dtype(torch.float8_e4m3fn)
    assert not utils.is_fp8_dtype(torch.int8)
    for dtype in (torch.float16, torch.float8_e5m2, torch.int8, torch.int32):
        made = utils.rand_tensor((64, 64), dtype, "cpu").double()
        most = 1 if dtype.is_floating_point else -torch.iinfo(dtype).min
        assert 0.9 * most < made.abs().max() <= most
        assert made.min() < 0 < made.max()
    monkeypatch.chdir(tmp_path)
    with profiler_utils.group_profile("sums", compress=False):
        torch.ones(5).sum()
    merged, own = Path("prof/sums_merged.json"), Path(f"prof/sums/rank{group.rank()}.json")
    assert not own.exists()
    assert merged.exists() == (group.rank() == 0)
    if group.rank() == 0:
        events = json.loads(merged.read_text())["traceEvents"]
        sums = [str(one["pid"]) for one in events if one.get("name") == "aten::sum"]
        assert {one.split()[0] for one in sums} == {f"rank{i}" for i in range(group.size())}
    with profiler_utils.group_profile("alone", merge_group=False):
        torch.ones(5).sum()
    assert Path(f"prof/alone/rank{group.rank()}.json").exists()
