# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on a stream whose dest or source, where no other member reaches it, is on no heap."""

from __future__ import annotations

import numpy as np
import pytest

import pyshmem
from pyshmem._core.library import lib
from pyshmem._core.type_table import ELEMENT_NUMBER
from pyshmem.host.collectives.arguments import REDUCE
from pyshmem.host.collectives.dispatch import do, sides_reached
from pyshmem.host.tuning.streams import OPERATIONS


@pytest.fixture
def outside(job):
    """``outside(values)``: an array on no heap, of the own GPU, that begins at a multiple of 16."""

    def made(values):
        if job.device == "cuda":
            cupy = pytest.importorskip("cupy")
            array = cupy.asarray(values)
            cupy.cuda.Device().synchronize()  # the copy may be under way
            return array
        whole = np.empty(values.nbytes + 16, np.uint8)
        array = whole[-whole.ctypes.data % 16 :][: values.nbytes]
        array[:] = values
        return array

    return made


def address(array):
    known = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return known["data"][0]


@pytest.mark.parametrize("way", ["ll", "direct"])
@pytest.mark.parametrize("routine", OPERATIONS)
def test_what_no_other_member_reaches_may_be_outside_of_the_heap(
    job, stream, on_gpu, outside, routine, way
):
    n, me, nbytes, team = job.n_pes, job.my_pe, 96, pyshmem.TEAM_WORLD.handle
    reduces = routine.startswith("reduce")
    many = n if routine in ("alltoall", "reduce_scatter") else 1
    sent = [((np.arange(nbytes * many) + 10 * pe) % 251).astype(np.uint8) for pe in range(n)]
    nothing = np.zeros(nbytes * n, np.uint8)
    heap, free = ([make(nothing), make(sent[me])] for make in (on_gpu, outside))
    typed = (REDUCE["max"], ELEMENT_NUMBER["uint8"]) if reduces else ()
    more = (nbytes, 0) if routine == "broadcast" else (nbytes,)

    def call(places):
        do(routine, 1 + len(typed), (team, *typed, *places, *more), stream)

    pyshmem.barrier_all()
    pyshmem.cutover.set_stream_rows(routine, [("never", way, 2, 32)])
    try:
        reached = sides_reached(routine, team, nbytes)
        sides = [heap[k] if reached[k] else free[k] for k in (0, 1)]
        places = [address(side) for side in sides]
        call(places)
        stream.synchronize()
        for k in (0, 1):  # on no heap, or not where it has to begin
            wrong = [*places]
            wrong[k] = address(free[k]) + (not reached[k])
            with pytest.raises(ValueError, match=("dest", "source")[k]):
                call(wrong)
    finally:
        pyshmem.cutover.set_stream_rows(routine, None)
    own = slice(me * nbytes, (me + 1) * nbytes)
    expected = {
        "broadcast": sent[0],
        "fcollect": np.concatenate(sent),
        "alltoall": np.concatenate([one[own] for one in sent]),
        "reduce": np.max(sent, axis=0),
        "reduce_scatter": np.max(sent, axis=0)[own],
    }[routine]
    got = sides[0].get() if hasattr(sides[0], "get") else pyshmem.to_numpy(sides[0])
    assert np.array_equal(got[: len(expected)], expected)
    if n > 1 and not lib.ishmemx_has_far_pes():
        direct = {"reduce": (True, True), "reduce_scatter": (False, True)}
        assert reached == ((False, False) if way == "ll" else direct.get(routine, (True, False)))
    pyshmem.barrier_all()
