# SPDX-License-Identifier: BSD-3-Clause
"""How kernels come to run on a GPU: first launches, threads, captures, debug builds, frees."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

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


def make_put():
    """A kernel of its own each time: its first launch loads it."""

    @cuda.jit
    def kernel(dest, source, pe):
        shmem.put_work_group(dest, source, pe)

    return kernel


def wait_kernel(**options):
    @cuda.jit(**options)
    def wait_for_word(word):
        if cuda.threadIdx.x == 0:
            shmem.wait_until(word, shmem.CMP_EQ, 1)

    return wait_for_word


WAIT = wait_kernel()


@pytest.mark.parametrize("name", ["put", "fcollect", "sum_reduce"])
@pytest.mark.parametrize("threads", [1, 32, 96])
def test_debug_builds_run(job, heap, show, name, threads):
    right = (job.my_pe + 1) % job.n_pes
    routine = getattr(shmem, name + "_work_group")

    if name == "put":

        @cuda.jit(debug=True, opt=False)
        def kernel(dest, source, pe):
            routine(dest, source, pe, source.size)

    else:

        @cuda.jit(debug=True, opt=False)
        def kernel(dest, source, _pe):
            routine(shmem.TEAM_WORLD, dest, source, source.size)

    source = pyshmem.full(50, job.my_pe + 1, dtype=np.int64, heap=heap)
    dest = pyshmem.zeros(50 * job.n_pes, dtype=np.int64, heap=heap)
    kernel[1, threads](dest, source, right)
    got = show(dest)
    if name == "put":
        assert (got[:50] == (job.my_pe - 1) % job.n_pes + 1).all()
    elif name == "fcollect":
        assert (got == np.repeat(np.arange(job.n_pes) + 1, 50)).all()
    else:
        assert (got[:50] == job.n_pes * (job.n_pes + 1) // 2).all()


@pytest.mark.parametrize("place_of_wait", ["default", "blocking", "non-blocking"])
def test_a_prepared_kernel_starts_beside_one_that_waits(job, heap, cupy, show, place_of_wait):
    """The waiting kernel is ended by the one that is launched for the first time."""
    word = pyshmem.zeros(1, dtype=np.int64, heap=heap)
    one = pyshmem.full(1, 1, dtype=np.int64, heap=heap)
    kernel, own = make_put(), cupy.cuda.Stream(non_blocking=True)
    shmem.prepare(kernel, word, one, job.my_pe)
    shmem.prepare(WAIT, word)
    pyshmem.barrier_all()
    if place_of_wait == "default":
        WAIT[1, 32](word)
    else:
        other = cupy.cuda.Stream(non_blocking=place_of_wait == "non-blocking")
        WAIT[1, 32, cuda.external_stream(other.ptr)](word)
    kernel[1, 32, cuda.external_stream(own.ptr)](word, one, job.my_pe)
    cuda.synchronize()
    assert show(word)[0] == 1


def test_a_first_launch_inside_a_capture(job, heap, cupy, show):
    """Compiled, loaded and launched for the first time while the stream is captured in global mode."""
    source = pyshmem.full(64, job.my_pe + 1, dtype=np.int32, heap=heap)
    dest = pyshmem.zeros(64, dtype=np.int32, heap=heap)
    kernel, stream = make_put(), cupy.cuda.Stream(non_blocking=True)
    right = (job.my_pe + 1) % job.n_pes
    with stream:
        stream.begin_capture()
        kernel[1, 32, cuda.external_stream(stream.ptr)](dest, source, right)
        graph = stream.end_capture()
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(dest) == 0).all()
    pyshmem.barrier_all()
    graph.launch(stream)
    stream.synchronize()
    assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()


def test_a_kernel_is_launched_from_a_thread_of_its_own(job, heap, show):
    """A new thread has no context; the PE's GPU is not always number 0."""
    source = pyshmem.full(64, job.my_pe + 1, dtype=np.int32, heap=heap)
    dest = pyshmem.zeros(64, dtype=np.int32, heap=heap)
    errors = []

    def run():
        try:
            make_put()[1, 32](dest, source, (job.my_pe + 1) % job.n_pes)
            cuda.synchronize()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()


