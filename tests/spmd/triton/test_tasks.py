# SPDX-License-Identifier: BSD-3-Clause
"""Task graphs: what a tile waits for is done, on one PE and over all, launch after launch."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem
from pyshmem.triton import tasks


@triton.jit
def scale(tile, x, y, factor, ctx, B: tl.constexpr):
    offs = tile * B + tl.arange(0, B)
    tl.store(y + offs, tl.load(x + offs) * factor)


@triton.jit
def neighbours(tile, y, z, ctx, B: tl.constexpr, TILES: tl.constexpr):
    offs = tl.arange(0, B)
    left = tl.load(y + ((tile + TILES - 1) % TILES) * B + offs)
    tl.store(z + tile * B + offs, left + tl.load(y + ((tile + 1) % TILES) * B + offs))


@triton.jit
def reduce_tile(tile, z, total, words, ctx, B: tl.constexpr):
    offs = tile * B + tl.arange(0, B)
    tl.store(total + offs, shmem.all_reduce(tl.load(z + offs), words, ctx))


@triton.jit
def count(tile, total, out, ctx, N: tl.constexpr):
    tl.store(out + tile, tl.sum(tl.load(total + tl.arange(0, N))) + tl.load(out + tile))


@triton.jit
def scale_ahead(tile, x, y, factor, ctx, B: tl.constexpr):
    tasks.prefetch(x + tile * B + tl.arange(0, B))


TILES, B = 4, 16


@pytest.fixture(scope="module")
def words(job):
    return shmem.channel(max(9, tasks.resident_programs()), 4 * B)


def graph_of(x, y, z, total, words, out):
    graph = tasks.Graph("step")
    first = graph.add(scale, tiles=TILES, args=(x, y, 3.0), constants={"B": B}, ahead=scale_ahead)
    beside = graph.add(
        neighbours, tiles=TILES, args=(y, z), constants={"B": B, "TILES": TILES}, cost=2,
        after=[(first, lambda tile: ((tile - 1) % TILES, (tile + 1) % TILES))],
    )  # fmt: skip
    summed = graph.add(
        reduce_tile, tiles=TILES, args=(z, total, words), constants={"B": B},
        after=[(beside, lambda tile: [tile])],
    )  # fmt: skip
    graph.add(count, args=(total, out), constants={"N": TILES * B}, after=[summed, first])
    return graph


@pytest.mark.parametrize("programs", [None, 1, 3, 9])
def test_each_launch_sees_what_was_done_before(job, place, show, words, programs):
    mine = np.arange(TILES * B, dtype=np.float32) % 9 + job.my_pe
    x, y, z, total = map(place, (mine, 0 * mine, 0 * mine, 0 * mine))
    out = place(np.zeros(1, np.float32))
    graph = graph_of(x, y, z, total, words, out)
    step = graph.build(programs)
    for launch in range(1, 4):
        step()
        parts = [
            3 * (np.arange(TILES * B, dtype=np.float32) % 9 + pe).reshape(TILES, B)
            for pe in range(job.n_pes)
        ]
        wanted = sum(np.roll(p, 1, axis=0) + np.roll(p, -1, axis=0) for p in parts)
        assert (show(total).reshape(TILES, B) == wanted).all()
        assert show(out)[0] == launch * wanted.sum()


def test_tiles_go_to_who_is_free_first(job):
    graph = tasks.Graph()
    long = graph.add(scale, tiles=3, args=(0, 0, 0), cost=4)
    graph.add(scale, tiles=2, args=(0, 0, 0), after=[(long, lambda tile: [2 - tile])])
    plan = graph.plan(2)
    assert plan.programs == (((0, 0), (0, 2)), ((0, 1), (1, 1), (1, 0)))
    assert plan.length == 9


def test_what_no_graph_can_have_is_refused(job):
    graph, other = tasks.Graph(), tasks.Graph()
    task = other.add(scale, tiles=2, args=(0, 0, 0))
    with pytest.raises(ValueError, match="no task of this graph"):
        graph.add(scale, after=[task])
    with pytest.raises(TypeError, match="list of tasks or of"):
        other.add(scale, after=task)
    for after in ([3], (task, range), [(task, 1)], [(task, range, 1)], [()]):
        with pytest.raises(TypeError, match=r"its entries are tasks or \(task, function\)"):
            other.add(scale, after=after)
    with pytest.raises(TypeError, match="after is None; it is a list"):
        other.add(scale, after=None)
    with pytest.raises(TypeError, match="gives 1 for tile 1; it gives a list of tiles"):
        other.add(scale, tiles=2, after=[(task, lambda tile: tile if tile else [0])])
    with pytest.raises(ValueError, match="no tile 2"):
        other.add(scale, tiles=3, after=[(task, lambda tile: [tile])])
    with pytest.raises(ValueError, match="at least one"):
        graph.add(scale, tiles=0)
    with pytest.raises(TypeError, match=r"triton\.jit"):
        graph.add(len)
    with pytest.raises(TypeError, match=r"triton\.jit"):
        graph.add(scale, ahead=len)
    with pytest.raises(ValueError, match="has no task"):
        graph.build()
    with pytest.raises(ValueError, match="identifier"):
        tasks.Graph("a b")
    with pytest.raises(ValueError, match="identifier"):
        tasks.Graph("class")
    for name in ("begin", "tl", "f12", "p0"):
        with pytest.raises(ValueError, match="calls something else by"):
            tasks.Graph(name)


def test_more_programs_than_there_is_room_for_are_refused_before_the_plan_is_made(job):
    graph = tasks.Graph()
    graph.add(scale, tiles=2, args=(0, 0, 0))
    with pytest.raises(ValueError, match="programs is 1000000; no more than"):
        graph.build(10**6)
    with pytest.raises(ValueError, match="programs is 0"):
        graph.build(0)


def test_programs_that_cannot_all_run_at_once_are_refused(job):
    """Numbers of an H200: two of 113 KiB find room in a multiprocessor, of 137 KiB one does."""
    tasks.refuse_what_does_not_fit(264, 115_000, 233_472, 132)
    with pytest.raises(ValueError, match=r"264 programs with 139264 bytes.*: 132 do on this GPU"):
        tasks.refuse_what_does_not_fit(264, 139_264, 233_472, 132)


def test_a_channel_has_a_place_for_each_program_that_uses_it(job):
    few = shmem.channel(3, 4 * B)
    graph = graph_of(0, 0, 0, 0, few, 0)
    assert repr(graph.build(3))
    with pytest.raises(ValueError, match="program 8 of 12, and its channel has places for 3"):
        graph.build(12)


def test_pes_with_different_graphs_are_told(job):
    graph = tasks.Graph()
    graph.add(scale, tiles=1 + job.my_pe, args=(0, 0, 0), constants={"B": B})
    if job.n_pes > 1:
        with pytest.raises(pyshmem.MismatchError, match=r"PE 1: task graph .* scale x 2"):
            graph.build()
    else:
        assert "1 tiles" in repr(graph.build())
