# SPDX-License-Identifier: BSD-3-Clause
"""Host routines in the order of a stream: copies, signals, atomics and waits; graphs of them; few bytes.

The stream is a GPU's or the simulator's. Data is looked at when the stream is done.
"""

from __future__ import annotations

import operator
import os
import re
import threading

import numpy as np
import pytest
import reference

import pyshmem
from pyshmem._core.contract import STREAM_KEY
from pyshmem._core.library import lib
from pyshmem.host.kernels import stream_kernels


@pytest.fixture
def seen(stream):
    """The elements of an array when everybody's work on ``stream`` is done."""

    def contents(array):
        stream.synchronize()
        pyshmem.barrier_all()
        values = pyshmem.to_numpy(array).copy()
        pyshmem.barrier_all()  # only then may others go on
        return values

    return contents


# ---- put and get -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex128"])
@pytest.mark.parametrize("count", [1, 7, 4096, 100_001])
def test_put_and_get(job, right, left, stream, on_gpu, seen, dtype, count):
    mine = (np.arange(count) % 50 + job.my_pe).astype(dtype)
    source, dest, back = on_gpu(mine), on_gpu(np.zeros_like(mine)), on_gpu(np.zeros_like(mine))
    pyshmem.barrier_all()
    pyshmem.put(dest, source, right, stream=stream)
    pyshmem.get(back, dest, right, stream=stream)
    theirs = (np.arange(count) % 50 + left).astype(dtype)
    np.testing.assert_array_equal(seen(dest), theirs)
    np.testing.assert_array_equal(seen(back), mine)


def test_nbi_forms_are_the_same_on_a_stream(job, right, left, stream, on_gpu, seen):
    source, dest, back = on_gpu([job.my_pe] * 3), on_gpu([-1] * 3), on_gpu([-1] * 3)
    pyshmem.barrier_all()
    pyshmem.put_nbi(dest, source, right, nelems=2, stream=stream)
    pyshmem.get_nbi(back, dest, right, stream=stream)
    assert seen(dest).tolist() == [left, left, -1]
    assert seen(back).tolist() == [job.my_pe, job.my_pe, -1]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -3),
        ("uint16", 40_000),
        ("float32", 1.5),
        ("int64", -(2**62)),
        ("complex128", 1 + 2j),
    ],
)
def test_p_stores_one_element_of_each_width(job, right, stream, on_gpu, seen, dtype, value):
    dest = on_gpu(np.zeros(3, dtype))
    pyshmem.barrier_all()
    pyshmem.p(dest[1:2], value, right, stream=stream)
    assert seen(dest).tolist() == [0, value, 0]


def test_strided_forms(job, right, left, stream, on_gpu, seen):
    source, dest, back = (
        on_gpu(np.arange(12) + 100 * job.my_pe),
        on_gpu([-1] * 12),
        on_gpu([-1] * 12),
    )
    pyshmem.barrier_all()
    pyshmem.iput(dest, source, right, dst=3, sst=2, nelems=4, stream=stream)
    pyshmem.iget(back, dest, right, dst=1, sst=3, nelems=4, stream=stream)
    theirs = np.arange(12) + 100 * left
    assert seen(dest)[::3].tolist() == theirs[:8:2].tolist()
    assert seen(back)[:4].tolist() == (np.arange(12) + 100 * job.my_pe)[:8:2].tolist()
    pyshmem.ibput(dest, source, right, bsize=2, dst=4, sst=3, nblocks=3, stream=stream)
    blocks = np.concatenate([theirs[at : at + 2] for at in (0, 3, 6)])
    assert seen(dest).reshape(3, 4)[:, :2].ravel().tolist() == blocks.tolist()


# ---- atomics, signals, waits -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float64"])
def test_atomics_add_on_everybody_s_streams(job, stream, on_gpu, seen, dtype):
    total = on_gpu(np.zeros(1, dtype))
    pyshmem.barrier_all()
    for _ in range(10):
        pyshmem.atomic_add(total, 2, 0, stream=stream)
    values = seen(total)
    if job.my_pe == 0:
        assert values.tolist() == [20 * job.n_pes]


def test_atomics_fetch_into_an_array_of_the_gpu(job, right, stream, on_gpu, seen):
    word, old = on_gpu(np.array([5, 6], np.int32)), on_gpu(np.full(6, -1, np.int32))
    pyshmem.barrier_all()
    pyshmem.atomic_fetch_nbi(old[0:1], word, right, stream=stream)
    pyshmem.atomic_swap_nbi(old[1:2], word, 9, right, stream=stream)
    pyshmem.atomic_compare_swap_nbi(old[2:3], word, 9, 12, right, stream=stream)
    pyshmem.atomic_fetch_xor_nbi(old[3:4], word, 1, right, stream=stream)
    pyshmem.atomic_set(word[1:2], -7, right, stream=stream)
    pyshmem.atomic_fetch_inc_nbi(old[4:5], word[1:2], right, stream=stream)
    assert seen(old).tolist() == [5, 5, 9, 12, -7, -1]
    assert seen(word).tolist() == [13, -6]


