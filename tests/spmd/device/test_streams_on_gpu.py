# SPDX-License-Identifier: BSD-3-Clause
"""Operations on the streams of CuPy, Numba and PyTorch, in their graphs, beside kernels."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem
from pyshmem._core.library import lib
from pyshmem.host.kernels import stream_kernels

pytestmark = pytest.mark.gpu


@pytest.fixture
def cupy(job):
    if job.device != "cuda":
        pytest.skip("the job is not on a GPU")
    return pytest.importorskip("cupy")


@cuda.jit
def double_and_tell(array, sig, right):
    i = cuda.grid(1)
    if i < array.size:
        array[i] *= 2
    cuda.syncthreads()
    if i == 0:
        shmem.signal_add(sig, 1, right)


def arrays(*values):
    return [pyshmem.array(np.full(256, value, np.float32), heap="device") for value in values]


def test_a_graph_of_cupy_with_a_kernel_between(job, cupy):
    right = (job.my_pe + 1) % job.n_pes
    source, total, box = arrays(job.my_pe + 1, 0, 0)
    sig = pyshmem.new_signal(heap="device")
    shmem.prepare(double_and_tell, total, sig, right)
    pyshmem.streams.prepare("sum_reduce", "barrier_all", "put", dtype=np.float32)
    pyshmem.barrier_all()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        pyshmem.sum_reduce(total, source, stream=stream)
        double_and_tell[1, 256, cuda.external_stream(stream.ptr)](total, sig, right)
        pyshmem.put(box, total, right, stream=stream)
        pyshmem.barrier_all(stream=stream)
        graph = stream.end_capture()
        for _ in range(50):
            graph.launch(stream)
    stream.synchronize()
    pyshmem.barrier_all()
    expected = 2 * sum(range(1, job.n_pes + 1))
    assert (pyshmem.to_numpy(box) == expected).all()
    assert pyshmem.signal_fetch(sig) == 50


def test_a_graph_of_torch(job, cupy):
    torch = pytest.importorskip("torch")
    right = (job.my_pe + 1) % job.n_pes
    source, total = arrays(job.my_pe + 1, 0)
    word = pyshmem.new_signal(heap="device")
    pyshmem.streams.prepare("sum_reduce", "put", dtype=np.float32)  # far signals go as puts do
    pyshmem.barrier_all()
    torch.cuda.set_device(job.gpu)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        pyshmem.sum_reduce(total, source, stream=stream)
        pyshmem.signal_add(word, 1, right, stream=stream)
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    assert (pyshmem.to_numpy(total) == sum(range(1, job.n_pes + 1))).all()
    assert pyshmem.signal_fetch(word) == 20


def loaded(dtype):
    """Has a test of this process used that kernel already? Graphs find it loaded then."""
    key, *_ = stream_kernels._keys("prod_reduce_scatter", dtype)
    return lib.ishmemx_kernel_loaded(key)


def test_a_first_use_in_a_capture_leaves_the_capture_alone(job, cupy):
    fresh = [name for name in ("int8", "uint16", "int16", "uint8", "uint64") if not loaded(name)]
    array = pyshmem.array(np.zeros(4 * job.n_pes, fresh[0]), heap="device")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(pyshmem.ShmemError, match="prepare"):
            pyshmem.prod_reduce_scatter(array, array, nelems=1, stream=stream)
        pyshmem.put(array, array, job.my_pe, stream=stream)
        graph = stream.end_capture()
        graph.launch(stream)
    stream.synchronize()


def test_kernels_load_beside_a_capture_of_another_thread(job, cupy):
    """In the strictest mode, in which most calls of the driver would break it."""
    begun, done = threading.Event(), threading.Event()
    failures = []

    def capture():
        cupy.cuda.Device(job.gpu).use()
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture(mode=cupy.cuda.runtime.streamCaptureModeGlobal)
            begun.set()
            done.wait(60)
            try:
                stream.end_capture()
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait(60)
    array = pyshmem.streams.Stream()
    pyshmem.streams.prepare("min_reduce", dtype=np.int16)
    array.destroy()
    done.set()
    thread.join()
    assert failures == []
    pyshmem.barrier_all()


def test_a_stream_of_another_context_is_refused(job, cupy):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    array = pyshmem.array(np.zeros(4, np.int8), heap="device")
    with cupy.cuda.Device((job.gpu + 1) % cupy.cuda.runtime.getDeviceCount()):
        foreign = cupy.cuda.Stream(non_blocking=True)
    with pytest.raises(ValueError, match="another GPU"):
        pyshmem.put(array, array, job.my_pe, stream=foreign)


def test_a_wait_that_a_kernel_of_the_stream_before_ends(job, cupy):
    right = (job.my_pe + 1) % job.n_pes
    (array,) = arrays(1)
    sig = pyshmem.new_signal(heap="device")
    pyshmem.barrier_all()
    stream = pyshmem.streams.Stream()
    double_and_tell[1, 256, cuda.external_stream(stream.handle)](array, sig, right)
    pyshmem.signal_wait_until(sig, pyshmem.CMP_GE, 1, stream=stream)
    pyshmem.atomic_set(array[:1].view(np.int32), 7, job.my_pe, stream=stream)
    stream.synchronize()
    assert pyshmem.to_numpy(array).view(np.int32)[0] == 7
    assert (pyshmem.to_numpy(array)[1:] == 2).all()
    stream.destroy()
