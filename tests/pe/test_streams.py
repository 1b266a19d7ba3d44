# SPDX-License-Identifier: BSD-3-Clause
"""Streams at the end of a job; the short way of calls on arrays of GPUs, for which a class stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

BEGIN = """
import sys
import numpy as np
import pyshmem

job = pyshmem.init(device="sim", heap_size="16M", device_heap_size="16M")
stream = pyshmem.streams.Stream()
array = pyshmem.full(4, job.my_pe + 1, dtype=np.float32, heap="device")
signal = pyshmem.new_signal(heap="device")
pyshmem.barrier_all()
"""


def test_finalize_waits_for_what_is_queued(n_pes: int, run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
total = pyshmem.zeros(4, dtype=np.float32, heap="device")
pyshmem.sum_reduce(total, array, stream=stream)
pyshmem.put(array, total, job.my_pe, stream=stream)
pyshmem.finalize()
assert not pyshmem.initialized()
if job.my_pe == 0:
    print("ok")
"""
    )
    assert run_pes(n_pes, program, device="sim", check=True).stdout.endswith("ok\n")


def test_finalize_says_what_does_not_end(run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
pyshmem.signal_wait_until(signal, pyshmem.CMP_EQ, 7, stream=stream)
try:
    pyshmem.finalize()
except pyshmem.ShmemTimeout as error:
    assert "work queued on a stream" in str(error), error
    print("ok", flush=True)
"""
    )
    done = run_pes(1, program, device="sim", env={"PYSHMEM_TIMEOUT": "1"}, check=True)
    assert done.stdout == "ok\n"


def test_graphs_and_streams_end_with_their_job(run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
with stream.capture() as graph:
    pyshmem.put(array, array, job.my_pe, stream=stream)

def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(text)

pyshmem.finalize()
refused(pyshmem.NotInitialized, "finalised", lambda: graph.replay(stream))
pyshmem.init(device="sim", heap_size="16M", device_heap_size="16M")
again = pyshmem.streams.Stream()
refused(pyshmem.ShmemError, "a job that has ended", lambda: graph.replay(again))
refused(ValueError, "has been destroyed", stream.synchronize)
del graph
pyshmem.finalize()
print("ok", flush=True)
"""
    )
    assert run_pes(1, program, device="sim", check=True).stdout == "ok\n"


