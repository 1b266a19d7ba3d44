# SPDX-License-Identifier: BSD-3-Clause
"""collect, alltoall, alltoalls and the scans, and every collective on teams of any shape."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from reference import dtype_of, factors, pattern, reduce, same

import pyshmem
from pyshmem import TEAM_WORLD, Team
from pyshmem._core.type_table import ELEMENTS, REDUCE_OPS, elements_of

DTYPES = [element.dtype for element in elements_of("r")]
SUMS = [element.dtype for element in elements_of("s")]
#: Elements of 8 bytes: around the stage for small messages, and far above.
COUNTS = [0, 1, 3, 1023, 1024, 1025, 40_001]


@pytest.fixture(params=["world", "reversed", "parity", "rotated"])
def team(request, job):
    """A team that holds this PE."""
    n = job.n_pes
    if request.param == "world":
        yield TEAM_WORLD
        return
    made = {
        "reversed": lambda: TEAM_WORLD.split_strided(n - 1, -1, n),
        "parity": lambda: TEAM_WORLD.split(job.my_pe % 2),
        "rotated": lambda: Team.from_pes([*range(1, n), 0]),
    }[request.param]()
    yield made
    made.destroy()


# ---- collect -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_collect_of_different_counts(job, heap, make, team, dtype):
    counts = [(3 * pe + 2) % 7 for pe in team.pes()]
    source = make(pattern(9, dtype, job.my_pe), heap)
    dest = make(pattern(7 * job.n_pes, dtype, 60), heap)
    pyshmem.collect(dest, source, nelems=counts[team.my_pe()], team=team)
    parts = [pattern(9, dtype, pe)[:count] for pe, count in zip(team.pes(), counts, strict=True)]
    expected = pattern(7 * job.n_pes, dtype, 60)
    expected[: sum(counts)] = np.concatenate(parts)
    assert same(pyshmem.to_numpy(dest), expected)


@pytest.mark.parametrize("count", COUNTS)
def test_collect_of_every_size(job, make, count):
    n = [count if pe % 2 == 0 else count // 2 for pe in range(job.n_pes)]
    source, dest = make(pattern(count, "int64", job.my_pe)), make(np.full(count * job.n_pes, -1))
    pyshmem.collect(dest, source, nelems=n[job.my_pe])
    expected = np.concatenate([pattern(count, "int64", pe)[: n[pe]] for pe in range(job.n_pes)])
    assert (dest[: sum(n)] == expected).all()
    assert (dest[sum(n) :] == -1).all()


def test_collect_into_too_little_fails_on_all_and_writes_nothing(job, make):
    """Also when one PE's dest alone is too small."""
    n = job.n_pes
    source, dest = make(np.arange(4) + 1), make(np.full(4 * n + 8, -1))
    room = 4 * n - 1 if job.my_pe == n - 1 else 4 * n
    message = f"together, but dest of PE {n - 1} of the team holds"
    with pytest.raises(ValueError, match=message):
        pyshmem.collect(dest[:room], source)
    assert (pyshmem.to_numpy(dest) == -1).all()
    pyshmem.collect(dest[: 4 * n], source)
    assert (pyshmem.to_numpy(dest)[: 4 * n] == np.tile(np.arange(4) + 1, n)).all()


def test_collect_of_a_part_that_is_too_large_by_itself_fails_on_all(job, make):
    dest, source = make(np.zeros(1, np.int64)), make(np.ones(5, np.int64))
    for collect in (pyshmem.collect, lambda *a, **k: pyshmem.collect_nb(*a, **k).wait()):
        with pytest.raises(ValueError, match="but dest of PE"):
            collect(dest, source, nelems=3 if job.my_pe == 0 else 0)
        pyshmem.barrier_all()


def test_collect_of_nothing_at_all(make):
    dest = make(np.full(4, -1))
    pyshmem.collect(dest, make(np.zeros(2, int)), nelems=0)
    assert (dest == -1).all()


# ---- alltoall ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_alltoall_exchanges_blocks(job, heap, make, team, dtype):
    n, me, size = team.n_pes(), team.my_pe(), 5 * job.n_pes
    source = make(pattern(size, dtype, job.my_pe), heap)
    dest = make(pattern(size, dtype, 60), heap)
    pyshmem.alltoall(dest, source, nelems=5, team=team)
    blocks = [pattern(size, dtype, pe)[5 * me : 5 * me + 5] for pe in team.pes()]
    assert same(pyshmem.to_numpy(dest)[: 5 * n], np.concatenate(blocks))
    assert same(pyshmem.to_numpy(dest)[5 * n :], pattern(size, dtype, 60)[5 * n :])


@pytest.mark.parametrize("count", COUNTS)
def test_alltoall_of_every_size(job, make, count):
    n, me = job.n_pes, job.my_pe
    source, dest = make(pattern(count * n, "int64", me)), make(np.full(count * n, -1))
    pyshmem.alltoall(dest, source, nelems=count)
    blocks = [pattern(count * n, "int64", pe)[count * me : count * (me + 1)] for pe in range(n)]
    assert (dest == np.concatenate(blocks)).all()


@pytest.mark.parametrize(("dst", "sst"), [(1, 1), (1, 3), (2, 1), (3, 4)])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "complex128"])
def test_alltoalls_places_blocks_at_their_stride(job, heap, make, team, dtype, dst, sst):
    me, count, size = team.my_pe(), 4, 4 * job.n_pes
    source = make(pattern(size * sst, dtype, job.my_pe), heap)
    dest = make(pattern(size * dst, dtype, 60), heap)
    pyshmem.alltoalls(dest, source, dst=dst, sst=sst, nelems=count, team=team)
    expected = pattern(size * dst, dtype, 60)
    for block, pe in enumerate(team.pes()):
        theirs = pattern(size * sst, dtype, pe)[me * count * sst :: sst][:count]
        expected[block * count * dst : (block + 1) * count * dst : dst] = theirs
    assert same(pyshmem.to_numpy(dest), expected)


