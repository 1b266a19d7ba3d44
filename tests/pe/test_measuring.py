# SPDX-License-Identifier: BSD-3-Clause
"""``bench`` and ``tune`` in the simulator: every figure comes, and the tuned table is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("greenlet", reason="the simulator is not installed")

pytestmark = pytest.mark.serial


def pyshmem_command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyshmem", *arguments],
        env={**os.environ, "PYSHMEM_DEVICE_HEAP_SIZE": "16M", **variables},
        capture_output=True,
        text=True,
        timeout=150,
    )


def test_bench_prints_a_row_for_each_figure() -> None:
    done = pyshmem_command("bench", "-n", "2", "--device", "sim", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row["us"] > 0 for row in rows)
    ops = {row["op"] for row in rows}
    assert {"put", "get_work_group", "ring_null", "ring_request", "fence", "barrier_all"} <= ops
    assert {"fcollect_work_group", "sum_reduce_work_group", "signal_pingpong", "fetch_add"} <= ops
    assert {row["peer"] for row in rows} == {"pyshmem", "pyshmem stores", "pyshmem engine"}


def test_bench_draws_its_transfers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "put.png"
    done = pyshmem_command("bench", "put", "--device", "sim", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_jobs_read_what_tune_wrote(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cutover.json"
    done = pyshmem_command("tune", "--device", "sim", PYSHMEM_TUNE_FILE=str(path))
    assert done.returncode == 0, done.stderr
    assert f"written to {path}" in done.stdout
    (table,) = json.loads(path.read_text())["tables"]
    assert (table["gpu"], table["link"], table["peers"]) == ("simulator", "none", 1)
    program = tmp_path / "program.py"
    program.write_text(
        "import pyshmem\nwith pyshmem.init():\n    print(pyshmem.cutover.origin('put'))\n"
    )
    done = pyshmem_command(
        "run", "-n", "2", "--device", "sim", str(program), PYSHMEM_TUNE_FILE=str(path)
    )
    assert done.stdout.split() == [str(path)] * 2, done.stderr


MADE_UP = """
import sys
import pyshmem
from pyshmem import cutover
from pyshmem.host.tuning import gpus, table

gpus.of_this_pe = lambda: gpus.Gpu("NVIDIA Z9", gpus.kind("NVIDIA Z9", 110, "NVLink 5"))
if "measure" in sys.argv:
    from pyshmem.bench import tune
    sys.argv[1:] = ["--quick"]
    tune.main(standalone_mode=False)
with pyshmem.init() as job:
    print(cutover.origin("put", 1, 1), cutover.origin("reduce"), sep="|")
"""


def test_a_gpu_without_a_table_takes_what_tune_quick_measured_unless_it_is_told_not_to(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(MADE_UP)
    run = ("run", "-n", "2", "--device", "sim", str(program))
    kept = {"PYSHMEM_CACHE_DIR": str(tmp_path / "cache")}
    done = pyshmem_command(*run, "measure", **kept)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "cache" / "calibration.json"
    (made,) = json.loads(path.read_text())["tables"]
    assert (made["gpu"], made["link"], made["peers"]) == ("NVIDIA Z9", "NVLink 5", 1)
    assert {op.split()[0] for op in made["rows"]} == {"put", "get"}  # no bits of results hang on it
    rule = "shipped, by rule from NVIDIA H100 80GB HBM3"
    assert done.stdout.splitlines()[-2:] == [f"{path}|{rule}"] * 2
    told = pyshmem_command(*run, **kept, PYSHMEM_CALIBRATION="0")
    assert told.stdout.splitlines() == [f"{rule}|{rule}"] * 2


@pytest.mark.parametrize("what", ["cutover", "quick", "fused"])
def test_a_place_for_the_table_is_there_before_anything_is_measured(
    tmp_path: Path, what: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    wanted = file / "calibration.json"
    place = {"PYSHMEM_CACHE_DIR": str(file)} if what == "quick" else {}
    place |= {} if place else {"PYSHMEM_TUNE_FILE": str(wanted)}
    done = pyshmem_command("tune", what, "--device", "sim", **place)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: the table cannot be written to {wanted}")
    assert "Traceback" not in done.stderr


def test_tune_takes_two_pes(tmp_path: Path) -> None:
    done = pyshmem_command("tune", "-n", "1", "--device", "sim", "-o", str(tmp_path / "t.json"))
    assert done.returncode != 0
    assert "2 PEs" in done.stderr