def test_a_pe_that_dies_ends_those_whose_streams_wait_for_it(run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
if job.my_pe == 1:
    sys.exit(3)
pyshmem.sum_reduce(array, array, stream=stream)
stream.synchronize()
"""
    )
    done = run_pes(3, program, device="sim", timeout=60)
    assert done.returncode != 0
    assert "PE 1" in done.stderr


GPU_ARRAYS = """
from pyshmem._core import _fast
from pyshmem._core.dtypes import kind_of

class Block:
    gone = ""

class Memory:
    _owner = Block()

class Pointer:
    def __init__(self, ptr):
        self.ptr, self.mem = ptr, Memory()

class Array:  # what of CuPy's is looked at
    def __init__(self, over):
        self.data, self.nbytes, self.dtype = Pointer(over._address), over.nbytes, over.dtype
        self._c_contiguous, self.size = True, over.size
        self.__cuda_array_interface__ = dict(over.__array_interface__, version=3)

_fast.know_gpu_arrays(Array, kind_of)
"""


def test_arrays_of_gpus_take_the_short_way(run_pes: Callable) -> None:
    """Where that way understands the arguments, the routine in Python is not called."""
    program = (
        BEGIN
        + GPU_ARRAYS
        + """
box = pyshmem.zeros(4, dtype=np.float32, heap="device")
pyshmem.put(box, box, 0)  # now its place is known
pyshmem.put(array, array, 0)
dest, source = Array(box), Array(array)
calls = []

def slow(*arguments, **named):
    calls.append(arguments)

short = _fast.Call(slow, "copy", 0)
short(dest, source, job.my_pe, stream=stream)
short(dest, source, job.my_pe, stream=stream.handle)
total = _fast.Call(slow, "reduce", 5)
total(dest, source, stream=stream)  # its kernel is not loaded: Python sees to that
assert len(calls) == 1, calls
pyshmem.streams.prepare("sum_reduce", dtype=np.float32)
total(dest, source, stream=stream)
assert len(calls) == 1, calls
stream.synchronize()
assert (box == array * job.n_pes).all(), box
strided = Array(array)
strided._c_contiguous = False
short(dest, strided, 0, stream=stream)
Block.gone = "it was freed"
short(dest, source, 0, stream=stream)
Block.gone = ""
short(dest, source, 0, stream=object())
assert len(calls) == 4, calls
pyshmem.finalize()
print("ok", flush=True)
"""
    )
    assert run_pes(1, program, device="sim", check=True).stdout == "ok\n"


def test_an_array_of_a_gpu_is_not_taken_for_one_that_was_at_its_address(run_pes: Callable) -> None:
    """Where arrays are is kept as long as they live."""
    program = (
        BEGIN
        + GPU_ARRAYS
        + """
box = pyshmem.zeros(4, dtype=np.float32, heap="device")
pyshmem.put(box, box, 0)  # now its place is known
pyshmem.put(array, array, 0)
dest, addresses = Array(box), set()
for count in [1, 2, 3, 4] * 50:  # an array is not taken for one that was at its address
    part = Array(array)
    part.nbytes = 4 * count
    box[:] = -1
    pyshmem.put(dest, part, 0, stream=stream)
    stream.synchronize()
    addresses.add(id(part))
    assert (box != -1).sum() == count, (count, box)
assert len(addresses) < 200  # some were used again
pyshmem.finalize()
print("ok", flush=True)
"""
    )
    assert run_pes(1, program, device="sim", check=True).stdout == "ok\n"


OWN_KERNELS = """
import time
import numpy as np
import pyshmem
from numba import cuda
from pyshmem import device as shmem

@cuda.jit
def double(array):
    i = cuda.grid(1)
    if i < array.size:
        array[i] *= 2

job = pyshmem.init(device="sim", heap_size="16M", device_heap_size="16M")
late = job.my_pe == 1
mine = pyshmem.full(40, job.my_pe + 1, dtype=np.float32, heap="device")
total = pyshmem.zeros(40, dtype=np.float32, heap="device")
s = pyshmem.streams.Stream()

def check(value):
    assert (pyshmem.to_numpy(total) == value).all(), (value, pyshmem.to_numpy(total)[:4])
    pyshmem.barrier_all()

def sum_doubled():
    time.sleep(0.5 * late)
    pyshmem.sum_reduce(total, mine, stream=s)
    double[2, 32, s](total)
"""

IN_ORDER = """
sum_doubled()
s.synchronize()
check(6)
sum_doubled()
double[2, 32, s.handle](total)
cuda.synchronize()  # for all streams
check(12)

time.sleep(0.5 * late)
pyshmem.sync_all(stream=s)
there = cuda.to_device(np.ones(4))
double[1, 4, s](there)
assert (there.copy_to_host(stream=s) == 2).all()
double[2, 32](total)  # on no stream: at once
check(24)
"""

CAPTURED = """
sum_doubled()
s.synchronize()
with s.capture() as graph:
    sum_doubled()
    double[2, 32, s](total)
    try:
        double[1, 4, s](np.ones(4))
    except ValueError as error:
        assert "captured" in str(error), error
    else:
        raise AssertionError("an array of the host was captured")
check(6)  # nothing was done
for wait in (s.synchronize, cuda.synchronize, cuda.event().synchronize):
    try:
        with s.capture():
            wait()
    except pyshmem.ShmemError as error:
        assert "being captured" in str(error), error
    else:
        raise AssertionError("it did not wait for what is captured")
for _ in range(2):
    graph.replay(s)
s.synchronize()
check(12)

ours = np.ones(4)
double[1, 4, s](ours)  # which waits, as on a GPU
assert (ours == 2).all()
"""

ASTRAY = """
@cuda.jit
def astray(array):
    shmem.p(array, 1.0, 99)

sum_doubled()
astray[1, 1, s](total)
try:
    s.synchronize()
except pyshmem.KernelFault as fault:
    assert "astray" in str(fault) and "99" in str(fault), fault
else:
    raise AssertionError("no fault")
"""

AT_THE_END = """
pyshmem.finalize()
cuda.synchronize()
print("ok", flush=True)
"""


@pytest.mark.parametrize(
    "part", [IN_ORDER, CAPTURED, ASTRAY], ids=["in order", "captured", "with a fault at the end"]
)
def test_kernels_of_ones_own_come_in_the_stream_s_order(part: str, run_pes: Callable) -> None:
    """In the simulator too: launched, captured, beside arrays of the host, with a fault at the end."""
    program = OWN_KERNELS + part + AT_THE_END
    assert run_pes(2, program, device="sim", timeout=60, check=True).stdout == "ok\nok\n"