# ---- scans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 7, 4099])
@pytest.mark.parametrize("dtype", SUMS)
def test_scans_equal_the_reference(job, make, team, dtype, n):
    parts = [factors(n, dtype, pe) for pe in team.pes()]
    me = team.my_pe()
    dest, source = make(factors(n, dtype, 9)), make(parts[me])
    pyshmem.sum_inscan(dest, source, team=team)
    assert same(dest, reduce("sum", parts[: me + 1]))
    pyshmem.sum_exscan(dest, source, team=team)
    assert same(dest, reduce("sum", parts[:me]) if me else np.zeros(n, dtype_of(dtype)))
    assert same(source, parts[me])


@pytest.mark.parametrize("n", [5, 3000])
def test_scans_in_place(job, heap, make, n):
    parts = [pattern(n, "int64", pe) for pe in range(job.n_pes)]
    for routine, last in ((pyshmem.sum_inscan, job.my_pe + 1), (pyshmem.sum_exscan, job.my_pe)):
        array = make(parts[job.my_pe], heap)
        routine(array, array)
        assert (pyshmem.to_numpy(array) == sum(parts[:last], np.zeros(n, int))).all()


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_scans_take_the_dtypes_of_their_table(element):
    if "s" in element.families:
        return
    array = pyshmem.ones(2, dtype_of(element.dtype))
    for routine in (pyshmem.sum_inscan, pyshmem.sum_exscan):
        with pytest.raises(TypeError, match=f"{routine.__name__}: dtype {array.dtype.name}"):
            routine(array, array)


# ---- the others on teams -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 1500])
def test_broadcast_and_fcollect_on_teams(job, heap, make, team, count):
    source, dest = make(pattern(count, "int64", job.my_pe), heap), make(np.full(count, -1), heap)
    for root in range(team.n_pes()):
        pyshmem.broadcast(dest, source, root, team=team)
        expected = pattern(count, "int64", team.translate_pe(root, TEAM_WORLD))
        assert (pyshmem.to_numpy(dest) == expected).all()
    dest = make(np.full(count * job.n_pes, -1), heap)
    pyshmem.fcollect(dest, source, team=team)
    expected = np.concatenate([pattern(count, "int64", pe) for pe in team.pes()])
    assert (pyshmem.to_numpy(dest)[: expected.size] == expected).all()
    with pytest.raises(ValueError, match=f"root {team.n_pes()} is outside"):
        pyshmem.broadcast(dest, source, team.n_pes(), nelems=1, team=team)


@pytest.mark.parametrize("op", REDUCE_OPS)
@pytest.mark.parametrize("count", [3, 2500])
def test_reductions_on_teams(job, make, team, op, count):
    parts = [pattern(count, "int64", pe) for pe in team.pes()]
    dest, source = make(np.zeros(count, int)), make(pattern(count, "int64", job.my_pe))
    getattr(pyshmem, f"{op}_reduce")(dest, source, team=team)
    assert same(dest, reduce(op, parts))


def test_teams_that_share_pes_take_turns(job, make):
    """Rows, columns and the world, one after the other, without barriers between."""
    row, column = TEAM_WORLD.split_2d(2)
    one, result = make(np.array([1 + job.my_pe])), make(np.zeros(1, int))
    for _ in range(50):
        for team in (row, column, TEAM_WORLD, column, row):
            pyshmem.sum_reduce(result, one, team=team)
            assert result[0] == sum(1 + pe for pe in team.pes())
    row.destroy()
    column.destroy()


def test_two_teams_in_two_threads(job, make):
    teams = [TEAM_WORLD.split_strided(0, 1, job.n_pes) for _ in range(2)]
    ones, results = make(np.ones(2, int)), make(np.zeros(2, int))
    wrong = []

    def body(i):
        for _ in range(30):
            pyshmem.sum_reduce(results[i:], ones[i:], nelems=1, team=teams[i])
            if results[i] != job.n_pes:
                wrong.append(results[i])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(body, range(2)))
    assert not wrong
    for team in teams:
        team.destroy()


# ---- mistakes ------------------------------------------------------------------------------------


def test_arrays_that_are_too_small_are_refused(job):
    n = job.n_pes
    source, dest = pyshmem.zeros(4 * n, int), pyshmem.zeros(4 * n - 1, int)
    for call, text in (
        (lambda: pyshmem.alltoall(dest, source), "dest"),
        (lambda: pyshmem.alltoall(source, source, nelems=5), "source"),
        (lambda: pyshmem.alltoall(source, source, nelems=-1), "nelems is -1"),
        (lambda: pyshmem.alltoalls(dest, source), "dest"),
        (lambda: pyshmem.alltoalls(dest, source, sst=2, nelems=4), "source"),
        (lambda: pyshmem.alltoalls(dest, source, dst=0, nelems=1), "dst is 0"),
        (lambda: pyshmem.alltoalls(dest, source, sst=-3, nelems=1), "sst is -3"),
        (lambda: pyshmem.collect(dest, source), "dest"),
        (lambda: pyshmem.sum_inscan(dest, source), "dest"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="they must be the same"):
        pyshmem.alltoalls(source, pyshmem.zeros(4 * n), nelems=1)
    if n > 1:
        with pytest.raises(ValueError, match="cannot share evenly"):
            pyshmem.alltoall(source, dest)
