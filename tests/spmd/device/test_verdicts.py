# SPDX-License-Identifier: BSD-3-Clause
"""The simulator takes and refuses what the compiler for GPUs does: see ``kernel_verdicts``."""

from __future__ import annotations

import kernel_verdicts as table
import numpy as np
import pytest
from numba import cuda
from numba.core import errors

import pyshmem
from pyshmem import device as shmem
from pyshmem.device.leaf.backend import CPU

#: What a kernel raises that writes to a read-only array; on CPUs, where it is compiled.
READ_ONLY = errors.TypingError if CPU else ValueError


@pytest.fixture
def said(job, heap):
    """``said(kernel, dtype)``: what the error of a launch says; empty: there is none."""

    def message(kernel, dtype):
        shape = (4, 4)
        arrays = [pyshmem.zeros(shape, dtype, heap=heap) for dtype in (dtype, dtype, "u8", "i8")]
        try:
            cuda.jit(kernel)[1, 1](arrays[0], arrays[1], arrays[2].ravel(), arrays[3].ravel())
            cuda.synchronize()
        except (TypeError, errors.TypingError) as error:
            return str(error)
        except pyshmem.KernelFault:
            return ""  # it was called
        return ""

    return message


def agree(found: str, wanted: str) -> bool:
    return wanted in found if wanted else not found


def one_of_each(cases, verdict):
    """All of them; kernels that are compiled for the CPU, at seconds each, are of one case a verdict."""
    return list({verdict(case): case for case in reversed(cases)}.values()) if CPU else cases


@pytest.mark.parametrize("routine", table.CASES)
def test_dtypes_are_taken_and_refused_as_by_the_compiler(job, said, routine):
    if job.device == "cuda":
        pytest.skip("tests/unit/test_sm90_verdicts.py compiles them all")
    kernel, wrong = table.kernel_of(routine), []
    names = [*table.OF_THE_TABLE, *table.TEXT_AND_RECORDS, *table.OF_NO_KERNEL]
    for name in one_of_each(names, lambda name: table.verdict(routine, name)):
        wanted = table.verdict(routine, name)
        if not wanted and routine.endswith("lock"):
            continue  # it would be held
        if not agree(found := said(kernel, table.numpy_dtype(name)), wanted):
            wrong.append((name, found, wanted))
    assert not wrong


@pytest.mark.parametrize("routine", table.CASES)
def test_layouts_are_taken_and_refused_as_by_the_compiler(job, said, routine):
    if job.device == "cuda":
        pytest.skip("tests/unit/test_sm90_verdicts.py compiles them all")
    wrong = []
    dtype = table.numpy_dtype(table.a_dtype_of(routine))
    pairs = one_of_each(
        table.PAIRS, lambda pair: table.verdict(routine, dtype.name, pair[0], pair[1])
    )
    for dest, source in pairs:
        wanted = table.verdict(routine, dtype.name, dest, source)
        if not wanted and routine.endswith("lock"):
            continue
        found = said(table.kernel_of(routine, dest, source), dtype)
        if not agree(found, wanted):
            wrong.append((dest, source, found, wanted))
    assert not wrong


@pytest.mark.parametrize("routine", table.CASES)
def test_what_is_read_only_is_not_written_to(job, routine):
    """Where a routine writes to its first array. Arrays of GPUs have no such flag."""
    if job.device == "cuda":
        pytest.skip("only NumPy's arrays are read-only")
    if routine.endswith("lock"):
        pytest.skip("it would be held")
    first = next(p for p in table.parameters(routine) if p in (*table.ARRAYS, "sig_addr"))
    written = first in ("dest", "fetch") or routine in ("signal_set", "signal_add", "signal_op")
    kinds = [table.numpy_dtype(table.a_dtype_of(routine))] * 2 + ["u8", "i8"]
    arrays = [pyshmem.zeros((4, 4), kind, heap="device") for kind in kinds]
    arrays[0].setflags(write=False)
    given = arrays[0], arrays[1], arrays[2].ravel(), arrays[3].ravel()
    kernel = cuda.jit(table.kernel_of(routine))
    if written:
        with pytest.raises(READ_ONLY, match=f"{routine}: {first} is read-only"):
            kernel[1, 1](*given)
    else:
        kernel[1, 1](*given)


