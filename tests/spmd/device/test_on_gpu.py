# SPDX-License-Identifier: BSD-3-Clause
"""What only a GPU has: CuPy arrays, streams, kernels from the on-disk cache."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def cupy(job, heap):
    if job.device != "cuda":
        pytest.skip("the job does not run on a GPU")
    if heap != "device":
        pytest.skip("without P2P kernels work on the host heap, whose arrays are NumPy's")
    return pytest.importorskip("cupy")


@cuda.jit
def put_right(dest, source):
    shmem.put_work_group(dest, source, (shmem.my_pe() + 1) % shmem.n_pes())


def test_device_heap_arrays_are_cupy_arrays(job, heap, cupy, place, show):
    source = pyshmem.full((4, 5), job.my_pe, dtype=np.float32, heap=heap)
    dest = pyshmem.zeros((4, 5), dtype=np.float32, heap=heap)
    assert isinstance(source, cupy.ndarray)
    source += 1  # CuPy's own kernels
    cupy.cuda.runtime.deviceSynchronize()
    put_right[1, 32](dest, source)
    assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()
    assert float(dest.sum()) == 20 * ((job.my_pe - 1) % job.n_pes + 1)


def test_host_put_takes_a_local_cupy_array_and_views(job, heap, cupy, show):
    dest = pyshmem.zeros((6, 8), dtype=np.int64, heap=heap)
    pyshmem.put(dest[2], cupy.arange(8) + 10 * job.my_pe, (job.my_pe + 1) % job.n_pes)
    got = show(dest)
    assert (got[2] == np.arange(8) + 10 * ((job.my_pe - 1) % job.n_pes)).all()
    assert got.sum() == got[2].sum()


def test_host_put_waits_for_what_fills_a_local_cupy_array(job, heap, cupy, show):
    dest = pyshmem.zeros(8, dtype=np.float64, heap=heap)
    local = cupy.zeros(1 << 24)
    for _ in range(50):  # some milliseconds
        local += 1
    pyshmem.put(dest, local[:8], (job.my_pe + 1) % job.n_pes)
    assert (show(dest) == 50).all()


@pytest.mark.parametrize("kind", ["cupy", "numba", "int"])
def test_put_in_stream_order(job, heap, cupy, show, kind):
    n = 1 << 20
    mine = pyshmem.zeros(n, dtype=np.float32, heap=heap)
    dest = pyshmem.zeros(n, dtype=np.float32, heap=heap)
    stream = cupy.cuda.Stream(non_blocking=True)
    given = {"cupy": stream, "numba": cuda.external_stream(stream.ptr), "int": stream.ptr}[kind]
    with stream:
        mine += job.my_pe + 1  # still running when the put is issued
    pyshmem.put(dest, mine, (job.my_pe + 1) % job.n_pes, stream=given)
    stream.synchronize()
    assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()


def test_bfloat16_arrays_move_as_they_are(job, heap, cupy, show):
    import ml_dtypes

    values = np.arange(40).astype(ml_dtypes.bfloat16)
    dest = pyshmem.zeros(40, dtype="bfloat16", heap=heap)
    pyshmem.put(dest, values, (job.my_pe + 1) % job.n_pes)
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(dest).view(np.uint16) == values.view(np.uint16)).all()


def test_a_peers_array_from_ptr(job, heap, near, cupy, show):
    right = (job.my_pe + 1) % job.n_pes
    mine = pyshmem.full(16, job.my_pe, dtype=np.int32, heap=heap)
    pyshmem.barrier_all()
    theirs = pyshmem.ptr(mine, right)
    if heap == "device" and not near(right):
        assert theirs is None
    else:
        assert (cupy.asnumpy(theirs) == right).all()


@cuda.jit
def meet_with_a_large_frame(which, out):
    own = cuda.local.array(100, np.int64)
    for i in range(100):
        own[i] = i * i
    shmem.team_sync_work_group(shmem.TEAM_WORLD)
    if cuda.threadIdx.x == 0:
        out[0] = own[which]


def test_a_slow_wait_finds_room_on_the_stack(job, heap, show):
    """Its report is made many calls deep."""
    out = pyshmem.zeros(1, dtype=np.int64, heap=heap)
    meet_with_a_large_frame[1, 32](1, out)
    cuda.synchronize()
    pyshmem.barrier_all()
    if job.my_pe == 0:
        time.sleep(0.8)
    meet_with_a_large_frame[1, 32](9, out)
    assert show(out)[0] == 81


CACHED = """
import sys
import pyshmem
import numpy as np
from numba import cuda
from pyshmem import device as shmem

@cuda.jit(cache=True)
def who(out):
    out[0] = shmem.my_pe()
    out[1] = shmem.n_pes()

with pyshmem.init(device_heap_size="4M") as job:
    out = pyshmem.zeros(2, dtype=np.int32, heap="device")
    who[1, 1](out)
    cuda.synchronize()
    hits = sum(who.stats.cache_hits.values())
    print(pyshmem.to_numpy(out).tolist() == [0, 1], hits)
"""


def test_a_kernel_from_the_disk_cache_knows_its_place(job, tmp_path):
    import os
    import subprocess
    import sys

    if job.my_pe:
        return
    script = tmp_path / "cached.py"
    script.write_text(CACHED)
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYSHMEM_")}
    alone["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    for hits in ("0", "1"):
        run = subprocess.run(
            [sys.executable, str(script)], env=alone, capture_output=True, text=True
        )
        assert run.stdout.split() == ["True", hits], run.stderr
