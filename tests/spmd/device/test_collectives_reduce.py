# SPDX-License-Identifier: BSD-3-Clause
"""Reductions and scans of teams from kernels: the bits that NumPy gets in the team's order."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from numba import cuda
from team_kinds import KINDS, LAUNCH, by_scope, team_of, values_of

import pyshmem
from pyshmem import cutover
from pyshmem import device as shmem
from pyshmem.device.families import FAMILY_DTYPES
from pyshmem.device.leaf.backend import CPU

OPS = {
    "and": ("t", np.bitwise_and), "or": ("t", np.bitwise_or), "xor": ("t", np.bitwise_xor),
    "max": ("m", np.maximum), "min": ("m", np.minimum),
    "sum": ("s", np.add), "prod": ("s", np.multiply),
}  # fmt: skip
#: bfloat16 has a test of its own: not every library of arrays knows it.
PAIRS = [(op, t) for op, (family, _) in OPS.items() for t in sorted(FAMILY_DTYPES[family])]
ON_GPU = {"and", "or", "min", "prod"}  # compiled there for two dtypes alone, which is much the same
#: Thresholds of "reduce" and "ll": flags in the data, for the fewest bytes; by stages; in shares.
FLAGGED, STAGED, SHARED = ("never", "never"), ("never", "0"), ("0", "0")


#: Dtypes of which kernels on CPUs, compiled at seconds each, have every scope; of others a block's.
AT_EVERY_SCOPE = {"int32", "float64"}


def scopes_of(job, dtype):
    alone = job.device == "cuda" or (CPU and dtype not in AT_EVERY_SCOPE)
    return ("_work_group",) if alone else LAUNCH


def kernel_of(routine):
    @cuda.jit
    def kernel(team, dest, source, nreduce):
        routine(team, dest, source, nreduce)

    return kernel


REDUCE = {op: by_scope(kernel_of, f"{op}_reduce") for op in OPS}
SCAN = {name: by_scope(kernel_of, name) for name in ("sum_inscan", "sum_exscan")}


def wide(values):
    return values.astype(np.float32) if values.dtype.itemsize == 2 and is_float(values) else values


def is_float(values):
    return values.dtype.kind == "f" or values.dtype.name == "bfloat16"


def reduced(op, parts):
    """Element by element, in the order of the parts, rounded once."""
    operation, total = OPS[op][1], wide(parts[0])
    for part in parts[1:]:
        total = operation(total, wide(part))
    return total.astype(parts[0].dtype)


def uneven(pe, n, dtype):
    """Values whose sums round differently in different orders."""
    values = values_of(pe, n, dtype)
    if is_float(values) or values.dtype.kind == "c":
        values = (
            values.astype("complex128" if values.dtype.kind == "c" else "float64") / 7
        ).astype(values.dtype)
    return values


@contextmanager
def way(thresholds):
    """Reductions go one way, whatever their size."""
    with cutover.forced("reduce", thresholds[0]), cutover.forced("ll", thresholds[1]):
        pyshmem.barrier_all()
        yield
        pyshmem.barrier_all()


def same(got, wanted, exact):
    if exact:
        return got.tobytes() == wanted.tobytes()
    return np.allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_every_type_at_every_scope(job, place, show, op, dtype):
    on_gpu = job.device == "cuda"
    if on_gpu and op in ON_GPU and dtype not in ("int32", "uint64"):
        pytest.skip("compiling all of them takes minutes")
    if on_gpu and dtype == "bfloat16":
        pytest.skip("see test_sixteen_bit_floats_as_bits")
    wanted = reduced(op, [uneven(pe, 21, dtype) for pe in range(job.n_pes)])
    for scope in scopes_of(job, dtype):
        source, dest = place(uneven(job.my_pe, 21, dtype)), place(np.zeros(21, dtype))
        REDUCE[op][scope][LAUNCH[scope]](shmem.TEAM_WORLD, dest, source, 20)
        got = show(dest)
        exact = op != "prod" or np.dtype(dtype).kind != "c"
        assert same(got[:20], wanted[:20], exact)
        assert not got[20]


@pytest.mark.parametrize("path", [FLAGGED, STAGED, SHARED])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
def test_teams_sizes_and_all_ways(job, place, show, scope, kind, path):
    with way(path), team_of(kind, job.n_pes) as (team, members):
        for n in (0, 1, 4, 63, 700):
            for at in (0, 1):  # aligned, and not: which leaves the way of many bytes out
                source = place(uneven(job.my_pe, n + 2, "float32"))
                dest = place(np.zeros(n + 2, np.float32))
                wanted = np.zeros(n + 2, np.float32)
                if team is not None:
                    arrays = dest[at : at + n], source[at : at + n]
                    REDUCE["sum"][scope][LAUNCH[scope]](team, *arrays, n)
                    parts = [uneven(pe, n + 2, "float32")[at : at + n] for pe in members]
                    wanted[at : at + n] = reduced("sum", parts)
                assert same(show(dest), wanted, True)


@pytest.mark.parametrize("path", [FLAGGED, STAGED, SHARED])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
def test_in_place_and_longer_than_the_stage(job, place, show, dtype, path):
    with way(path):
        n = (1 << 18) // np.dtype(dtype).itemsize if job.device == "cuda" else 20000
        array = place(uneven(job.my_pe, n, dtype))
        REDUCE["sum"]["_work_group"][1, 40](shmem.TEAM_WORLD, array, array, n)
        wanted = reduced("sum", [uneven(pe, n, dtype) for pe in range(job.n_pes)])
        assert same(show(array), wanted, True)


@pytest.mark.parametrize("dtype", sorted(FAMILY_DTYPES["s"]))
@pytest.mark.parametrize("name", SCAN)
def test_scans_of_every_type(job, place, show, name, dtype):
    if job.device == "cuda" and dtype == "bfloat16":
        pytest.skip("no arrays of it there")
    for scope in scopes_of(job, dtype):
        source, dest = place(uneven(job.my_pe, 19, dtype)), place(np.ones(19, dtype))
        SCAN[name][scope][LAUNCH[scope]](shmem.TEAM_WORLD, dest, source, 19)
        assert same(show(dest), scanned(name, range(job.my_pe + 1), 19, dtype), True)


def scanned(name, before, n, dtype):
    """``before``: the members up to this one, itself the last."""
    parts = [uneven(pe, n, dtype) for pe in before]
    parts = parts if name == "sum_inscan" else parts[:-1]
    return reduced("sum", [np.zeros(n, dtype), *parts])


@pytest.mark.parametrize("path", [FLAGGED, STAGED])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", LAUNCH)
@pytest.mark.parametrize("name", SCAN)
def test_scans_on_teams_in_place(job, place, show, name, scope, kind, path):
    with way(path), team_of(kind, job.n_pes) as (team, members):
        for n in (0, 1, 333):
            array = place(uneven(job.my_pe, n, "float64"))
            wanted = uneven(job.my_pe, n, "float64")
            if team is not None:
                SCAN[name][scope][LAUNCH[scope]](team, array, array, n)
                before = members[: members.index(job.my_pe) + 1]
                wanted = scanned(name, before, n, "float64")
            assert same(show(array), wanted, True)


def test_scan_longer_than_the_stage(job, place, show):
    n = 40000 if job.device == "cuda" else 9000
    source, dest = place(values_of(job.my_pe, n, "int64")), place(np.zeros(n, np.int64))
    SCAN["sum_inscan"]["_work_group"][1, 40](shmem.TEAM_WORLD, dest, source, n)
    wanted = sum(values_of(pe, n, "int64") for pe in range(job.my_pe + 1))
    assert (show(dest) == wanted).all()


def test_sums_of_floats_have_the_same_bits_everywhere(job, place, show):
    """Of values over many magnitudes, in every shape of a call."""
    mine = np.random.default_rng(job.my_pe).standard_normal(1000) * 10.0 ** (np.arange(1000) % 12)
    source = place(mine.astype(np.float32))
    seen = []
    for scope in LAUNCH:
        for path in (FLAGGED, STAGED, SHARED):
            with way(path):
                dest = place(np.zeros(1000, np.float32))
                REDUCE["sum"][scope][LAUNCH[scope]](shmem.TEAM_WORLD, dest, source, 1000)
                seen.append(show(dest).tobytes())
                other = np.empty(1000, np.float32)
                pyshmem.get(other, dest, (job.my_pe + 1) % job.n_pes)
                seen.append(other.tobytes())
                pyshmem.barrier_all()
    assert len(set(seen)) == 1
