# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in a job of several PEs: told by the PE that makes them, with the value and the way out."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

import pyshmem

#: Calls that reach another PE; ``a`` and ``b`` are symmetric int64 arrays, ``s`` is a signal word.
REMOTE = {
    "put": lambda a, b, s, pe: pyshmem.put(a, b, pe),
    "get": lambda a, b, s, pe: pyshmem.get(a, b, pe),
    "put_nbi": lambda a, b, s, pe: pyshmem.put_nbi(a, b, pe),
    "get_nbi": lambda a, b, s, pe: pyshmem.get_nbi(a, b, pe),
    "p": lambda a, b, s, pe: pyshmem.p(a, 1, pe),
    "g": lambda a, b, s, pe: pyshmem.g(a, pe),
    "put_signal": lambda a, b, s, pe: pyshmem.put_signal(a, b, s, 1, pyshmem.SIGNAL_SET, pe),
    "put_signal_nbi": lambda a, b, s, pe: pyshmem.put_signal_nbi(
        a, b, s, 1, pyshmem.SIGNAL_ADD, pe
    ),
    "signal_set": lambda a, b, s, pe: pyshmem.signal_set(s, 1, pe),
    "signal_add": lambda a, b, s, pe: pyshmem.signal_add(s, 1, pe),
    "atomic_fetch": lambda a, b, s, pe: pyshmem.atomic_fetch(a, pe),
    "atomic_set": lambda a, b, s, pe: pyshmem.atomic_set(a, 1, pe),
    "atomic_swap": lambda a, b, s, pe: pyshmem.atomic_swap(a, 1, pe),
    "atomic_compare_swap": lambda a, b, s, pe: pyshmem.atomic_compare_swap(a, 0, 1, pe),
    "atomic_inc": lambda a, b, s, pe: pyshmem.atomic_inc(a, pe),
    "atomic_fetch_inc": lambda a, b, s, pe: pyshmem.atomic_fetch_inc(a, pe),
    "atomic_add": lambda a, b, s, pe: pyshmem.atomic_add(a, 1, pe),
    "atomic_fetch_xor": lambda a, b, s, pe: pyshmem.atomic_fetch_xor(a, 1, pe),
    "ptr": lambda a, b, s, pe: pyshmem.ptr(a, pe),
}
#: Calls that write from ``source`` into ``dest``, either of which may be wrong.
COPIES = {
    "put": lambda dest, source, **kw: pyshmem.put(dest, source, 0, **kw),
    "put_nbi": lambda dest, source, **kw: pyshmem.put_nbi(dest, source, 0, **kw),
    "get": lambda dest, source, **kw: pyshmem.get(dest, source, 0, **kw),
    "get_nbi": lambda dest, source, **kw: pyshmem.get_nbi(dest, source, 0, **kw),
    "put_signal": lambda dest, source, **kw: pyshmem.put_signal(
        dest, source, pyshmem.new_signal(), 1, pyshmem.SIGNAL_SET, 0, **kw
    ),
    "broadcast": lambda dest, source, **kw: pyshmem.broadcast(dest, source, 0, **kw),
    "fcollect": lambda dest, source, **kw: pyshmem.fcollect(dest, source, **kw),
    "sum_reduce": lambda dest, source, **kw: pyshmem.sum_reduce(dest, source, **kw),
}