@cuda.jit
def write_by_a_pointer(dest):
    shmem.ptr(dest, shmem.my_pe())[0] = 1


def test_a_pointer_to_what_is_read_only_is_too(job):
    if job.device == "cuda":
        pytest.skip("only NumPy's arrays are read-only")
    dest = pyshmem.zeros(4, "i4", heap="device")
    dest.setflags(write=False)
    with pytest.raises(READ_ONLY, match=r"read-?only"):
        write_by_a_pointer[1, 1](dest)
    with pytest.raises(ValueError, match="read-only"):
        pyshmem.ptr(dest, job.my_pe)[0] = 1


@cuda.jit
def refuse_order_in_shared_memory(dest):
    part = cuda.shared.array((4, 4), dtype=np.int32)
    shmem.put(dest, part.T, shmem.my_pe())


@cuda.jit
def refuse_slice_of_local_memory(dest):
    part = cuda.local.array((4, 4), dtype=np.int32)
    shmem.put(dest, part[1:3, :], shmem.my_pe())


@cuda.jit
def refuse_slice_of_a_peers_array(dest):
    shmem.put(dest, shmem.ptr(dest, shmem.my_pe())[1:3, :], shmem.my_pe())


@cuda.jit
def take_rows_of_all(dest):
    part = cuda.shared.array((4, 4), dtype=np.int32, alignment=16)
    for row in range(4):
        for column in range(4):
            part[row, column] = 4 * row + column
    shmem.put(dest[0:2], part[2:4], shmem.my_pe())
    shmem.put(dest[2], part[1], shmem.my_pe())
    shmem.put(dest[3, 1:3], part[0, 1:3], shmem.my_pe())
    shmem.quiet()


def test_layouts_of_all_memory_of_a_kernel_are_known(job, place, show):
    dest = place(np.zeros((4, 4), np.int32))
    for kernel, text in (
        (refuse_order_in_shared_memory, table.ORDERS),
        (refuse_slice_of_local_memory, table.LAYOUT),
        (refuse_slice_of_a_peers_array, table.LAYOUT),
    ):
        with pytest.raises((TypeError, errors.TypingError), match=text):
            kernel[1, 1](dest)
    take_rows_of_all[1, 1](dest)
    wanted = [[8, 9, 10, 11], [12, 13, 14, 15], [4, 5, 6, 7], [0, 1, 2, 0]]
    assert show(dest).tolist() == wanted


@cuda.jit
def put_both_in_fortrans_order(dest, source):
    shmem.put(dest, source, shmem.my_pe())
    shmem.quiet()


def test_two_arrays_in_fortrans_order_are_copied(job, place, show):
    """As they lie in both, so each element arrives at its place."""
    values = np.arange(6, dtype=np.int32).reshape(2, 3)
    source, dest = place(values.T), place(np.zeros((3, 2), np.int32))
    put_both_in_fortrans_order[1, 1](dest.T, source.T)
    assert show(dest).T.tolist() == values.tolist()


@cuda.jit
def p_values(dest, source):
    shmem.p(dest, source[1], shmem.my_pe())


@pytest.mark.parametrize(
    ("dest", "source"),
    [
        ("float64", "complex64"), ("int32", "complex128"), ("float16", "bfloat16"),
        ("complex64", "bfloat16"),
    ],
)  # fmt: skip
def test_values_that_numba_does_not_convert_are_refused(job, place, dest, source):
    arrays = (
        place(np.zeros(2), table.numpy_dtype(dest)),
        place(np.ones(2), table.numpy_dtype(source)),
    )
    if "bfloat16" in (dest, source):
        arrays = tuple(map(shmem.as_argument, arrays))
    with pytest.raises((TypeError, errors.TypingError)):
        p_values[1, 1](*arrays)


@cuda.jit
def p_of_no_number(dest, which):
    if which == 0:
        shmem.p(dest, dest[0:1], shmem.my_pe())
    elif which == 1:
        shmem.p(dest, "5", shmem.my_pe())
    else:
        shmem.p(dest, None, shmem.my_pe())


def test_what_is_no_number_is_no_value_of_p(job, place):
    dest = place(np.zeros(2, np.int32))
    for which in range(3):
        with pytest.raises((TypeError, errors.TypingError)):
            p_of_no_number[1, 1](dest, which)