@cuda.jit
def put_often_by_engine(dest, source, pe, times):
    for _ in range(times):
        shmem.put_nbi_work_group(dest, source, pe)
        shmem.quiet_work_group()


def test_arrays_are_dropped_while_a_kernel_waits_for_copies(job, heap, show):
    """Numba would free them behind the kernel, and the copies behind the frees: for ever."""
    nelems = 1 << 18
    source = pyshmem.full(nelems, job.my_pe + 1, dtype=np.int32, heap=heap)
    dest = pyshmem.zeros(nelems, dtype=np.int32, heap=heap)
    right = (job.my_pe + 1) % job.n_pes
    with pyshmem.cutover.forced("put", 0):
        shmem.prepare(put_often_by_engine, dest, source, right, 2000)
        put_often_by_engine[1, 128](dest, source, right, 2000)
        for _ in range(60):
            cuda.to_device(np.zeros(1000))
        cuda.synchronize()
    for _ in range(20):  # now they go
        cuda.to_device(np.zeros(1000))
    queue = cuda.current_context().memory_manager.deallocations
    assert len(queue) <= 20
    assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()


def test_a_freed_array_is_refused(job, heap):
    array = pyshmem.zeros(8, dtype=np.int32, heap=heap)
    kept = shmem.as_argument(array)
    kernel = make_put()
    pyshmem.free(array)
    for argument in (array, kept):
        with pytest.raises(ValueError, match=r"argument 0 of kernel .* cannot be used"):
            kernel[1, 32](argument, argument, job.my_pe)


def test_bfloat16_arguments(job, heap, show):
    import ml_dtypes

    source = pyshmem.full(32, job.my_pe + 1, dtype="bfloat16", heap=heap)
    dest = pyshmem.zeros(32, dtype="bfloat16", heap=heap)
    right = (job.my_pe + 1) % job.n_pes
    make_put()[1, 32](shmem.as_argument(dest), shmem.as_argument(source), right)
    assert (show(dest).astype(np.float32) == (job.my_pe - 1) % job.n_pes + 1).all()
    assert show(dest).dtype == np.dtype(ml_dtypes.bfloat16)


def test_no_bulk_copies_takes_no_shared_memory(job, heap, show):
    @cuda.jit
    def plain(dest, source, pe):
        shmem.put(dest, source, pe)

    @cuda.jit
    def declined(dest, source, pe):
        shmem.no_bulk_copies()
        shmem.put(dest, source, pe)

    source = pyshmem.full(4096, job.my_pe + 1, dtype=np.int32, heap=heap)
    dest = pyshmem.zeros(4096, dtype=np.int32, heap=heap)
    right = (job.my_pe + 1) % job.n_pes
    for kernel in (plain, declined):
        kernel[1, 1](dest, source, right)
        assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()
    assert set(declined.get_shared_mem_per_block().values()) == {0}


BROKEN = """
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def wild(out):
    out[1 << 40] = shmem.my_pe()

with pyshmem.init(device_heap_size="4M"):
    wild[1, 1](pyshmem.zeros(2, dtype=np.int32, heap="device"))
    cuda.synchronize()
"""


def test_the_users_error_is_what_is_shown(job, tmp_path):
    """A context that an illegal access has ended takes no state block any more."""
    if job.my_pe:
        return
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYSHMEM_")}
    run = subprocess.run([sys.executable, str(script)], env=alone, capture_output=True, text=True)
    assert run.returncode != 0
    assert "ILLEGAL_ADDRESS" in run.stderr.splitlines()[-1]
    assert "filling the state block" not in run.stderr
