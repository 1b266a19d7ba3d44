# SPDX-License-Identifier: BSD-3-Clause
"""Timelines as files: tracks that nest, the format, the numbers that are read from them, the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import pyshmem
from pyshmem import profiling
from pyshmem._core.labels import label_words
from pyshmem.cli import main, trace_plot, trace_report
from pyshmem.host.observe import trace_file, tracing
from pyshmem.host.observe.trace_file import Instant, Slice

TRACK = (0, "track")


def slice_of(name: str, begin: int, end: int, kind: str = "stage", track=TRACK) -> Slice:
    return Slice(kind, track, name, begin, end, {})


def document_of(*parts: tuple[int, list[Slice]]) -> dict:
    events = [e for pe, slices in parts for e in trace_file.events_of(pe, slices, [], 1000)]
    return {"traceEvents": events, "otherData": {"n_pes": len(parts), "pes": {}}}


# ---- the file ------------------------------------------------------------


def test_slices_of_a_lane_nest_and_others_get_lanes_of_their_own() -> None:
    outer, inner, across = slice_of("a", 0, 10), slice_of("b", 2, 5), slice_of("c", 4, 12)
    behind = slice_of("d", 12, 13)
    placed = trace_file.nested([behind, across, inner, outer])
    assert placed == [(outer, 0), (inner, 0), (across, 1), (behind, 0)]


def test_events_are_what_the_format_asks_for() -> None:
    slices = [slice_of("load", 2000, 5000), slice_of("put", 1500, 1500, "host", (0, "host"))]
    events = trace_file.events_of(3, slices, [Instant("fault", 4000, {"text": "no"})], 1000)
    assert trace_file.complaints({"traceEvents": events}) == []
    assert {event["pid"] for event in events} == {3}
    complete = {event["name"]: event for event in events if event["ph"] == "X"}
    assert (complete["load"]["ts"], complete["load"]["dur"]) == (1.0, 3.0)
    assert (complete["put"]["ts"], complete["put"]["dur"]) == (0.5, 0.0)
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert tracks == {complete["put"]["tid"]: "host", complete["load"]["tid"]: "track"}
    (fault,) = (event for event in events if event["ph"] == "i")
    assert (fault["ts"], fault["args"]) == (3.0, {"text": "no"})


GOOD = {"ph": "X", "name": "n", "pid": 0, "tid": 1, "ts": 0, "dur": 5}
NAME = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "track"}}


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([NAME, GOOD | {"dur": -1}], "less than 0"),
        ([NAME, GOOD | {"ts": "0"}], "no number"),
        ([NAME, GOOD | {"ts": float("nan")}], "no number"),
        ([NAME, GOOD | {"pid": "0"}], "no int"),
        ([NAME, GOOD | {"ph": "?"}], "unknown kind"),
        ([NAME, GOOD | {"args": 3}], "args"),
        ([NAME, GOOD, GOOD | {"ts": 3}], "not nested"),
        ([GOOD], "no name"),
        ([3], "no object"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(events: list, says: str) -> None:
    (complaint,) = trace_file.complaints({"traceEvents": events})
    assert says in complaint
    assert trace_file.complaints({"traceEvents": [NAME, GOOD]}) == []
    assert trace_file.complaints([]) != []


def test_a_file_takes_parts_of_pes_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    trace_file.begin(path, 77, {"n_pes": 2})
    trace_file.add(path, [(1, [NAME | {"pid": 1}], {"stages": 3})])
    trace_file.add(path, [(0, [NAME], {"stages": 4})])
    document = json.loads(path.read_text())
    assert [event["pid"] for event in document["traceEvents"]] == [1, 0]
    assert document["otherData"]["pes"] == {"1": {"stages": 3}, "0": {"stages": 4}}
    assert trace_file.base_of(path) == 77


def test_the_kernels_clock_is_taken_to_drift_evenly() -> None:
    first, last = tracing.Clock(1000, 500, 1), tracing.Clock(3000, 520, 1)
    assert tracing.to_host_clock(500, first, last) == 1000
    assert tracing.to_host_clock(1500, first, last) == 2010
    assert tracing.to_host_clock(1500, first, first) == 2000


def test_labels_have_room_for_24_bytes() -> None:
    assert label_words("load") == (int.from_bytes(b"load", "little"), 0, 0)
    with pytest.raises(ValueError, match="room for 24"):
        label_words("é" * 13)


# ---- the numbers ------------------------------------------------------------


def test_overlap_is_of_the_communication_and_idle_is_neither() -> None:
    slices = [
        slice_of("compute", 1000, 11000),
        slice_of("wait", 9000, 13000, track=(1, "other")),
        slice_of("put", 12000, 13000, "host"),
        slice_of("compute", 15000, 21000),
    ]
    (share,) = trace_report.shares(document_of((0, slices)))
    assert share == (0, 20.0, 16.0, 4.0, 2.0, 2.0)
    assert share.overlap == 50.0
    (all_compute,) = trace_report.shares(document_of((0, slices)), "no such label")
    assert (all_compute.communication, all_compute.overlap) == (1.0, 100.0)
    assert trace_report.shares(document_of((0, slices[:1])))[0].overlap is None


def test_who_comes_last_to_a_barrier_is_late() -> None:
    def calls(*begins: int) -> list[Slice]:
        return [slice_of("barrier_all", begin, 99000, "host", (0, f"{begin}")) for begin in begins]

    document = document_of(
        (0, calls(1000, 20000)), (1, calls(3000, 21000)), (2, calls(5000, 18000))
    )
    assert trace_report.late(document) == [
        (0, 0, 2, 0.0),
        (1, 1, 2, 2.0),  # the others had waited 1 and 3 us
        (2, 1, 2, 3.0),
    ]
    uneven = document_of((0, calls(1000)), (1, calls(1000, 2000)))
    assert [late.syncs for late in trace_report.late(uneven)] == [0, 0]


# ---- the command ------------------------------------------------------------


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_command_prints_tables_and_draws(tmp_path: Path) -> None:
    document = document_of((0, [slice_of("load", 2000, 5000)]), (1, [slice_of("wait", 1000, 4000)]))
    document["otherData"]["pes"] = {"0": {"stages_lost": 7, "kernel_clock_within_ns": 4000}}
    document["traceEvents"].append(
        {
            "ph": "i",
            "s": "p",
            "name": "fault",
            "pid": 0,
            "tid": 1,
            "ts": 2,
            "args": {"text": "a fault"},
        }
    )
    path, picture = tmp_path / "t.json", tmp_path / "t.svg"
    path.write_text(json.dumps(document))
    done = invoke(path, "--plot", picture)
    assert done.exit_code == 0, done.output
    for text in ("load", "PE 0: 7 stages", "wrote nothing: 1", "within 4 us", "a fault", "100.0 %"):
        assert (text in done.output) == (text != "100.0 %"), text
    assert picture.read_text().count("<path") > 10
    assert "regular expression" in invoke(path, "--comm", "(").output
    assert "format" in invoke(path, "--plot", tmp_path / "t.nothing").output


def test_of_many_lanes_those_with_something_new_are_drawn() -> None:
    slices = [slice_of("multiply", 1000, 2000, track=(sm, f"SM {sm}")) for sm in range(99)]
    slices.append(slice_of("put rows", 1000, 2000, track=(99, "SM 99")))
    drawn, left_out = trace_plot._tracks(document_of((0, slices)))
    assert [name for _, _, name in drawn] == [*(f"SM {sm}" for sm in range(23)), "SM 99"]
    assert left_out == 76


def test_the_command_refuses_what_is_no_timeline(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for text, says in (("{", "nor JSON at all"), ('{"traceEvents": [3]}', "event 0 is no object")):
        path.write_text(text)
        done = invoke(path)
        assert done.exit_code == 1
        assert says in done.output
    path.write_text(json.dumps(document_of()))
    assert "nothing to draw" in invoke(path, "--plot", tmp_path / "t.png").output


# ---- NVTX ------------------------------------------------------------


def test_ranges_for_nvidia_s_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple] = []

    class Nvtx:
        push_range = staticmethod(lambda name, domain: seen.append(("push", name, domain)))
        pop_range = staticmethod(lambda domain: seen.append(("pop", domain)))

    monkeypatch.setitem(sys.modules, "nvtx", Nvtx)
    profiling.start(nvtx=True)
    with pytest.raises(pyshmem.NotInitialized):
        pyshmem.quiet()
    profiling.stop()
    profiling.reset()
    assert seen == [("push", "quiet", "pyshmem"), ("pop", "pyshmem")]
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ImportError, match="pip install nvtx"):
        profiling.start(nvtx=True)