@pytest.mark.parametrize("routine", REMOTE)
def test_a_pe_outside_the_team(job, heap, routine):
    a, b = pyshmem.full(4, 7, np.int64, heap=heap), pyshmem.full(4, 8, np.int64, heap=heap)
    signal = pyshmem.new_signal(heap=heap)
    for pe in (-1, job.n_pes, 2**31 - 1):
        team = f"pe {pe} is outside the team of {job.n_pes} PE"
        with pytest.raises(ValueError, match=f"{team}.*" + re.escape(f"(0..{job.n_pes - 1})")):
            REMOTE[routine](a, b, signal, pe)
    with pytest.raises(ValueError, match=f"pe {2**40} is outside the job"):
        REMOTE[routine](a, b, signal, 2**40)
    for wrong, told in (("1", "'1' (str)"), (1.0, "1.0 (float)"), (None, "None (NoneType)")):
        with pytest.raises(TypeError, match=re.escape(f"pe is {told}, not an integer")):
            REMOTE[routine](a, b, signal, wrong)
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(a).tolist() == [7] * 4
    assert pyshmem.to_numpy(b).tolist() == [8] * 4
    assert pyshmem.signal_fetch(signal) == 0


@pytest.mark.parametrize("routine", COPIES)
def test_arrays_that_do_not_fit_the_routine(job, heap, routine):
    call, gets = COPIES[routine], routine in ("get", "get_nbi")
    n = 4 if gets else 4 * job.n_pes
    good, dest = pyshmem.zeros(4, heap=heap), pyshmem.full(n, 7.0, heap=heap)
    symmetric_source = gets or routine in ("broadcast", "fcollect", "sum_reduce")
    wide = pyshmem.zeros((4, 2), heap=heap)
    bad = [
        (dest, wide[:, 0], {"nelems": 1}, ValueError, "source is not C-contiguous"),
        (wide[:, 0], good, {"nelems": 1}, ValueError, "dest is not C-contiguous"),
        (dest.view(np.int64), good, {}, TypeError, "dtype float64.*dtype int64|int64.*float64"),
        (dest, good, {"nelems": 5}, ValueError, "nelems is 5"),
        (dest, good, {"nelems": -1}, ValueError, "nelems is -1"),
        (dest, good, {"nelems": 2**62}, ValueError, f"nelems is {2**62}"),
        (dest, good, {"nelems": 1.0}, TypeError, "float"),
        (dest, good[:3], {}, ValueError, "dest has 4 elements, but source has 3")
        if gets
        else (dest[:3], good, {}, ValueError, "source has 4 elements.*dest.* 3"),
        (dest, [0.0] * 4, {}, TypeError, "source is a list"),
        (None, good, {}, TypeError, "dest is None, not an array"),
    ]
    if symmetric_source:
        bad.append((dest, np.zeros(4), {}, ValueError, "source .*not on a symmetric heap"))
    if not gets:
        bad.append((np.zeros(n), good, {}, ValueError, "dest .*not on a symmetric heap"))
    for wrong_dest, source, keywords, error, message in bad:
        with pytest.raises(error, match=message):
            call(wrong_dest, source, **keywords)
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(dest).tolist() == [7.0] * n


def test_read_only_arrays_are_not_written(job):
    source, frozen = pyshmem.zeros(4), np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="dest is read-only"):
        pyshmem.get(frozen, source, 0)
    symmetric = pyshmem.zeros(4)
    view = symmetric[:]
    view.flags.writeable = False
    with pytest.raises(ValueError, match="dest is read-only"):
        pyshmem.broadcast(view, source, 0)


def test_arrays_of_the_other_kind_of_memory(job):
    if job.device == "none":
        with pytest.raises(pyshmem.UnsupportedError, match="PYSHMEM_DEVICE=sim"):
            pyshmem.zeros(3, heap="device")
    with pytest.raises(ValueError, match="'gpu'; the heaps are 'host' and 'device'"):
        pyshmem.zeros(3, heap="gpu")
    with pytest.raises(ValueError, match="'gpu'"):
        pyshmem.heap_info("gpu")


