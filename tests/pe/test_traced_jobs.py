# SPDX-License-Identifier: BSD-3-Clause
"""Timelines of jobs: what is in the file, also when there is too much of it and when a PE fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyshmem.cli import main
from pyshmem.host.observe import trace_file

RunPes = Callable[..., object]
HEAT = Path(__file__).parents[2] / "examples" / "heat.py"


def read(path: Path) -> dict:
    document = json.loads(path.read_text())
    assert trace_file.complaints(document) == []
    assert not list(path.parent.glob("*.part"))
    return document


def counts(document: dict, pe: int) -> Counter[tuple[str, str]]:
    return Counter(
        (event["cat"], event["name"])
        for event in document["traceEvents"]
        if event["ph"] == "X" and event["pid"] == pe
    )


def test_heat_on_four_pes(run_pes: RunPes, tmp_path: Path) -> None:
    path, picture = tmp_path / "t.json", tmp_path / "t.png"
    arguments = ["--rows", 18, "--cols", 40, "--steps", 5, "--out", tmp_path / "h.png"]
    run_pes(4, HEAT, [*arguments, "--trace", path], device="sim", check=True)
    document = read(path)
    stages = [event for event in document["traceEvents"] if event.get("cat") == "stage"]
    for pe in range(4):
        found = counts(document, pe)
        assert found["stage", "wait"] == found["stage", "edge"] == found["stage", "put"] == 14
        assert found["stage", "inside"] == 7  # two of them before the time is taken
        assert found["host", "barrier_all"] == 4
    # One clock: a neighbour's put of step k begins before the wait of step k + 1 for it ends.
    for event in stages:
        assert event["args"]["kernel"].startswith("heat_step")
    puts = {pe: sorted(e["ts"] for e in stages if e["name"] == "put" and e["pid"] == pe
                       and e["args"]["block"] == 1) for pe in range(3)}  # fmt: skip
    waits = {pe: sorted(e["ts"] + e["dur"] for e in stages if e["name"] == "wait" and e["pid"] == pe
                        and e["args"]["block"] == 0) for pe in range(1, 4)}  # fmt: skip
    for pe in range(3):
        assert all(put < wait for put, wait in zip(puts[pe][:-1], waits[pe + 1][1:], strict=True))
    done = CliRunner().invoke(main, ["trace", str(path), "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert picture.stat().st_size > 10_000


KERNELS = """
    import os
    import sys

    import numpy as np
    import pyshmem
    import triton
    import triton.language as tl
    from numba import cuda

    import pyshmem.triton as tshmem
    from pyshmem import device as shmem

    @triton.jit
    def shift(dest, source, sig, turn, ctx, B: tl.constexpr):
        right = (tshmem.my_pe(ctx) + 1) % tshmem.n_pes(ctx)
        offs = tl.arange(0, B)
        with tshmem.stage("send", ctx, priority=2):
            tshmem.put_signal(dest + offs, source + offs, sig, turn, tshmem.SIGNAL_SET, right, ctx)
        begin = tshmem.stage_begin()
        tshmem.signal_wait_until(sig, tshmem.CMP_EQ, turn, ctx)
        tshmem.stage_end(begin, "receive", ctx)

    @cuda.jit
    def ask(dest, source, pe):
        for _ in range(3):
            shmem.stage_begin("turn", priority=-1)
            shmem.put_nbi(dest, source, pe)
            shmem.stage_end("turn")
        shmem.quiet()

    @cuda.jit
    def wrong(dest, what):
        if what == 0:
            shmem.p(dest, 1.0, 99)
        if what == 1:
            shmem.stage_end("turn")
        if what == 2:
            shmem.stage_begin("a label that has no room at all")

    def says(kind, action):
        try:
            action()
        except kind as error:
            return str(error)
        raise AssertionError("nothing was wrong")

    folder = sys.argv[1]
    with pyshmem.init() as job:
        right = (job.my_pe + 1) % job.n_pes
        dest, source = (pyshmem.zeros(64, np.float32, heap="device") for _ in range(2))
        sig = pyshmem.new_signal(heap="device")
        used = pyshmem.heap_info("device").used

        def work(turn):
            shift[(1,)](dest, source, sig, turn, tshmem.context(), B=64)
            with pyshmem.cutover.forced("put", 0):
                ask[2, 2](dest, source, right)
            pyshmem.barrier_all()

        work(1)
        with pyshmem.profiling.trace(f"{folder}/all.json") as trace:
            work(2)
            assert "being made" in says(pyshmem.ShmemError, pyshmem.profiling.trace("x").start)
        work(3)
        os.environ["PYSHMEM_TRACE_STAGES"] = "5"
        with pyshmem.profiling.trace(f"{folder}/few.json"):
            work(4)
            assert "without stage_begin" in says(ValueError, lambda: wrong[1, 1](dest, 1))
            assert "room for 24" in says(ValueError, lambda: wrong[1, 1](dest, 2))
            assert "99" in says(pyshmem.KernelFault, lambda: wrong[1, 1](dest, 0))
        del os.environ["PYSHMEM_TRACE_STAGES"]
        with pyshmem.profiling.trace(f"{folder}/host.json", kernels=False):
            work(5)
        assert pyshmem.heap_info("device").used == used
        assert pyshmem.profiling.calls() == []
        with pyshmem.profiling.trace(f"{folder}/failed.json"):
            work(6)
            if job.my_pe == 1:
                raise RuntimeError("not today")
            pyshmem.barrier_all()
