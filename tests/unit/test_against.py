# SPDX-License-Identifier: BSD-3-Clause
"""``bench --against``: figures side by side, and what is said of what is absent."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from pyshmem.bench import against
from pyshmem.cli import bench


def row(peer: str, op: str, nbytes: int, eager: float | None, graph: float | None) -> dict:
    return {"peer": peer, "op": op, "bytes": nbytes, "pes": 2, "us_eager": eager, "us_graph": graph}


ROWS = [
    *(row("pyshmem", "all_reduce", 8, us, 4.0) for us in (5.0, 9.0, 6.0)),
    *(row("nccl", "all_reduce", 8, us, None) for us in (12.0, 11.0, 90.0)),
    row("symm_mem", "all_reduce_one_shot", 8, 7.0, 3.0),
    row("symm_mem", "all_reduce_two_shot", 8, 9.0, 8.0),
    row("pyshmem", "put", 64, 2.0, 1.0),
    row("pyshmem", "put", 128, 2.0, 1.0),
    row("pyshmem", "all_reduce_blocking", 8, 1.0, None),
    {"note": "no figure"},
]


def test_figures_are_medians_of_the_rounds_and_the_best_of_a_library_s_variants() -> None:
    assert against.figures(ROWS) == {
        ("all_reduce", 8, "eager"): {"pyshmem": 6.0, "nccl": 12.0, "symm_mem": 7.0},
        ("all_reduce", 8, "graph"): {"pyshmem": 4.0, "symm_mem": 3.0},
        ("put", 64, "eager"): {"pyshmem": 2.0},
        ("put", 64, "graph"): {"pyshmem": 1.0},
        ("put", 128, "eager"): {"pyshmem": 2.0},
        ("put", 128, "graph"): {"pyshmem": 1.0},
    }


def test_where_pyshmem_is_behind_is_shown() -> None:
    found = against.figures(ROWS)
    output = io.StringIO()
    grid = against.table(found, ("nccl", "symm_mem"), 2, "NVIDIA Z9")
    width = against.console_of_width(100).width
    Console(file=output, width=width).print(grid)
    text = output.getvalue()
    assert "2 PEs on NVIDIA Z9" in text
    assert "0.50" in text  # 6 of 12
    assert "1.33" in text  # 4 of 3
    assert "put" not in text  # nobody else has it
    assert "all_reduce" in text  # no name is cut
    assert against.behind(found) == ["all_reduce of 8 B, graph: 4.00 us, symm_mem 3.00 (1.33)"]


def test_the_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    against.draw(against.figures(ROWS), str(path), "NVIDIA Z9")
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_a_library_that_is_absent_is_named_once_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measure(provider: str, n: int, folder: Path, *, quick: bool) -> Iterator[dict]:
        if provider == "nvshmem":
            raise against.Absent("no header")
        yield from [] if provider == "nccl" else [row(provider, "put", 8, 1.0, 1.0)]

    said: list[str] = []
    monkeypatch.setattr(against, "measure", measure)
    rows, there = against.measure_in_turn(against.PEERS, 2, 2, tmp_path, said.append)
    assert there == ["symm_mem"]
    assert [one["peer"] for one in rows] == ["pyshmem", "symm_mem"] * 2
    assert [line for line in said if "left out" in line] == [
        "nccl is left out: its job printed no figure (its errors are above)",
        "nvshmem is left out: no header",
    ]


@pytest.mark.parametrize(
    ("provider", "text"), [("nccl", "pip install torch"), ("nvshmem", "set NVSHMEM_HOME")]
)
def test_what_is_absent_is_told_with_what_to_do(
    provider: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(against, "find_spec", lambda name: None)
    monkeypatch.setenv("NVSHMEM_HOME", str(tmp_path))
    with pytest.raises(against.Absent, match=text):
        list(against.measure(provider, 2, tmp_path))


def test_a_program_needs_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    source = Path(against.__file__).parent / "nvshmem_streams.cu"
    assert source.is_file()  # it is in wheels too
    with pytest.raises(against.Absent, match=r"nvshmem_streams\.cu needs nvcc"):
        against.build(source, tmp_path)
    (tmp_path / "nvshmem_streams").touch()
    assert against.build(source, tmp_path) == tmp_path / "nvshmem_streams"


def test_jobs_of_ranks_know_their_place() -> None:
    code = (
        "import os; print('{\"rank\": %s, \"of\": %s}' % (os.environ['RANK'], os.environ['WORLD']))"
    )
    assert list(against.ranks([sys.executable, "-c", code], 2)) == [{"rank": 0, "of": 2}]


def test_the_command_says_that_there_is_no_gpu_and_what_does_not_go_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(against, "gpu_count", lambda: 0)
    done = CliRunner().invoke(bench.bench, ["--against", "nccl"])
    assert (done.exit_code, "no GPU is visible here" in done.output) == (1, True)
    monkeypatch.setattr(against, "gpu_count", lambda: 1)
    done = CliRunner().invoke(bench.bench, ["--against", "nccl"])
    assert "one a GPU: -n 2, 1 GPU(s)" in done.output
    done = CliRunner().invoke(bench.bench, ["--against", "nccl", "put"])
    assert (done.exit_code, "takes no PARTS" in done.output) == (2, True)
    assert set(bench.PEERS) == set(against.PEERS)
