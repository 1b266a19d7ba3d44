# SPDX-License-Identifier: BSD-3-Clause
"""Which algorithm a fused operation takes: rows of a call, of the environment, of ``tune fused``."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")
import torch

from pyshmem import fused
from pyshmem.bench.tune_fused import rows_of_times
from pyshmem.fused._shared import algorithm
from pyshmem.host.tuning import table


def test_rows_change_where_another_algorithm_is_clearly_faster() -> None:
    times = [{"a": 1.0, "b": 2.0}, {"a": 2.05, "b": 2.0}, {"a": 9.0, "b": 3.0}, {"b": 4.0}]
    assert rows_of_times([100, 400, 1600, 6400], times) == [[800, "a"], [None, "b"]]


def test_rows_of_the_environment() -> None:
    norm = "all_reduce_rmsnorm"
    found = algorithm.parse(f"{norm}:64K=pull, {norm} =two_shot,all_to_all:never=simple")
    assert found == {
        norm: ((65536, "pull"), (algorithm.NEVER, "two_shot")),
        "all_to_all": ((algorithm.NEVER, "simple"),),
    }
    with pytest.raises(ValueError, match=f"'{norm}' is not operation=algorithm"):
        algorithm.parse(norm)
    known = "no operation 'all_too_all' has algorithms; those that have are .*, all_to_all, "
    with pytest.raises(ValueError, match=f"PYSHMEM_FUSED: {known}"):
        algorithm.parse(f"{norm}=two_shot,all_too_all=ll")


def test_the_operations_that_have_algorithms_are_known() -> None:
    with_some = {
        name
        for name in fused.__all__
        if inspect.isfunction(function := getattr(fused, name))
        and "algorithm" in inspect.signature(function).parameters
    }
    assert with_some - {"replace_norms"} == set(
        algorithm.OPERATIONS
    )  # that gives it to one of them


FORMER = """
    import warnings
    import numpy as np
    import pyshmem
    from pyshmem import fused

    def told(call, text):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = call()
        said = [w for w in warned if w.category is DeprecationWarning]
        assert [text in str(w.message) for w in said] == [True], said
        assert said[0].filename.endswith((".py", "<string>")) and "pyshmem/" not in said[0].filename
        return result

    with pyshmem.init() as job:
        x = np.full((job.n_pes, 2), job.my_pe + 1.0, np.float32)
        want = fused.all_to_all(x, algorithm="simple").tolist()
        assert told(lambda: fused.all_to_all(x, road="ll"), "road= is algorithm=").tolist() == want
        slots = "'slots' is 'simple' now"
        assert told(lambda: fused.all_to_all(x, algorithm="slots"), slots).tolist() == want
        w = np.ones(8, np.float32)
        rows = np.ones((1, 8), np.float32)
        two = told(lambda: fused.all_reduce_rmsnorm(rows, w, algorithm="two_stages"), "is 'two_shot'")
        assert two.residual.tolist() == [[job.n_pes] * 8]
        try:
            fused.all_to_all(x, road="ll", algorithm="ll")
            raise SystemExit("both names went on")
        except TypeError as error:
            assert "give one of them" in str(error)
    print("ok")
"""


def test_former_names_are_taken_and_warn(run_pes: Callable) -> None:
    done = run_pes(2, FORMER, device="sim", check=True)
    assert done.stdout.splitlines() == ["ok", "ok"]
    with pytest.warns(DeprecationWarning, match="'split' is 'two_shot' now"):
        assert algorithm.parse("all_reduce_rmsnorm=split") == {
            "all_reduce_rmsnorm": ((algorithm.NEVER, "two_shot"),)
        }


def test_replace_norms_takes_the_former_name() -> None:
    with pytest.warns(DeprecationWarning, match="road= is algorithm="):  # noqa: SIM117
        with pytest.raises(ValueError, match="nothing to replace"):
            fused.replace_norms(torch.nn.Linear(2, 2), road="pull")


CHOICES = """
    import pyshmem
    from pyshmem.fused._shared import algorithm as choice
    from pyshmem.fused._shared.workspace import workspace

    with pyshmem.init() as job:
        space = workspace(pyshmem.TEAM_WORLD)
        rows = ((100, "a"), (choice.NEVER, "b"))
        can = {"a": None, "b": None, "c": "it is Sunday"}
        def choose(size, can=can, algorithm=None):
            return choice.choose(space, "op", size, can, rows, algorithm)
        assert (choose(100), choose(101), choose(5, algorithm="b")) == ("a", "b", "b")
        assert choose(5, {"a": "no", "c": None}) == "c"
        for algorithm, said in (
            ("c", "it is Sunday; algorithms that can: a, b"), ("d", "has no algorithm 'd'"),
        ):
            try:
                choose(5, algorithm=algorithm)
                raise SystemExit("it went on")
            except ValueError as error:
                assert said in str(error)
        try:
            choice.choose(space, "all_to_all", 1, can, rows)
            raise SystemExit("an algorithm of PYSHMEM_FUSED that there is not went on")
        except ValueError as error:
            assert "PYSHMEM_FUSED: all_to_all has no algorithm 'z'; it has a, b, c" in str(error)
        try:
            choice.choose(space, "other", 1, can, ((1 + job.my_pe, "a"),))
            raise SystemExit("rows that differ went on")
        except pyshmem.MismatchError as error:
            assert "PE 1: rows of other: ((2, 'a'),)" in str(error)
    print("ok")
