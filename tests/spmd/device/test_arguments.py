# SPDX-License-Identifier: BSD-3-Clause
"""Arguments at the edge of what is allowed: unsigned counts, huge strides, odd blocks, constants."""

from __future__ import annotations

import enum
import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda
from numba.core import errors
from team_kinds import fault_of

import pyshmem
from pyshmem import device as shmem
from pyshmem._core.values import WHOLE_NUMBERS
from pyshmem.device.leaf.backend import CPU, SIM
from pyshmem.device.routine import ROUTINES


def fault(kernel, grid, *arguments):
    return fault_of(lambda: kernel[grid](*arguments))


TABLE = np.arange(300, dtype=np.int32)


@cuda.jit
def count_in_uint64(dest, source, ivars, counts, out):
    n = counts[0]
    shmem.broadcast_work_group(shmem.TEAM_WORLD, dest, source, n, counts[1])
    shmem.collect_work_group(shmem.TEAM_WORLD, dest, source, n)
    shmem.fcollect_work_group(shmem.TEAM_WORLD, dest, source, n)
    shmem.sum_reduce_work_group(shmem.TEAM_WORLD, dest, source, n)
    shmem.sum_inscan_work_group(shmem.TEAM_WORLD, dest, source, n)
    shmem.alltoalls_work_group(shmem.TEAM_WORLD, dest, source, counts[2], counts[2], n)
    shmem.iput_work_group(dest, source, counts[2], counts[2], n, shmem.my_pe())
    shmem.ibget_work_group(dest, source, counts[2], counts[2], counts[2], n, shmem.my_pe())
    shmem.wait_until_all(ivars, n, None, shmem.CMP_EQ, 0)
    if cuda.threadIdx.x == 0:
        out[0] = shmem.test_any(ivars, n, None, shmem.CMP_EQ, 0, counts[2])


def test_counts_may_be_uint64(job, place, show):
    source = place(np.ones(8 * job.n_pes, np.int32))
    dest, ivars = place(np.zeros(8 * job.n_pes, np.int32)), place(np.zeros(4, np.int64))
    counts, out = cuda.to_device(np.array([3, 0, 1], np.uint64)), place(np.zeros(1, np.int64))
    count_in_uint64[1, 32](dest, source, ivars, counts, out)
    assert (show(dest)[:3] == 1).all()
    assert show(out)[0] == 1


@cuda.jit
def put_with_stride(dest, source, stride, nelems):
    shmem.iput(dest, source, stride, 1, nelems, 0)


@cuda.jit
def blocks_with_stride(dest, source, stride, nelems):
    shmem.alltoalls_work_group(shmem.TEAM_WORLD, dest, source, stride, 1, nelems)


@pytest.mark.parametrize("kernel", [put_with_stride, blocks_with_stride])
@pytest.mark.parametrize("stride", [2**61, 2**62, 2**62 + 1, 2**63 - 1])
def test_strides_whose_products_overflow_are_faults(job, place, show, kernel, stride):
    """(nelems - 1) * stride + 1 is 1 modulo 2^64 for some of these, which any array holds."""
    dest, source = place(np.zeros(64, np.int32)), place(np.ones(64, np.int32))
    assert "nelems" in fault(kernel, (1, 1), dest, source, stride, 9)
    assert (show(dest) == 0).all()


@cuda.jit
def wait_wrongly(word, cmp):
    shmem.wait_until(word, cmp, 1)


@cuda.jit
def look_wrongly(word, cmp):
    shmem.test(word, cmp, 1)


@cuda.jit
def wait_for_all_wrongly(word, cmp):
    shmem.wait_until_all(word, 1, None, cmp, 1)


@cuda.jit
def look_for_any_wrongly(word, cmp):
    shmem.test_any(word, 1, None, cmp, 1)


@cuda.jit
def signal_wrongly(word, op):
    shmem.signal_op(word, 1, op, 0)


@cuda.jit
def put_signal_wrongly(word, op):
    shmem.put_signal(word[1:], word[:1], word, 1, op, 0)


@pytest.mark.parametrize(
    "kernel", [wait_wrongly, look_wrongly, wait_for_all_wrongly, look_for_any_wrongly]
)
@pytest.mark.parametrize("cmp", [0, 7, -1])
def test_a_wrong_comparison_is_a_fault(job, place, kernel, cmp):
    message = fault(kernel, (1, 1), place(np.zeros(2, np.int64)), cmp)
    assert f"cmp is {cmp}, not one of CMP_EQ (1) to CMP_LE (6)" in message


@pytest.mark.parametrize("kernel", [signal_wrongly, put_signal_wrongly])
@pytest.mark.parametrize("op", [2, -1])
def test_a_wrong_signal_operation_is_a_fault(job, place, show, kernel, op):
    word = place(np.zeros(2, np.uint64))
    assert f"sig_op is {op}, neither SIGNAL_SET (0) nor SIGNAL_ADD (1)" in fault(
        kernel, (1, 1), word, op
    )
    assert (show(word) == 0).all()