@pytest.mark.parametrize("sig_op", [pyshmem.SIGNAL_SET, pyshmem.SIGNAL_ADD])
def test_a_stream_waits_for_the_signal_of_another_s_put(
    job, right, left, stream, on_gpu, seen, sig_op
):
    source, dest, copy = on_gpu(np.arange(1000) + job.my_pe), on_gpu([0] * 1000), on_gpu([0] * 1000)
    signal = pyshmem.new_signal(heap="device")
    pyshmem.barrier_all()
    pyshmem.signal_wait_until(signal, pyshmem.CMP_GE, 1, stream=stream)
    pyshmem.put(copy, dest, job.my_pe, stream=stream)
    other = pyshmem.streams.Stream()
    pyshmem.put_signal(dest, source, signal, 1, sig_op, right, stream=other)
    np.testing.assert_array_equal(seen(copy), np.arange(1000) + left)
    other.destroy()


@pytest.mark.parametrize(
    ("cmp", "against"),
    [
        (pyshmem.CMP_EQ, 4), (pyshmem.CMP_NE, 0), (pyshmem.CMP_GT, 3), (pyshmem.CMP_GE, 4),
        (pyshmem.CMP_LT, 5), (pyshmem.CMP_LE, 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_waits_of_every_comparison(job, right, stream, on_gpu, cmp, against, dtype):
    start = 0 if cmp not in (pyshmem.CMP_LT, pyshmem.CMP_LE) else 9
    word = on_gpu(np.full(1, start, dtype))
    pyshmem.barrier_all()
    pyshmem.streams.prepare("wait_until", dtype=dtype)
    pyshmem.wait_until(word, cmp, against, stream=stream)
    assert not stream.query()
    pyshmem.barrier_all()
    pyshmem.atomic_set(word, 4, right)
    stream.synchronize()
    pyshmem.barrier_all()


def test_a_wait_compares_with_the_sign_of_the_dtype(job, right, stream, on_gpu):
    word = on_gpu(np.array([2**31], np.uint32))
    pyshmem.wait_until(word, pyshmem.CMP_GE, 2**31, stream=stream)
    pyshmem.wait_until(word, pyshmem.CMP_GT, 1, stream=stream)
    negative = on_gpu(np.array([-5], np.int64))
    pyshmem.wait_until(negative, pyshmem.CMP_LT, -4, stream=stream)
    stream.synchronize()


def test_waits_for_several_words(job, right, stream, on_gpu, seen):
    words, one = on_gpu(np.zeros(6, np.int32)), on_gpu(np.full(1, -9, np.int64))
    some, count = on_gpu(np.full(6, -9, np.int64)), on_gpu(np.full(1, -9, np.int64))
    # A GPU loads no kernel while one waits for what this PE does next.
    pyshmem.streams.prepare("wait_until_any", "wait_until_some", "wait_until_all", dtype=np.int32)
    pyshmem.barrier_all()
    pyshmem.wait_until_any(words, pyshmem.CMP_EQ, 3, stream=stream, found=one)
    pyshmem.wait_until_some(words, pyshmem.CMP_EQ, 3, stream=stream, indices=some, found=count)
    pyshmem.wait_until_all(words, pyshmem.CMP_NE, 0, stream=stream)
    pyshmem.atomic_set(words[4:5], 3, right)
    for at in (0, 1, 2, 3, 5):
        pyshmem.atomic_set(words[at : at + 1], 1, right)
    assert seen(one).tolist() == [4]
    assert seen(count).tolist() == [1]
    assert seen(some)[0] == 4


@pytest.fixture
def signals():
    yield pyshmem.streams.set_signals
    pyshmem.streams.set_signals(None)


@pytest.mark.parametrize("way", ["kernel", "waits", "driver"])
def test_signals_and_waits_by_kernels_and_by_the_driver(
    job, right, stream, on_gpu, seen, signals, way
):
    signals(way)
    pyshmem.streams.prepare("wait_until", dtype=np.int32)
    signal, word = pyshmem.new_signal(heap="device"), on_gpu(np.zeros(1, np.int32))
    pyshmem.barrier_all()
    with stream.capture() as graph:
        pyshmem.signal_set(signal, 2**63 + 5, right, stream=stream)
        pyshmem.signal_wait_until(signal, pyshmem.CMP_EQ, 2**63 + 5, stream=stream)
        pyshmem.p(word, -3, right, stream=stream)
        pyshmem.wait_until(word, pyshmem.CMP_LT, 0, stream=stream)
    for _ in range(2):
        graph.replay(stream)
    assert seen(signal).tolist() == [2**63 + 5]
    with pytest.raises(ValueError, match="PE"):
        pyshmem.signal_set(signal, 1, job.n_pes, stream=stream)
    with pytest.raises(ValueError, match="driver"):
        signals("proxy")


def test_few_bytes_in_turn_with_others(job, stream, on_gpu):
    """In multiples of 4 bytes they have kernels of their own, which share places with the others."""
    n, me = job.n_pes, job.my_pe
    for dtype, count, at in (
        ("float32", 1, 0), ("float32", 3, 1), ("float16", 6, 2), ("uint8", 13, 3), ("int64", 5, 1),
        ("complex128", 1, 1),
    ):  # fmt: skip
        parts = [reference.pattern(at + count * n, dtype, pe)[at:] for pe in range(n)]
        source = on_gpu(np.concatenate([parts[me][:1].repeat(at), parts[me]]))[at:]
        total, share, gathered, turned, sent = (
            on_gpu(np.zeros(at + count * k, dtype))[at:] for k in (1, 1, n, n, 1)
        )
        pyshmem.barrier_all()
        pyshmem.sum_reduce(total, source, nelems=count, stream=stream)
        pyshmem.sum_reduce_scatter(share, source, nelems=count, stream=stream)
        pyshmem.fcollect(gathered, source, nelems=count, stream=stream)
        pyshmem.alltoall(turned, source, nelems=count, stream=stream)
        pyshmem.broadcast(sent, source, n - 1, nelems=count, stream=stream)
        stream.synchronize()
        mine = slice(me * count, (me + 1) * count)
        firsts, blocks = [p[:count] for p in parts], [p[mine] for p in parts]
        assert reference.same(pyshmem.to_numpy(total), reference.reduce("sum", firsts)), (
            dtype,
            count,
        )
        assert reference.same(pyshmem.to_numpy(share), reference.reduce("sum", blocks)), (
            dtype,
            count,
        )
        assert reference.same(pyshmem.to_numpy(gathered), np.concatenate(firsts)), (dtype, count)
        assert reference.same(pyshmem.to_numpy(turned), np.concatenate(blocks)), (dtype, count)
        assert reference.same(pyshmem.to_numpy(sent), parts[n - 1][:count]), (dtype, count)
    key, _, few = stream_kernels._keys("sum_reduce", "float32")
    assert few == key | STREAM_KEY.LEAN
    expected = n > 1 and os.environ.get("PYSHMEM_CHECK") != "1" and not lib.ishmemx_has_far_pes()
    assert bool(lib.ishmemx_kernel_loaded(few)) == expected


# ---- streams and graphs ----------------------------------------------------------------------------


def test_work_comes_in_order_and_beside_the_host(job, right, stream, on_gpu, seen):
    gate, box = pyshmem.new_signal(heap="device"), on_gpu([0])
    pyshmem.barrier_all()
    pyshmem.signal_wait_until(gate, pyshmem.CMP_EQ, 1, stream=stream)
    pyshmem.p(box, 1, right, stream=stream)
    pyshmem.p(box, 2, right, stream=stream)
    assert not stream.query()
    pyshmem.barrier_all()
    assert pyshmem.to_numpy(box)[0] == 0
    pyshmem.barrier_all()
    pyshmem.signal_set(gate, 1, job.my_pe)
    assert seen(box).tolist() == [2]
    assert stream.query()


def test_a_graph_is_done_as_often_as_it_is_replayed(job, right, left, stream, on_gpu, seen):
    source, dest = on_gpu(np.array([job.my_pe, 5])), on_gpu(np.array([-1, -1]))
    count = pyshmem.new_signal(heap="device")
    pyshmem.barrier_all()
    with stream.capture() as graph:
        pyshmem.put(dest, source, right, stream=stream)
        pyshmem.signal_add(count, 1, right, stream=stream)
    assert seen(dest).tolist() == [-1, -1]
    for _ in range(100):
        graph.replay(stream)
    assert seen(dest).tolist() == [left, 5]
    assert seen(count).tolist() == [100]


@pytest.mark.parametrize("ask", ["synchronize", "query", "destroy"])
def test_a_stream_that_is_captured_is_not_waited_for(job, stream, on_gpu, seen, ask):
    source, dest = on_gpu(np.array([7])), on_gpu(np.array([-1]))
    graphs = []

    def capture(*, wait):
        with stream.capture() as graph:
            graphs.append(graph)
            pyshmem.put(dest, source, job.my_pe, stream=stream)
            if wait:
                with pytest.raises(pyshmem.ShmemError, match=r"(?i)capture"):
                    getattr(stream, ask)()

    with pytest.raises(pyshmem.ShmemError, match=r"(?i)capture"):
        capture(wait=True)
    with pytest.raises(ValueError, match="the graph is empty"):
        graphs[0].replay(stream)
    capture(wait=False)
    assert seen(dest).tolist() == [-1]
    graphs[1].replay(stream)
    assert seen(dest).tolist() == [7]


def test_a_context_numbers_pes_as_its_team_does(job, stream, on_gpu, seen):
    box = on_gpu([-1])
    pyshmem.barrier_all()
    backwards = pyshmem.TEAM_WORLD.split_strided(job.n_pes - 1, -1, job.n_pes)
    with pyshmem.Context(team=backwards) as ctx:
        pyshmem.p(box, job.my_pe, job.my_pe, ctx=ctx, stream=stream)
        assert seen(box).tolist() == [job.n_pes - 1 - job.my_pe]
    backwards.destroy()


def test_streams_of_other_libraries_by_the_protocol(job, right, stream, on_gpu, seen):
    class Foreign:
        def __init__(self, call):
            self.call = call

        def __cuda_stream__(self):
            return self.call()

    box = on_gpu([0, 0])
    pyshmem.barrier_all()
    pyshmem.p(box, 1, right, stream=Foreign(stream.__cuda_stream__))
    pyshmem.p(box[1:], 2, right, stream=stream.handle)
    assert seen(box).tolist() == [1, 2]


def test_threads_may_each_have_a_stream(job, right, on_gpu, stream, seen):
    box = on_gpu(np.zeros(4, np.int64))
    pyshmem.barrier_all()

    def work(at):
        own = pyshmem.streams.Stream()
        for _ in range(50):
            pyshmem.atomic_inc(box[at : at + 1], right, stream=own)
        own.destroy()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen(box).tolist() == [50] * 4


# ---- mistakes --------------------------------------------------------------------------------------


def test_mistakes_are_found_before_anything_is_started(job, right, stream, on_gpu):
    box, host = on_gpu([0, 0]), pyshmem.zeros(2, dtype=np.int64)
    with pytest.raises(TypeError, match="__cuda_stream__"):
        pyshmem.put(box, box, right, stream="default")
    with pytest.raises(ValueError, match="outside the"):
        pyshmem.put(box, box, job.n_pes, stream=stream)
    gone = pyshmem.streams.Stream()
    gone.destroy()
    with pytest.raises(ValueError, match="has been destroyed"):
        pyshmem.put(box, box, right, stream=gone)
    for call in (  # in the simulator too, though it could
        lambda: pyshmem.put(host, box, right, stream=stream),
        lambda: pyshmem.signal_set(host.view(np.uint64)[:1], 1, right, stream=stream),
        lambda: pyshmem.sum_reduce(host, box, stream=stream),
        lambda: pyshmem.sum_reduce(box, host, stream=stream),
    ):
        with pytest.raises(ValueError, match="is on the host heap"):
            call()
    with pytest.raises(TypeError, match="found"):
        pyshmem.wait_until_any(box, pyshmem.CMP_EQ, 0, stream=stream)
    with pytest.raises(pyshmem.UnsupportedError, match="status"):
        pyshmem.wait_until_all(box, pyshmem.CMP_EQ, 0, status=[0, 1], stream=stream)
    with pytest.raises(ValueError, match="give"):
        pyshmem.iput(box, box, right, dst=0, stream=stream)
    with pytest.raises(ValueError, match="empty"):
        pyshmem.streams.Graph().replay(stream)


def test_prepare_says_what_it_does_not_know(job, stream):
    with pytest.raises(ValueError, match="launches no kernel"):
        pyshmem.streams.prepare("g")
    with pytest.raises(TypeError, match="give dtype="):
        pyshmem.streams.prepare("sum_reduce")
    with pytest.raises(TypeError, match="does not take"):
        pyshmem.streams.prepare("and_reduce", dtype="float32")


# ---- examples ----------------------------------------------------------------------------------------

DOCUMENTED = ("Stream", "Stream.synchronize", "Stream.query", "Stream.capture", "Graph.replay")
DOCUMENTED += ("prepare", "set_signals", "Stream.destroy")


def test_the_examples_of_docstrings_run_one_behind_the_other(right, stream):
    names = {"pyshmem": pyshmem, "right": right}
    names |= {name: pyshmem.zeros(4, heap="device") for name in ("dest", "source")}
    for name in DOCUMENTED:
        text = operator.attrgetter(name)(pyshmem.streams).__doc__
        (example,) = re.findall(r"^ *Example: ``(.*)``$", text, re.MULTILINE)
        exec(example, names)
    pyshmem.streams.set_signals(None)
    public = {name.partition(".")[0] for name in DOCUMENTED}
    assert public == set(pyshmem.streams.__all__)
