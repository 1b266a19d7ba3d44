# SPDX-License-Identifier: BSD-3-Clause
"""Batch invariance: bits of rows in random batches, tiles, and who says which operation has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")
pytest.importorskip("hypothesis")
import torch

from pyshmem import fused
from pyshmem.cli.facts import BATCH_INVARIANT
from pyshmem.fused.matmul.arguments import Problem
from pyshmem.fused.matmul.tiles import config, linear_config
from pyshmem.interop import transformers

PROGRAM = Path(__file__).parent / "programs" / "batch_invariant.py"


def test_rows_have_the_same_bits_in_random_batches(run_pes: Callable) -> None:
    env = {"OMP_NUM_THREADS": "1", "PYSHMEM_TIMEOUT": "60"}
    done = run_pes(2, PROGRAM, (3,), device="sim", timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("kinds", ["norms,sums,moves", "attention,experts", "gathers,scatters"])
def test_random_splits_on_gpus(kinds: str, run_pes: Callable) -> None:
    """A thousand splits of a batch for each operation, eager and in graphs, with two PEs."""
    env = {"OMP_NUM_THREADS": "1", "CUDA_MODULE_LOADING": "EAGER"}
    given = kinds, 1000
    program = PROGRAM.with_name("batch_splits.py")
    done = run_pes(2, program, given, device="cuda", timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float32])
def test_tiles_do_not_depend_on_the_rows(dtype: torch.dtype) -> None:
    def tiles(invariant: bool) -> set:
        on_gpu = SimpleNamespace(is_cuda=True, dtype=dtype)
        w = SimpleNamespace(is_contiguous=lambda: True)
        found = set()
        for rows in (1, 17, 100, 5000, 100_000):
            given = [None] * 4
            p = Problem(
                "matmul_all_reduce", SimpleNamespace(n_pes=2), on_gpu, w, *given, torch.bfloat16,
                (rows, rows), False, 2 * rows, 4096, 4096, {}, invariant,
            )  # fmt: skip
            tile, launch = config(p)
            found.add((tile, *launch.items()))
        return found

    assert len(tiles(True)) == 1
    assert dtype == torch.float32 or len(tiles(False)) > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_tiles_of_linear_layers_follow_from_the_weights(dtype: torch.dtype) -> None:
    """How many rows there are is not among what tiles are chosen by."""
    on_gpu: Any = SimpleNamespace(is_cuda=True, dtype=dtype)
    assert list(inspect.signature(linear_config).parameters) == ["x", "n", "k"]
    for n, k in ((64, 64), (4096, 4000), (75968, 2048)):
        tile, _ = linear_config(on_gpu, n, k)
        assert tile.TRANSPOSED
        assert (k % tile.BK == 0) == tile.EVEN_K


def test_info_names_the_operations_that_have_the_option() -> None:
    with_option = {
        name
        for name in fused.__all__
        if inspect.isfunction(function := getattr(fused, name))
        and "batch_invariant" in inspect.signature(function).parameters
    }
    assert "batch_invariant" in inspect.signature(transformers.use).parameters
    with_option.add("interop.transformers.use")
    said = {name: how for names, how in BATCH_INVARIANT for name in names.split(", ")}
    assert with_option == {name for name, how in said.items() if "batch_invariant=True" in how}
    always = {name for name, how in said.items() if how.startswith("always")}
    assert {"expert_dispatch", "expert_combine", "all_reduce", "reduce_scatter"} <= always
    assert not with_option & always