@cuda.jit
def each_thread_puts(dest, source, back, nelems, pe):
    begin = cuda.threadIdx.x * nelems
    shmem.put(dest[begin : begin + nelems], source[begin : begin + nelems], pe)
    shmem.get(back[begin : begin + nelems], source[begin : begin + nelems], pe)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5, 6, 7, 8])
def test_threads_of_odd_blocks_move_many_bytes(job, place, show, threads):
    nelems = 4096  # several times what a thread moves at a time
    values = np.arange(threads * nelems, dtype=np.int32)
    dest, source, back = place(np.zeros_like(values)), place(values), place(np.zeros_like(values))
    each_thread_puts[1, threads](dest, source, back, nelems, (job.my_pe + 1) % job.n_pes)
    assert (show(dest) == values).all()
    assert (show(back) == values).all()


@cuda.jit
def put_a_constant(dest, sig, pe):
    shmem.put_signal_work_group(dest, TABLE, sig, 1, shmem.SIGNAL_SET, pe)


def test_a_put_from_constant_memory(job, place, show):
    dest, sig = place(np.zeros(300, np.int32)), place(np.zeros(1, np.uint64))
    put_a_constant[1, 64](dest, sig, (job.my_pe + 1) % job.n_pes)
    assert (show(dest) == TABLE).all()
    assert show(sig)[0] == 1


@cuda.jit
def fail_and_ask(dest, source, pe):
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x == 0:
        shmem.put(dest, source, 99)
    cuda.syncthreads()
    shmem.get(dest, source, pe)


def test_a_fault_does_not_cut_other_requests_short(job, place, show, p2p):
    dest, source = place(np.zeros(1 << 16, np.int32)), place(np.ones(1 << 16, np.int32))
    assert "pe 99" in fault(fail_and_ask, (1, 1), dest, source, (job.my_pe + 1) % job.n_pes)
    assert (pyshmem.to_numpy(dest) == 1).all()
    pyshmem.barrier_all()


def test_arrays_whose_bytes_do_not_tell_their_values_are_no_arguments(job, place):
    """Masked ones, for kernels as for the host; tensors of torch with a bit that turns the sign."""
    if job.device == "cuda":
        pytest.skip("only NumPy's arrays are masked")
    dest = place(np.zeros(4, np.int32))
    masked = np.ma.masked_array(dest, mask=True)
    for give in (shmem.as_argument, lambda array: put_with_stride[1, 1](array, dest, 1, 1)):
        with pytest.raises(TypeError, match="masked array"):
            give(masked)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="negative bit"):
        shmem.as_argument(torch._neg_view(torch.ones(4)))


def test_prepare_takes_arguments_and_signatures(job, place):
    dest = place(np.zeros(4, np.int32))
    shmem.prepare(put_with_stride, dest, dest, 1, 4)
    if job.device == "cuda":
        shmem.prepare(put_with_stride, "void(int32[::1], int32[::1], int64, int64)")
    with pytest.raises(TypeError, match="not a function under"):
        shmem.prepare(len, dest)


def whole_of(routine):
    """Names of its parameters that are whole numbers."""
    return [n for n in inspect.signature(ROUTINES[routine]).parameters if n in WHOLE_NUMBERS]


FRACTIONS = [1.5, np.float32(1), "1", 1j, np.timedelta64(1, "ns")]
WHOLE = [np.int16(1), np.uint64(1), True, np.bool_(True)]


@pytest.mark.skipif(CPU or not SIM, reason="what is compiled: tests/unit/test_whole_numbers.py")
@pytest.mark.parametrize("routine", [name for name in sorted(ROUTINES) if whole_of(name)])
def test_a_fraction_in_place_of_a_whole_number_is_refused(job, routine):
    """By every routine, for each of its numbers, before anything else is looked at."""
    names, wrong = list(inspect.signature(ROUTINES[routine]).parameters), []
    others = {name: 0 if name in WHOLE_NUMBERS else None for name in names}

    def look():  # Python's own: a kernel catches nothing
        for name in whole_of(routine):
            for value in FRACTIONS:
                try:
                    ROUTINES[routine](**{**others, name: value})
                except TypeError as error:
                    if f"{routine}: {name} is a whole number, not" not in str(error):
                        wrong.append((name, value, str(error)))
                else:
                    wrong.append((name, value, ""))

    python = SimpleNamespace(look=look)

    def kernel():
        python.look()

    cuda.jit(kernel)[1, 1]()
    cuda.synchronize()
    assert not wrong


ARRAYS = {
    "source", "dest", "fetch", "sig_addr", "ivar", "ivars", "cmp_values", "pes", "lock", "indices",
}  # fmt: skip