"""


def test_members_take_one_algorithm(run_pes: Callable) -> None:
    done = run_pes(2, CHOICES, device="sim", check=True, env={"PYSHMEM_FUSED": "all_to_all=z"})
    assert done.stdout.splitlines() == ["ok", "ok"]


SPLITS = """
    import pyshmem
    import torch
    from pyshmem import fused

    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        even, x = [1] * n, torch.full((n, 2), float(me))
        # The last member sends all it has to PE 0, which waits for one row of each.
        sent = [n] + [0] * (n - 1) if me == n - 1 else even
        for _ in range(2):
            try:
                fused.all_to_all(x, output_splits=even, input_splits=sent)
                raise SystemExit("splits that differ went on")
            except pyshmem.MismatchError as error:
                assert f"PE {n - 1} has {n} rows for PE 0, which has output_splits for 1" in str(error)
            y = fused.all_to_all(x, output_splits=even, input_splits=even)  # nothing was left behind
            assert y[:, 0].tolist() == list(range(n)), y
    print("ok")
"""


@pytest.mark.parametrize("n", [2, 3])
def test_splits_that_differ_are_told_without_checking_mode(n: int, run_pes: Callable) -> None:
    done = run_pes(n, SPLITS, device="sim", check=True, env={"PYSHMEM_TIMEOUT": "20"})
    assert done.stdout.splitlines() == ["ok"] * n


def test_tune_fused_writes_rows_that_jobs_read(
    run_command: Callable, run_pes: Callable, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "pyshmem", "tune", "fused", "-n", "2", "--device", "sim"]
    path = tmp_path / "tuned.json"
    run_command([*command, "-o", str(path)], 200, check=True, OMP_NUM_THREADS="1")
    (made,) = table.read(path.read_text(), "it")
    assert made.key == ("simulator", "none", 1)
    known = {"all_reduce_rmsnorm", "matmul_all_reduce", "all_to_all"}
    assert {algorithm.row_name(op) for op in known} <= made.rows.keys()
    assert all(rows[-1][0] == algorithm.NEVER for rows in made.rows.values())
    made.rows[algorithm.row_name("op")] = ((7, "x"), (algorithm.NEVER, "y"))
    path.write_text(table.text_of([made]))
    program = """
        import pyshmem
        from pyshmem.fused._shared import algorithm, workspace

        with pyshmem.init():
            print(algorithm.rows_of(workspace.workspace(pyshmem.TEAM_WORLD), "op", (), {}))
    """
    env = {"PYSHMEM_TUNE_FILE": str(path)}
    done = run_pes(2, program, device="sim", env=env, check=True)
    assert done.stdout.splitlines() == [str(((7, "x"), (algorithm.NEVER, "y")))] * 2


def test_a_file_of_an_older_tune_fused_counts(run_pes: Callable, tmp_path: Path) -> None:
    """It had a format of its own, and stood beside the other in the user's folder."""
    old = {"gpu": "simulator", "n_pes": 2, "rows": {"op": [[7, "x"], [None, "y"]]}}
    (tmp_path / "fused.json").write_text(json.dumps({"format": 1, "tables": [old]}))
    (tmp_path / "cutover.json").write_text('{"format": 1, "tables": []}')
    program = """
        import pyshmem
        from pyshmem.fused._shared import algorithm, workspace

        with pyshmem.init():
            print(algorithm.rows_of(workspace.workspace(pyshmem.TEAM_WORLD), "op", (), {}))
    """
    env = {"PYSHMEM_TUNE_FILE": str(tmp_path / "cutover.json")}
    done = run_pes(2, program, device="sim", env=env, check=True)
    assert done.stdout.splitlines() == [str(((7, "x"), (algorithm.NEVER, "y")))] * 2
