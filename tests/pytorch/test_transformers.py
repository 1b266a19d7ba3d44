# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.interop.transformers, vllm and sglang in jobs; the programs check themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")

from test_torch import PROGRAMS, run

#: Nothing is asked of a server.
OFFLINE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_MODULE_LOADING": "EAGER"}


def test_tiny_models_are_as_on_one_pe(run_pes: Callable) -> None:
    run(run_pes, 2, "models", device="sim")


def test_the_plugins_of_vllm_and_sglang(run_pes: Callable, tmp_path: Path) -> None:
    run(run_pes, 2, "engines", tmp_path / "store", device="sim")


@pytest.mark.long
def test_all_kinds_of_models_are_as_on_one_pe(run_pes: Callable) -> None:
    run(run_pes, 2, "models", "all", device="sim")


@pytest.mark.long
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
def test_groups_of_vllm_itself(run_pes: Callable, tmp_path: Path) -> None:
    run(run_pes, 2, "vllm_groups", tmp_path / "store", device="sim")


def test_tokens_a_second(run_pes: Callable) -> None:
    program = PROGRAMS.parents[2] / "bench" / "generate.py"
    done = run_pes(2, program, device="sim", timeout=200, env=OFFLINE, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(row["backend"], row["how"]) for row in rows] == [
        ("pyshmem", "eager"),
        ("gloo", "eager"),
    ]
    assert all(row["tokens_s"] > 0 for row in rows)


@pytest.mark.gpu
def test_the_plugins_of_vllm_and_sglang_on_gpus(run_pes: Callable, tmp_path: Path) -> None:
    run(run_pes, 2, "engines", tmp_path / "store", device="cuda")


@pytest.mark.gpu
def test_models_on_gpus(run_pes: Callable) -> None:
    done = run_pes(
        2, PROGRAMS / "models.py", ("all",), device="cuda", timeout=280, env=OFFLINE, check=True
    )
    assert done.stdout.splitlines().count("ok") == 2, done.stdout