@pytest.mark.skipif(CPU or not SIM, reason="a GPU's compiler knows no such routine of a number")
@pytest.mark.parametrize("routine", sorted(ROUTINES))
def test_what_is_no_array_is_refused_in_place_of_one(job, place, routine):
    """By name, by every routine, for each of its arrays; None, too, and None in place of a number."""
    names = {
        name: parameter
        for name, parameter in inspect.signature(ROUTINES[routine]).parameters.items()
        if parameter.default is parameter.empty
    }
    array, wrong = place(np.zeros(2, np.uint64)), []

    def look(array):  # Python's own, as above
        right = {name: array if name in ARRAYS else 0 for name in names}
        for name in names:
            values = [None, 5, "x"] if name in ARRAYS else [None] if name in WHOLE_NUMBERS else []
            for value in values:
                try:
                    ROUTINES[routine](**{**right, name: value})
                except TypeError as error:
                    if not str(error).startswith(f"{routine}: {name}"):
                        wrong.append((name, value, str(error)))
                else:
                    wrong.append((name, value, ""))

    python = SimpleNamespace(look=look)

    def kernel(array):
        python.look(array)

    cuda.jit(kernel)[1, 1](array)
    cuda.synchronize()
    assert not wrong


@pytest.mark.skipif(CPU or not SIM, reason="compiled for each kind of integer: minutes")
def test_all_kinds_of_integers_are_whole_numbers(job, place, show):
    dest, source = place(np.zeros(2, np.int32)), place(np.full(2, 7, np.int32))

    python = SimpleNamespace(numbers=WHOLE)  # a compiler would unroll no list

    def kernel(dest, source):
        for one in python.numbers:
            shmem.put(dest, source, shmem.my_pe(), one)
            shmem.broadcast(one - one if type(one) is not np.bool_ else 0, dest, source, one, 0)

    cuda.jit(kernel)[1, 1](dest, source)
    cuda.synchronize()
    assert show(dest)[0] == 7


@cuda.jit
def wait_swapped(dest, source, sig, ivar):
    shmem.signal_wait_until(sig, 0, shmem.CMP_GE)


@cuda.jit
def wait_by_a_signal_operation(dest, source, sig, ivar):
    shmem.wait_until_work_group(ivar, shmem.SIGNAL_ADD, 0)


@cuda.jit
def wait_by_another_enumeration(dest, source, sig, ivar):
    shmem.signal_wait_until(sig, OTHERS.CMP_EQ, 0)


@cuda.jit
def wait_for_all_swapped(dest, source, sig, ivar):
    shmem.wait_until_all(ivar, 1, None, 1, shmem.CMP_EQ)


@cuda.jit
def signal_swapped(dest, source, sig, ivar):
    shmem.put_signal_work_group(dest, source, sig, shmem.SIGNAL_SET, 1, 0)


@cuda.jit
def pe_swapped(dest, source, sig, ivar):
    shmem.signal_op(sig, 1, 0, pyshmem.SIGNAL_ADD)


@cuda.jit
def without_a_team(dest, source, sig, ivar):
    shmem.sum_reduce_work_group(dest, source, 1, 1)


OTHERS = enum.IntEnum("OTHERS", {"CMP_EQ": 1})
SWAPPED = {
    wait_swapped: "cmp_value is .*CMP_GE.* belongs to cmp: the comparison comes before the value",
    wait_by_a_signal_operation: "cmp is .*SIGNAL_ADD, which belongs to sig_op",
    wait_by_another_enumeration: "cmp is .*, which is none of CMP_EQ",
    wait_for_all_swapped: "cmp_value is .*CMP_EQ.* belongs to cmp",
    signal_swapped: "signal is .*SIGNAL_SET.* belongs to sig_op: the value comes first",
    pe_swapped: "pe is .*SIGNAL_ADD.* belongs to sig_op",
    without_a_team: r"team is a whole number, not (an )?array.*; a team is TEAM_WORLD.*\(team, dest",
}


@pytest.mark.parametrize("kernel", SWAPPED)
def test_arguments_that_are_swapped_are_told(job, place, kernel):
    """By their class, before the kernel does anything: where it is compiled, or at the call."""
    words = [place(np.zeros(1, dtype)) for dtype in (np.int64, np.int64, np.uint64, np.int64)]
    with pytest.raises((TypeError, errors.TypingError), match=f"(?s){SWAPPED[kernel]}"):
        kernel[1, 1](*words)
    pyshmem.barrier_all()


@cuda.jit
def choose_by_arguments(sig, out, cmp, sig_op):
    shmem.signal_op(sig, 4, sig_op, shmem.my_pe())
    shmem.quiet()
    out[0] = shmem.signal_wait_until(sig, cmp, 3)
    out[1] = shmem.CMP_LE + (1 if cmp == shmem.CMP_GT else 0)


@pytest.mark.parametrize("number", [int, np.int32, lambda one: one], ids=["int", "int32", "enum"])
def test_comparisons_and_signal_operations_are_arguments_of_kernels(job, place, show, number):
    sig, out = place(np.zeros(1, np.uint64)), place(np.zeros(2, np.int64))
    cmp, sig_op = number(pyshmem.CMP_GT), number(pyshmem.SIGNAL_ADD)
    choose_by_arguments[1, 1](sig, out, cmp, sig_op)
    cuda.synchronize()
    assert show(out).tolist() == [4, 7]
