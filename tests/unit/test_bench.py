# SPDX-License-Identifier: BSD-3-Clause
"""What tune and the benchmarks make of their times; no job is started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

pytest.importorskip("numba.cuda", reason="kernels need numba and numba-cuda")

from pyshmem import cutover
from pyshmem.bench import calibrate, operations, put_get, tune
from pyshmem.cli import bench
from pyshmem.host.tuning import table

sys.path.append(str(Path(__file__).parents[2] / "bench"))
import compare
import streams_tune
import targets
from options import Several

SIZES = [1024, 4096, 16384]


@pytest.mark.parametrize(
    ("plain", "other", "expected"),
    [
        ([1, 2, 3], [9, 9, 9], None),
        ([9, 9, 9], [1, 2, 9], 1024),
        ([1, 4, 16], [4, 4, 4], 4096),
        ([1, 4, 16], [2, 8, 8], 8192),  # as many times slower before as faster behind
        ([9, 1, 9], [1, 9, 1], 8192),  # the last time that it was slower counts
        ([], [], None),
    ],
)
def test_the_crossing_is_where_the_other_way_stays_ahead(
    plain: list[float], other: list[float], expected: int | None
) -> None:
    result = tune.crossing(SIZES[: len(plain)], plain, other)
    assert result == expected


def test_tune_looks_nearer_where_the_ways_cross() -> None:
    def step(more: list[int]) -> tuple[list[float], list[float]]:
        return [1.0 if size < 3000 else 9.0 for size in more], [2.0 for _ in more]

    sizes, plain, other = tune.nearer([1024, 4096, 16384], step)
    assert sizes == [1024, 2048, 2896, 3440, 4096, 16384]
    assert 2896 < tune.crossing(sizes, plain, other) < 3440
    never = tune.nearer([1024, 4096], lambda more: ([1.0 for _ in more], [2.0 for _ in more]))
    assert never[0] == [1024, 4096]


@pytest.mark.parametrize(
    ("plain", "other", "expected"),
    [
        ([1, 1, 1], [9, 9, 9], None),
        ([9, 9, 9], [1, 1, 1], 1000),
        ([1, 4, 13], [4, 4, 4], 2000),
        ([1, 2, 5], [9, 9, 9], 9000),  # beyond the last size, along the last line
        ([1, 2, 5], [3, 4, 7], None),  # as fast for ever
        ([1, 1, 1.001], [900, 900, 900], None),  # beyond what is worth a copy engine
    ],
)
def test_a_calibration_takes_times_as_straight_lines(
    plain: list[float], other: list[float], expected: int | None
) -> None:
    found = calibrate.crossing((1000, 2000, 5000), plain, other)
    assert found == (
        None if expected is None else expected if expected == 1000 else expected // 16 * 16
    )


def test_a_new_table_replaces_only_its_own_operations(tmp_path: Path) -> None:
    path = tmp_path / "new" / "f.json"
    for op, peers, size in (("reduce", 1, 1), ("reduce", 3, 2), ("ll", 1, 4), ("reduce", 1, 3)):
        rows = {op: cutover.rows_of_size(op, size)}
        tune.write(table.Table("H", "NVLink 4", peers, "", rows), path)
    found = {
        (one.peers, op): cutover.size_of(op, rows)
        for one in cutover.read_tables(path.read_text(), "f")
        for op, rows in one.rows.items()
    }
    assert found == {(1, "reduce"): 3, (3, "reduce"): 2, (1, "ll"): 4}


def test_a_file_that_is_no_table_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"f\.json is no table of choices"):
        tune.write(table.Table("H", "NVLink 4", 1, "", {}), path)
    assert path.read_text() == "[]"


def test_parts_of_a_grid_are_equal_and_aligned() -> None:
    assert put_get.grid_bytes(1 << 20, 132) % (132 * 16) == 0
    assert put_get.grid_bytes(64, 8) == 64


def test_the_command_knows_all_parts() -> None:
    assert set(bench.PARTS) == set(operations.PARTS)


def test_a_target_without_a_figure_has_not_passed() -> None:
    assert not any(verdict.passed for verdict in targets.judge({}))


def test_the_worst_figure_decides_a_target() -> None:
    shape = (2, 1, 1024)
    figures = {
        ("fcollect_work_group", 8, *shape): {"pyshmem": 1.0, "nvshmem": 2.0},
        ("fcollect_work_group", 64, *shape): {"pyshmem": 3.0, "nvshmem": 2.0},
    }
    (verdict,) = [v for v in targets.judge(figures) if v.target.startswith("fcollect")]
    assert (verdict.value, verdict.passed) == (1.5, False)
    assert "64 B" in verdict.where


def test_rows_of_streams_keep_a_grid_until_another_is_better() -> None:
    few, many = streams_tune.Grid("ll", 128, 64), streams_tune.Grid("direct", 64, 512)
    found = [(1024, {few: 2.0}), (4096, {few: 2.1, many: 2.08}), (65536, {few: 9.0, many: 6.0})]
    rows = streams_tune.rows_of(found)
    assert rows == [[16384, *few], [None, *many]]  # 3 per cent are no reason
    cutover.set_stream_rows("reduce", [("never" if r[0] is None else r[0], *r[1:]) for r in rows])
    assert [tuple(row) for row in cutover.stream_rows("reduce")] == [
        (16384, *few), (cutover.NEVER, *many)
    ]  # fmt: skip
    cutover.set_stream_rows("reduce", None)


def test_candidates_of_streams_have_work_for_their_threads() -> None:
    assert [g.threads for g in streams_tune.candidates("reduce", 8, 1)] == [32]
    large = list(streams_tune.candidates("alltoall", 1 << 26, 1))
    assert {grid.way for grid in large} == {"direct", "engine"}
    assert {grid.way for grid in streams_tune.candidates("reduce", 1 << 26, 1)} == {"direct"}
    assert max(grid.blocks for grid in large) == 128


def test_streams_of_others_are_made_cupy_s_by_what_the_installed_one_has() -> None:
    from pyshmem.bench.cupy_streams import external

    asked = SimpleNamespace(from_external=lambda stream: ("asked", *stream.__cuda_stream__()))
    new = SimpleNamespace(cuda=SimpleNamespace(Stream=asked))
    old = SimpleNamespace(
        cuda=SimpleNamespace(
            Stream=SimpleNamespace(), ExternalStream=lambda handle: ("old", handle)
        )
    )
    assert external(new, 5) == ("asked", 0, 5)
    assert external(old, 5) == ("old", 5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--only", "gemm,norm"], "gemm norm"),
        ([], "norm gemm"),
        (["--only", "gemm,nrom"], "'nrom' is not one of 'norm', 'gemm'"),
        (["--only", ""], "'' is not one of"),
    ],
    ids=["two", "default", "misspelt", "empty"],
)
def test_a_misspelt_choice_is_refused_with_those_that_there_are(
    given: list[str], told: str
) -> None:
    @click.command()
    @click.option("--only", type=Several(["norm", "gemm"]), default="norm,gemm")
    def command(only: tuple[str, ...]) -> None:
        click.echo(" ".join(only))

    assert told in CliRunner().invoke(command, given).output


def figures_file(path: Path, times: dict[str, list[float]]) -> str:
    """JSON lines of ``times``: by operation, of repeated runs."""
    shape = {"bytes": 8, "pes": 2, "blocks": 1, "threads": 32}
    rows = [
        {"peer": peer, "op": op, **shape, "us": us}
        for op, runs in times.items()
        for us in runs
        for peer in ("pyshmem", "nvshmem")
    ]
    path.write_text("a line of something else\n" + "".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(
    ("now", "slower"),
    [({"put": [2.0, 1.02], "get": [0.5]}, 0), ({"put": [1.04], "get": [2.0, 1.5]}, 2)],
)
def test_a_version_is_slower_where_its_best_time_is(
    tmp_path: Path, now: dict[str, list[float]], slower: int
) -> None:
    before = figures_file(tmp_path / "before.jsonl", {"put": [1.0, 3.0], "get": [1.0], "old": [1]})
    after = figures_file(tmp_path / "now.jsonl", {**now, "new": [9.0]})
    result = CliRunner().invoke(compare.main, ["--before", before, after])
    assert result.output.endswith(f"{slower} of 2 figures are more than 3% slower than before\n")
    assert result.exit_code == (slower > 0)


def test_medians_are_compared_when_they_are_asked_for(tmp_path: Path) -> None:
    before = figures_file(tmp_path / "before.jsonl", {"put": [1.0, 3.0, 2.0]})
    after = figures_file(tmp_path / "now.jsonl", {"put": [0.5, 2.5, 9.0]})
    for options, slower in ([], 0), (["--median"], 1):
        result = CliRunner().invoke(compare.main, [*options, "--before", before, after])
        assert result.exit_code == slower


def test_versions_without_a_figure_in_common_are_not_as_fast(tmp_path: Path) -> None:
    before = figures_file(tmp_path / "before.jsonl", {"put": [1.0]})
    after = figures_file(tmp_path / "now.jsonl", {"get": [1.0]})
    assert CliRunner().invoke(compare.main, ["--before", before, after]).exit_code == 1
