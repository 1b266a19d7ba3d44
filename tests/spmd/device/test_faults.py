# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in kernels: nothing is transferred, and the next host call says what and where."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem


@cuda.jit
def put_to(dest, source, pe, nelems):
    if cuda.blockIdx.x == cuda.gridDim.x - 1:
        shmem.put_work_group(dest, source, pe, nelems)


@cuda.jit
def set_on(dest, pe):
    shmem.atomic_set(dest, 1, pe)


def fault(kernel, grid, *arguments):
    """The message that the host gets: from the launch in the simulator, from a later call on a GPU."""

    def launch_and_ask():
        kernel[grid](*arguments)
        cuda.synchronize()
        pyshmem.quiet()

    with pytest.raises(pyshmem.KernelFault) as caught:
        launch_and_ask()
    return str(caught.value)


@pytest.mark.parametrize("offset", [0, 7])
def test_a_wrong_pe_names_kernel_block_and_range(job, place, show, offset):
    dest, source = place(np.zeros(4, np.int32)), place(np.ones(4, np.int32))
    message = fault(put_to, (3, 32), dest, source, job.n_pes + offset, 4)
    assert f"pe {job.n_pes + offset} is not one of the {job.n_pes} PEs" in message
    assert "put_to" in message
    assert "block 2" in message
    assert "it is called so: put(dest, source, pe, nelems)" in message
    assert (show(dest) == 0).all()


def test_a_number_of_elements_that_may_be_a_pe_names_the_order(job, place):
    dest, source = place(np.zeros(1, np.int32)), place(np.ones(1, np.int32))
    swapped = fault(put_to, (1, 32), dest, source, 0, job.n_pes + 3)
    assert "it is called so" not in swapped
    if job.n_pes > 2:
        swapped = fault(put_to, (1, 32), dest, source, 0, job.n_pes - 1)
        assert "it is called so: put(dest, source, pe, nelems)" in swapped


@cuda.jit
def set_through_pointer(array, pe):
    shmem.ptr(array, pe)[0] = 1


def test_a_pointer_to_a_pe_out_of_reach(job, near, place):
    array = place(np.zeros(4, np.int32))
    far = [pe for pe in range(job.n_pes) if pe != job.my_pe and not near(pe)]
    if not far:
        pytest.skip("loads and stores reach all PEs")
    message = fault(set_through_pointer, (1, 1), array, far[0])
    assert f"ptr: PE {far[0]} is not reached by loads and stores" in message


def test_a_pointer_to_another_pe_on_the_host_heap(job, p2p):
    array = pyshmem.zeros(4, np.int32, heap="host")
    if p2p:
        with pytest.raises(TypeError, match="an array in host memory"):
            shmem.as_argument(array)
        return
    set_through_pointer[1, 1](shmem.as_argument(array), job.my_pe)
    cuda.synchronize()
    assert array[0] == 1  # the own one is reached
    if job.n_pes > 1:
        peer = (job.my_pe + 1) % job.n_pes
        message = fault(set_through_pointer, (1, 1), shmem.as_argument(array), peer)
        assert "an array on the host heap" in message
    pyshmem.free(array)


def test_a_negative_pe_is_a_fault_too(job, place, show):
    message = fault(set_on, (1, 1), place(np.zeros(1, np.int64)), -1)
    assert "pe -1 is not one of" in message
    assert "atomic_set" in message


def test_too_many_elements(job, place, show):
    dest, source = place(np.zeros(4, np.int32)), place(np.ones(6, np.int32))
    message = fault(put_to, (1, 32), dest, source, job.my_pe, 5)
    assert "nelems 5" in message
    assert "hold 4" in message
    assert (show(dest) == 0).all()


@pytest.mark.parametrize("nelems", [-1, -(2**40)])
def test_negative_elements(job, place, nelems):
    dest, source = place(np.zeros(4, np.int32)), place(np.ones(4, np.int32))
    assert f"nelems {nelems}" in fault(put_to, (1, 32), dest, source, job.my_pe, nelems)


def test_a_destination_off_the_heap(job, place):
    source = place(np.ones(4, np.int32))
    elsewhere = cuda.to_device(np.zeros(4, np.int32))
    message = fault(put_to, (1, 32), elsewhere, source, job.my_pe, 4)
    assert "16 bytes" in message
    assert "heap='device'" in message


@cuda.jit
def put_and_signal(dest, source, sig, pe):
    shmem.put_signal(dest, source, sig, 1, shmem.SIGNAL_SET, pe)


def test_a_signal_off_the_heap_is_not_said_to_have_kept_its_data_back(job, place):
    dest, source = place(np.zeros(4, np.int32)), place(np.ones(4, np.int32))
    elsewhere = cuda.to_device(np.zeros(1, np.uint64))
    message = fault(put_and_signal, (1, 1), dest, source, elsewhere, job.my_pe)
    assert "put_signal: 8 bytes at" in message
    assert "no signal was sent" in message
    assert "nothing was transferred" not in message


def test_work_goes_on_after_a_fault(job, place, show):
    dest, source = place(np.zeros(4, np.int32)), place(np.full(4, job.my_pe + 1, np.int32))
    fault(put_to, (1, 32), dest, source, 99, 4)
    put_to[1, 32](dest, source, (job.my_pe + 1) % job.n_pes, 4)
    assert (show(dest) == (job.my_pe - 1) % job.n_pes + 1).all()


def test_only_the_first_of_many_faults_is_reported(job, place):
    dest = place(np.zeros(1, np.int64))
    assert "pe 55" in fault(set_on, (2, 64), dest, 55)
    pyshmem.barrier_all()
    pyshmem.quiet()


@cuda.jit
def put_strided(dest, source, pe):
    shmem.put(dest[::2], source, pe)


@cuda.jit
def put_other_dtype(dest, source, pe):
    shmem.put(dest, source, pe)


@cuda.jit
def add_bytes(dest, pe):
    shmem.atomic_add(dest, 1, pe)


@cuda.jit
def add_to_scalar(dest, pe):
    shmem.atomic_add(dest[0], 1, pe)


def test_an_element_in_the_place_of_an_array_is_told_the_way_out(job, place):
    from numba.core.errors import TypingError

    with pytest.raises((TypeError, TypingError), match=r"arrays, as a\[i:i\+1\], not .*int"):
        add_to_scalar[1, 1](place(np.zeros(4, np.int32)), job.my_pe)


def test_wrong_types_are_found_before_the_kernel_runs(job, place):
    from numba.core.errors import TypingError

    ints, floats = place(np.zeros(4, np.int32)), place(np.zeros(4, np.float32))
    small = place(np.zeros(4, np.int8))
    with pytest.raises((TypeError, TypingError), match=r"strides|contiguous"):
        put_strided[1, 1](ints, ints[:2], job.my_pe)
    with pytest.raises((TypeError, TypingError), match="dest holds int32 but source holds float32"):
        put_other_dtype[1, 1](ints, floats, job.my_pe)
    with pytest.raises((TypeError, TypingError), match="int8 is not among the types"):
        add_bytes[1, 1](small, job.my_pe)


@cuda.jit
def scatter(dest, source, nelems):
    shmem.alltoalls_work_group(shmem.TEAM_WORLD, dest, source, 1, 1, nelems)


def test_a_negative_count_of_alltoalls(job, place):
    arrays = [place(np.zeros(64, np.int64)) for _ in range(2)]
    assert "nelems" in fault(scatter, (1, 8), *arrays, -1)