def test_shapes_and_dtypes_that_cannot_be(heap):
    gc.collect()  # what earlier tests left in cycles is dropped now, and not behind the first look
    before = pyshmem.heap_info(heap)
    for shape, dtype, error, message in (
        (-1, float, ValueError, "negative"),
        ((2, -3), float, ValueError, "negative"),
        (1.5, float, TypeError, r"shape is 1.5 \(float\), not an integer"),
        ((2, "1"), float, TypeError, r"an extent of shape \(2, '1'\) is '1' \(str\)"),
        (None, float, TypeError, "shape is None"),
        (3, object, TypeError, "Python objects"),
        (3, "S0", TypeError, "no size"),
        (3, "float7", TypeError, "float7"),
    ):
        with pytest.raises(error, match=message):
            pyshmem.empty(shape, dtype, heap=heap)
    with pytest.raises(pyshmem.HeapExhausted, match=f"float64 has {2**65} bytes; no heap has"):
        pyshmem.empty(2**62, np.float64, heap=heap)
    assert pyshmem.heap_info(heap) == before


def test_freeing_what_is_no_allocation(heap):
    array = pyshmem.zeros(8, heap=heap)
    for wrong in (array[2:], array[:], array.reshape(2, 4)):
        with pytest.raises(ValueError, match="free"):
            pyshmem.free(wrong)
    with pytest.raises(ValueError, match="symmetric heap"):
        pyshmem.free(np.zeros(3))
    with pytest.raises(TypeError):
        pyshmem.free(None)
    pyshmem.free(array)


def test_a_second_init_must_not_ask_for_another_device(job):
    other = "none" if job.device != "none" else "sim"
    with pytest.raises(ValueError, match=f"'{other}'.*'{job.device}'"):
        pyshmem.init(device=other)
    assert pyshmem.init() is job
    pyshmem.finalize()
    assert pyshmem.initialized()


@pytest.mark.parametrize("team", [None, "world"])
def test_what_is_no_team_is_told(job, team):
    a, b = pyshmem.zeros(job.n_pes), pyshmem.zeros(job.n_pes**2)
    why = "this PE is no member" if team is None else "team is of type str"
    for call in (
        lambda: pyshmem.sum_reduce(a, a, team=team),
        lambda: pyshmem.sum_reduce_scatter(a, b, team=team),
        lambda: pyshmem.sum_inscan(a, a, team=team),
        lambda: pyshmem.broadcast(a, a, 0, team=team),
        lambda: pyshmem.collect(b, a, team=team),
        lambda: pyshmem.fcollect(b, a, team=team),
        lambda: pyshmem.alltoall(a, a, team=team),
        lambda: pyshmem.alltoalls(a, a, team=team),
        lambda: pyshmem.sum_reduce_nb(a, a, team=team),
        lambda: pyshmem.sync_nb(team),
        lambda: pyshmem.barrier_nb(team),
    ):
        with pytest.raises(TypeError, match=why):
            call()


