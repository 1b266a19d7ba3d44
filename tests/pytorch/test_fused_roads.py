# SPDX-License-Identifier: BSD-3-Clause
"""Which road a fused operation takes: rows of a call, of the environment, of ``tune fused``."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from pyshmem import fused
from pyshmem.bench.tune_fused import rows_of_times
from pyshmem.fused._shared import algorithm as roads
from pyshmem.host.tuning import table


def test_rows_change_where_another_road_is_clearly_faster() -> None:
    times = [{"a": 1.0, "b": 2.0}, {"a": 2.05, "b": 2.0}, {"a": 9.0, "b": 3.0}, {"b": 4.0}]
    assert rows_of_times([100, 400, 1600, 6400], times) == [[800, "a"], [None, "b"]]


def test_rows_of_the_environment() -> None:
    norm = "all_reduce_rmsnorm"
    found = roads.parse(f"{norm}:64K=pull, {norm} =split,all_to_all:never=slots")
    assert found == {
        norm: ((65536, "pull"), (roads.NEVER, "split")),
        "all_to_all": ((roads.NEVER, "slots"),),
    }
    with pytest.raises(ValueError, match=f"'{norm}' is not operation=road"):
        roads.parse(norm)
    known = "no operation 'all_too_all' has roads; those that have are .*, all_to_all, "
    with pytest.raises(ValueError, match=f"PYSHMEM_FUSED: {known}"):
        roads.parse(f"{norm}=split,all_too_all=ll")


def test_the_operations_that_have_roads_are_known() -> None:
    with_roads = {
        name
        for name in fused.__all__
        if inspect.isfunction(function := getattr(fused, name))
        and "road" in inspect.signature(function).parameters
    }
    assert with_roads - {"replace_norms"} == set(roads.OPERATIONS)  # that gives it to one of them


CHOICES = """
    import pyshmem
    from pyshmem.fused._shared import algorithm as roads
    from pyshmem.fused._shared.workspace import workspace

    with pyshmem.init() as job:
        space = workspace(pyshmem.TEAM_WORLD)
        rows = ((100, "a"), (roads.NEVER, "b"))
        can = {"a": None, "b": None, "c": "it is Sunday"}
        def choose(size, can=can, road=None):
            return roads.choose(space, "op", size, can, rows, road)
        assert (choose(100), choose(101), choose(5, road="b")) == ("a", "b", "b")
        assert choose(5, {"a": "no", "c": None}) == "c"
        for road, said in (("c", "it is Sunday; roads that can: a, b"), ("d", "has no road 'd'")):
            try:
                choose(5, road=road)
                raise SystemExit("it went on")
            except ValueError as error:
                assert said in str(error)
        try:
            roads.choose(space, "all_to_all", 1, can, rows)
            raise SystemExit("a road of PYSHMEM_FUSED that there is not went on")
        except ValueError as error:
            assert "PYSHMEM_FUSED: all_to_all has no road 'z'; it has a, b, c" in str(error)
        try:
            roads.choose(space, "other", 1, can, ((1 + job.my_pe, "a"),))
            raise SystemExit("rows that differ went on")
        except pyshmem.MismatchError as error:
            assert "PE 1: rows of other: ((2, 'a'),)" in str(error)
    print("ok")
"""


def test_members_take_one_road(run_pes: Callable) -> None:
    done = run_pes(2, CHOICES, device="sim", check=True, env={"PYSHMEM_FUSED": "all_to_all=z"})
    assert done.stdout.splitlines() == ["ok", "ok"]


def test_tune_fused_writes_rows_that_jobs_read(
    run_command: Callable, run_pes: Callable, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "pyshmem", "tune", "fused", "-n", "2", "--device", "sim"]
    path = tmp_path / "tuned.json"
    run_command([*command, "-o", str(path)], 200, check=True, OMP_NUM_THREADS="1")
    (made,) = table.read(path.read_text(), "it")
    assert made.key == ("simulator", "none", 1)
    known = {"all_reduce_rmsnorm", "matmul_all_reduce", "all_to_all"}
    assert {roads.row_name(op) for op in known} <= made.rows.keys()
    assert all(rows[-1][0] == roads.NEVER for rows in made.rows.values())
    made.rows[roads.row_name("op")] = ((7, "x"), (roads.NEVER, "y"))
    path.write_text(table.text_of([made]))
    program = """
        import pyshmem
        from pyshmem.fused._shared import algorithm as roads, workspace

        with pyshmem.init():
            print(roads.rows_of(workspace.workspace(pyshmem.TEAM_WORLD), "op", (), {}))
    """
    env = {"PYSHMEM_TUNE_FILE": str(path)}
    done = run_pes(2, program, device="sim", env=env, check=True)
    assert done.stdout.splitlines() == [str(((7, "x"), (roads.NEVER, "y")))] * 2


def test_a_file_of_an_older_tune_fused_counts(run_pes: Callable, tmp_path: Path) -> None:
    """It had a format of its own, and stood beside the other in the user's folder."""
    old = {"gpu": "simulator", "n_pes": 2, "rows": {"op": [[7, "x"], [None, "y"]]}}
    (tmp_path / "fused.json").write_text(json.dumps({"format": 1, "tables": [old]}))
    (tmp_path / "cutover.json").write_text('{"format": 1, "tables": []}')
    program = """
        import pyshmem
        from pyshmem.fused._shared import algorithm as roads, workspace

        with pyshmem.init():
            print(roads.rows_of(workspace.workspace(pyshmem.TEAM_WORLD), "op", (), {}))
    """
    env = {"PYSHMEM_TUNE_FILE": str(tmp_path / "cutover.json")}
    done = run_pes(2, program, device="sim", env=env, check=True)
    assert done.stdout.splitlines() == [str(((7, "x"), (roads.NEVER, "y")))] * 2
