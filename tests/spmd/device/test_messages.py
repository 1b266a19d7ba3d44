# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that talk to their own host: prints, functions that the host runs."""

from __future__ import annotations

import ctypes

import numba
import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem


@numba.cfunc("int64(int64, int64, int64, int64)")
def digits(a, b, c, d):
    return a + 10 * b + 100 * c + 1000 * d


@pytest.fixture
def handler():
    registered = pyshmem.register_handler(digits)
    yield registered
    pyshmem.unregister_handler(registered)


@pytest.fixture
def memcpy():
    address = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
    registered = pyshmem.register_handler(address)
    yield registered
    pyshmem.unregister_handler(registered)


@cuda.jit
def call_from_all(handler, out):
    i = cuda.grid(1)
    out[i] = shmem.call(handler, i, 2, np.int32(3), -4)


def test_every_thread_gets_what_its_call_returned(job, heap, handler, show):
    out = pyshmem.zeros(96, dtype=np.int64, heap=heap)
    call_from_all[3, 32](handler, out)
    assert (show(out) == np.arange(96) + 320 - 4000).all()
    assert pyshmem.proxy_stats().operations["call"].requests >= 96


@cuda.jit
def post_and_quiet(handler, dest, source, nbytes, rounds):
    for _ in range(rounds):
        shmem.post(handler, dest, source, nbytes, 0)
    shmem.quiet()
    shmem.call(handler, dest + nbytes, dest, nbytes, 0)


def test_a_post_has_run_after_quiet(job, memcpy):
    source, dest = np.arange(8) + job.my_pe, np.zeros(16, dtype=np.int64)
    post_and_quiet[1, 1](memcpy, dest.ctypes.data, source.ctypes.data, source.nbytes, 3)
    cuda.synchronize()
    assert (dest == np.tile(source, 2)).all()


def launch_and_ask(kernel, *arguments):
    kernel[1, 1](*arguments)
    cuda.synchronize()
    pyshmem.quiet()


def test_a_handler_that_is_not_registered_is_a_fault(job, heap):
    out = pyshmem.zeros(1, dtype=np.int64, heap=heap)
    with pytest.raises(pyshmem.KernelFault, match="handler 63, which is not registered"):
        launch_and_ask(call_from_all, 63, out)
    pyshmem.quiet()  # once is enough


@cuda.jit
def post_nowhere():
    shmem.post(63, 0, 0, 0, 0)


def test_so_is_one_that_is_posted_to(job):
    with pytest.raises(pyshmem.KernelFault, match="handler 63, which is not registered"):
        launch_and_ask(post_nowhere)
    pyshmem.quiet()


@cuda.jit
def speak(value):
    shmem.print("an integer", value)
    shmem.print("a float", value + np.float32(0.5))
    shmem.print("exactly twenty-four byte", -1)
    shmem.print("nothing")


def test_prints_appear_in_order_with_their_place(job, capfd):
    speak[2, 1](np.int32(7))
    cuda.synchronize()
    pyshmem.quiet()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 8
    for block in range(2):
        place = f"(block {block}, thread 0)"
        assert [line for line in lines if place in line] == [
            f"PE {job.my_pe}: an integer = 7 {place}",
            f"PE {job.my_pe}: a float = 7.5 {place}",
            f"PE {job.my_pe}: exactly twenty-four byte = -1 {place}",
            f"PE {job.my_pe}: nothing {place}",
        ]


def test_labels_and_values_are_checked(job):
    @cuda.jit
    def long_label():
        shmem.print("this label is longer than 24")

    @cuda.jit
    def complex_value():
        shmem.print("z", 1j)

    for kernel, message in ((long_label, "28 bytes"), (complex_value, "an integer, a float")):
        with pytest.raises(Exception, match=message):
            kernel[1, 1]()
