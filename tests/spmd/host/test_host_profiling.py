# SPDX-License-Identifier: BSD-3-Clause
"""Call hooks: counts, bytes, times and a trace; and no trace of them when they are off."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pyshmem
from pyshmem import TEAM_WORLD, profiling


@pytest.fixture
def recording():
    profiling.reset()
    profiling.start()
    yield
    profiling.stop()
    profiling.reset()


def test_calls_bytes_and_times_are_recorded(job, make, right, recording):
    box, got = make(np.zeros(10)), np.zeros(10)
    profiling.reset()
    for _ in range(3):
        pyshmem.put(box, np.ones(10), right)
    pyshmem.put(box, np.ones(10), right, nelems=2)
    pyshmem.get(got, box, right)
    pyshmem.p(box, 1.0, right)
    pyshmem.barrier_all()
    summary = profiling.summary()
    assert summary["put"][:2] == (4, 3 * 80 + 16)
    assert summary["get"][:2] == (1, 80)
    assert summary["p"][:2] == (1, 8)
    assert summary["barrier_all"].calls == 1
    assert all(total.seconds > 0 for total in summary.values())
    assert [call.name for call in profiling.calls()][:4] == ["put"] * 4


def test_what_a_routine_calls_is_part_of_it(job, recording):
    pyshmem.quiet()
    pyshmem.CTX_DEFAULT.quiet()
    TEAM_WORLD.sync()
    names = [call.name for call in profiling.calls()]
    assert names == ["quiet", "Context.quiet", "Team.sync"]


def test_hooks_get_each_call(job, right):
    seen = []
    profiling.start(seen.append)
    with pytest.raises(ValueError, match="is outside"):
        pyshmem.pe_quiet([job.n_pes])
    pyshmem.quiet()
    profiling.stop()
    profiling.reset()
    assert [call.name for call in seen] == ["pe_quiet", "quiet"]
    pyshmem.quiet()
    assert len(seen) == 2


def test_pcontrol_pauses(job, recording):
    pyshmem.pcontrol(0)
    pyshmem.quiet()
    pyshmem.pcontrol(1)
    pyshmem.fence()
    pyshmem.pcontrol(7, "for", "tools")
    assert [call.name for call in profiling.calls()] == ["fence"]


def test_the_trace_is_chrome_json(job, right, recording, tmp_path):
    pyshmem.fence()
    pyshmem.quiet()
    profiling.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in complete] == ["fence", "quiet"]
    assert all(event["pid"] == job.my_pe and event["dur"] >= 0 for event in complete)


def test_nothing_is_left_when_it_is_off():
    before = pyshmem.put, pyshmem.Team.from_pes, pyshmem.Context.quiet
    profiling.start()
    assert pyshmem.put is not before[0]
    profiling.stop()
    assert (pyshmem.put, pyshmem.Team.from_pes, pyshmem.Context.quiet) == before


def test_what_is_wrong_with_a_call_is_told_while_it_is_recorded(job, recording):
    box = pyshmem.zeros(4)
    with pytest.raises(TypeError, match="nelems is 'x'"):
        pyshmem.put(box, box, 0, nelems="x")