#: Calls with one argument that is wrong, and how the error begins.
WRONG = {
    "iput dst": (lambda a: pyshmem.iput(a, a, 0, dst="2"), "dst is '2' (str)"),
    "iget sst": (lambda a: pyshmem.iget(a, a, 0, sst=2.0, nelems=1), "sst is 2.0 (float)"),
    "ibput bsize": (lambda a: pyshmem.ibput(a, a, 0, bsize="1", dst=1, sst=1), "bsize is '1' (str)"),
    "alltoalls dst": (lambda a: pyshmem.alltoalls(a, a, dst="1", sst=1, nelems=1), "dst is '1' (str)"),
    "alltoall nelems": (lambda a: pyshmem.alltoall(a, a, nelems="1"), "nelems is '1' (str)"),
    "broadcast root": (lambda a: pyshmem.broadcast(a, a, None), "root is None (NoneType)"),
    "broadcast_nb root": (lambda a: pyshmem.broadcast_nb(a, a, "0"), "root is '0' (str)"),
    "wait nelems": (
        lambda a: pyshmem.wait_until_all(a, pyshmem.CMP_EQ, 0, nelems="2"), "nelems is '2' (str)",
    ),
    "wait values": (
        lambda a: pyshmem.wait_until_some_vector(a, pyshmem.CMP_EQ, None),
        "an element of cmp_values is None (NoneType)",
    ),
    "pe_accessible": (lambda a: pyshmem.pe_accessible("0"), "pe is '0' (str)"),
    "addr_accessible": (lambda a: pyshmem.addr_accessible(a, None), "pe is None (NoneType)"),
    "pe_quiet": (lambda a: pyshmem.pe_quiet(["0"]), "pe is '0' (str)"),
    "pes": (lambda a: pyshmem.pe_quiet(3), "pes is 3 (int)"),
    "align": (lambda a: pyshmem.empty(3, align="8"), "align is '8' (str)"),
    "hints": (lambda a: pyshmem.empty(3, hints="x"), "hints is 'x' (str)"),
    "realloc": (lambda a: pyshmem.realloc(None, 2), "array is None, not an array"),
    "options": (lambda a: pyshmem.Context("x"), "options is 'x' (str)"),
    "context's team": (lambda a: pyshmem.Context(team=3), "team is of type int"),
    "total_ops": (
        lambda a: pyshmem.CTX_DEFAULT.session_start(total_ops="x"), "total_ops is 'x' (str)",
    ),
    "float": (lambda a: pyshmem.atomic_set(pyshmem.zeros(1), "x", 0), "value is 'x' (str)"),
    "cutover": (lambda a: pyshmem.cutover.set("put", None), "a size is None (NoneType)"),
    "threads": (lambda a: pyshmem.cutover.get("put", threads="x"), "threads is 'x' (str)"),
    "global_exit": (lambda a: pyshmem.global_exit("x"), "status is 'x' (str)"),
    "a scalar to write": (lambda a: pyshmem.get(np.int64(3), a, 0), "dest is a scalar of int64"),
    "a scalar to read": (lambda a: pyshmem.put(a, a[0], 0), "source is a scalar of int64, not an"),
    "prototype": (lambda a: pyshmem.zeros_like(3), "prototype is 3 (int), not an array"),
    "ptr's team": (lambda a: pyshmem.ptr(a, 0, team=3), "team is of type int, not a Team"),
    "hook": (lambda a: pyshmem.profiling.start(3), "a hook is 3 (int)"),
    "abort": (lambda a: pyshmem.abort("x"), "code is 'x' (str)"),
    "device": (lambda a: pyshmem.choose_device(["sim"]), "device is ['sim'] (list)"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_the_argument_of_a_wrong_type_is_named(job, what):
    call, told = WRONG[what]
    with pytest.raises(TypeError, match=re.escape(told)):
        call(pyshmem.zeros(8, np.int64))


#: The same with ``stream=``, or a stream that is none: call and error.
ON_STREAMS = {
    "all's cmp": (
        lambda a, s: pyshmem.wait_until_all(a, "x", 0, stream=s), TypeError, "cmp is 'x' (str)",
    ),
    "any's cmp": (
        lambda a, s: pyshmem.wait_until_any(a, 2**40, 0, stream=s, found=a),
        OverflowError, f"cmp is {2**40}, which is outside int32",
    ),
    "cond": (
        lambda a, s: pyshmem.atomic_compare_swap_nbi(a, a, "x", 0, 0, stream=s),
        TypeError, "cond is 'x' (str)",
    ),
    "below": (
        lambda a, s: pyshmem.put(a, a, 0, stream=-1), ValueError, "stream is -1, which is no handle",
    ),
    "above": (
        lambda a, s: pyshmem.quiet(stream=2**64), ValueError, f"stream is {2**64}, which is no handle",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ON_STREAMS)
def test_the_argument_that_a_stream_s_call_cannot_take_is_named(job, what):
    if job.device == "none":
        pytest.skip("the job has no device heap")
    call, error, told = ON_STREAMS[what]
    array, stream = pyshmem.zeros(2, np.int64, heap="device"), pyshmem.streams.Stream()
    with pytest.raises(error, match=re.escape(told)):
        call(array, stream)
    stream.destroy()


def test_a_value_outside_a_float_is_told(job):
    array, fetched = pyshmem.zeros(1, np.float32), np.zeros(1, np.float32)
    calls = (
        lambda value: pyshmem.atomic_fetch_add_nbi(fetched, array, value, 0),
        lambda value: pyshmem.atomic_fetch_add(array, value, 0),
        lambda value: pyshmem.atomic_set(array, value, 0),
        lambda value: pyshmem.atomic_swap(array, value, 0),
        lambda value: pyshmem.p(array, value, 0),
    )
    for call in calls:
        for value in (1e300, np.float64(1e300), -(10**300)):
            with pytest.raises(OverflowError, match=r"value -?1e\+300 is outside float32"):
                call(value)
    assert pyshmem.g(array, 0) == 0


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (">f4", 1e300, OverflowError),
        ("f2", 1e6, OverflowError),
        (">i2", 1 << 15, OverflowError),
        (">i2", 1.5, TypeError),
    ],
)
def test_p_refuses_what_a_dtype_of_bytes_cannot_hold(job, dtype, value, error):
    array = pyshmem.zeros(1, dtype)
    with pytest.raises(error):
        pyshmem.p(array, value, 0)
    assert array[0] == 0


def test_more_elements_than_there_are_numbers_for(job):
    a = pyshmem.zeros(8, np.int64)
    for call in (pyshmem.collect, pyshmem.alltoall, pyshmem.sum_reduce):
        with pytest.raises(ValueError, match=r"but (\w+ )?has"):
            call(a, a, nelems=2**70)
    with pytest.raises(OverflowError, match=f"dst is {2**70}, which is outside int64"):
        pyshmem.iput(a, a, 0, dst=2**70, nelems=1)


def test_a_row_of_another_shape_is_told(job):
    with pytest.raises(
        ValueError, match=r"rows of reduce: .*a row is \(size, algorithm, blocks, thr"
    ):
        pyshmem.cutover.set_stream_rows("reduce", [("x",)])


def test_a_size_that_cannot_be_is_told(job):
    with pytest.raises(ValueError, match="a size is -1 bytes; give 0 to"):
        pyshmem.cutover.set("put", -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_a_text_is_no_value(job, dtype):
    box = pyshmem.zeros(1, dtype)
    for text in ("3", b"3"):
        with pytest.raises(
            TypeError, match=rf"value is {text!r} \((str|bytes)\); the array's dtype"
        ):
            pyshmem.p(box, text, job.my_pe)
        with pytest.raises(
            TypeError, match=rf"value is {text!r} \((str|bytes)\); the array's dtype"
        ):
            pyshmem.atomic_set(box, text, job.my_pe)
    assert box[0] == 0


@pytest.mark.parametrize("dtype", [np.float32, "bfloat16", np.int64, np.bool_, ">f4", "S3"])
def test_complex_values_are_none_of_a_real_array(job, dtype):
    """NumPy drops the imaginary part, with a warning."""
    for value in (np.complex64(1 + 2j), 1 + 0j, np.array([1 + 2j, 3])):
        for make in (
            lambda v=value: pyshmem.full(2, v, dtype),
            lambda v=value: pyshmem.array(v, dtype),
        ):
            with pytest.raises(TypeError, match=r"complex, and dtype .* has no imaginary part"):
                make()
    assert pyshmem.full(2, 1 + 2j).dtype == np.complex128


def test_steps_of_0_and_one_pe_in_the_place_of_several(job):
    for make in (lambda: pyshmem.arange(0, 4, 0), lambda: pyshmem.arange(0, 4, np.int64(0))):
        with pytest.raises(ValueError, match="step is 0"):
            make()
    last = job.n_pes - 1
    with pytest.raises(TypeError, match=rf"give several PEs, as \[{last}\]"):
        pyshmem.pe_quiet(last)
