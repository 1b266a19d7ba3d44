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


@pytest.mark.parametrize(("n", "kinds"), [(2, "llama,qwen3,mixtral"), (3, "llama"), (4, "mixtral")])
def test_models_have_the_bits_of_one_pe_that_adds_in_pe_order(
    n: int, kinds: str, run_pes: Callable
) -> None:
    run(run_pes, n, "ordered_models", kinds, device="sim")


def test_logits_have_the_same_bits_in_any_batch(run_pes: Callable) -> None:
    run(run_pes, 2, "invariant_models", device="sim")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["llama", "qwen3", "mixtral", "qwen3_moe"])
def test_logits_of_all_kinds_have_the_same_bits(kind: str, run_pes: Callable) -> None:
    run(run_pes, 2, "invariant_models", kind, "2,17,64", device="sim")


def test_the_plugins_of_vllm_and_sglang(run_pes: Callable, tmp_path: Path) -> None:
    run(run_pes, 2, "engines", tmp_path / "store", device="sim")


@pytest.mark.long
def test_all_kinds_of_models_are_as_on_one_pe(run_pes: Callable) -> None:
    run(run_pes, 2, "models", "all", device="sim")


@pytest.mark.long
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
def test_groups_of_vllm_itself(run_pes: Callable, tmp_path: Path) -> None:
    run(run_pes, 2, "vllm_groups", tmp_path / "store", device="sim")


@pytest.mark.long
@pytest.mark.parametrize("batch_invariant", ["0", "1"])
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM's sources are not found")
def test_vllms_own_communicator_behind_ours(
    batch_invariant: str, run_pes: Callable, tmp_path: Path
) -> None:
    env = {**OFFLINE, "VLLM_BATCH_INVARIANT": batch_invariant}
    given, program = (tmp_path / "store",), PROGRAMS / "vllm_cuda.py"
    done = run_pes(2, program, given, device="none", timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


@pytest.mark.long
@pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang's sources are not found")
def test_sglangs_own_plugins_and_hooks(run_pes: Callable, tmp_path: Path) -> None:
    run(run_pes, 2, "sglang_hooks", tmp_path / "store")


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
@pytest.mark.parametrize("kind", ["llama", "qwen3", "mixtral"])
def test_logits_have_the_same_bits_on_gpus(kind: str, run_pes: Callable) -> None:
    """Of larger models, eager and in graphs; near logits of one GPU."""
    given, program = (kind, "1,2,7,16,32"), PROGRAMS / "invariant_models.py"
    done = run_pes(2, program, given, device="cuda", timeout=280, env=OFFLINE, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


@pytest.mark.gpu
def test_models_on_gpus(run_pes: Callable) -> None:
    done = run_pes(
        2, PROGRAMS / "models.py", ("all",), device="cuda", timeout=280, env=OFFLINE, check=True
    )
    assert done.stdout.splitlines().count("ok") == 2, done.stdout