"""


def test_kernels_requests_copies_and_faults_of_a_job(run_pes: RunPes, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    done = run_pes(2, KERNELS, [tmp_path], device="sim")
    assert "not today" in done.stderr
    assert "AssertionError" not in done.stderr, done.stderr
    everything = {("stage", "send"): 1, ("stage", "receive"): 1, ("stage", "turn"): 6}
    requests = {("proxy", "put"): 12, ("copy", "put"): 12}
    documents = {name: read(tmp_path / f"{name}.json") for name in ("all", "few", "host", "failed")}
    for pe in range(2):
        found = counts(documents["all"], pe)
        assert found == everything | requests | {("host", "barrier_all"): 1}, found
        few = counts(documents["few"], pe)
        assert sum(few[stage] for stage in everything) == 5
        assert documents["few"]["otherData"]["pes"][str(pe)]["stages_lost"] == 3
        assert counts(documents["host"], pe) == requests | {("host", "barrier_all"): 1}
        # A PE that fails, and those that then find it gone, add what they have.
        assert counts(documents["failed"], pe)["stage", "turn"] == 6
    faults = [e for e in documents["few"]["traceEvents"] if e["ph"] == "i"]
    assert [event["pid"] for event in faults] == [0, 1]
    assert all("99" in event["args"]["text"] for event in faults)
    stages = {e["name"]: e for e in documents["all"]["traceEvents"] if e.get("cat") == "stage"}
    assert stages["send"]["args"]["kernel"].startswith("shift")
    assert [stages[name]["args"]["priority"] for name in ("send", "receive", "turn")] == [2, 0, -1]


def test_a_place_where_no_timeline_can_be_is_named_with_its_setting(
    run_pes: RunPes, tmp_path: Path
) -> None:
    path = tmp_path / "missing" / "t.json"
    program = "import pyshmem\npyshmem.init()\n"
    done = run_pes(2, program, device="none", env={"PYSHMEM_TRACE": str(path)})
    assert done.returncode != 0
    assert f"PYSHMEM_TRACE names a file that cannot be written, '{path}'" in done.stderr
    assert f"there is no folder {path.parent}: make it" in done.stderr


def test_a_whole_job_by_the_environment(run_pes: RunPes, tmp_path: Path) -> None:
    program = """
        import pyshmem
        with pyshmem.init() as job:
            box = pyshmem.zeros(1)
            pyshmem.p(box, 1, (job.my_pe + 1) % job.n_pes)
            pyshmem.barrier_all()
    """
    path = tmp_path / "t.json"
    run_pes(2, program, device="none", env={"PYSHMEM_TRACE": str(path)}, check=True)
    document = read(path)
    for pe in range(2):
        calls = {("host", name): 1 for name in ("zeros", "p", "barrier_all")}
        assert counts(document, pe) == calls
