# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.interop.torch on the CPU, in jobs; the programs check themselves."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import check_under_torchrun

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
#: Threads of torch's beside those of each PE slow small machines down.
ALONE = {"OMP_NUM_THREADS": "1"}


def run(run_pes: Callable, n: int, name: str, *args: object, device: str = "none") -> None:
    done = run_pes(
        n, PROGRAMS / f"{name}.py", args, device=device, timeout=200, env=ALONE, check=True
    )
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_torch_distributed_on_cpu_tensors(n: int, run_pes: Callable) -> None:
    run(run_pes, n, "collectives")


@pytest.mark.parametrize(
    ("name", "arguments", "device"),
    [
        pytest.param("collectives", (), "none", id="backend"),
        pytest.param("matmuls", ("far",), "sim", id="products"),
        pytest.param("norms", ("small",), "sim", id="norms", marks=pytest.mark.long),
    ],
)
def test_the_backend_and_fused_operations_over_ucx(
    name: str, arguments: tuple[str, ...], device: str, run_pes: Callable
) -> None:
    """No PE reaches another by loads and stores, so fused operations are their plain forms."""
    nodes = {**ALONE, "PYSHMEM_CONDUIT": "ucx", "PYSHMEM_NODE_SIZE": "1", "PYSHMEM_P2P": "0"}
    program = PROGRAMS / f"{name}.py"
    done = run_pes(2, program, arguments, device=device, timeout=200, env=nodes, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


@pytest.mark.parametrize("n", [1, 3])
def test_operators(n: int, run_pes: Callable) -> None:
    run(run_pes, n, "operators")


@pytest.mark.parametrize("heap", ["host", "device"])
def test_symmetric_tensors(heap: str, run_pes: Callable) -> None:
    run(run_pes, 2, "tensors", heap, device="sim")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_staging_and_messages_on_a_stream_of_the_simulator(n: int, run_pes: Callable) -> None:
    run(run_pes, n, "simulated", device="sim")


def test_losses_of_ddp_and_fsdp_are_those_with_gloo(run_pes: Callable) -> None:
    run(run_pes, 2, "training")


def test_under_torchrun(run_command: Callable, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch.distributed as dist, pyshmem, pyshmem.interop.torch\n"
        "dist.init_process_group('pyshmem')\n"
        "x = torch.ones(3); dist.all_reduce(x); assert x[0] == dist.get_world_size() == 2\n"
        "assert pyshmem.my_pe() == dist.get_rank()\n"
        "dist.destroy_process_group(); print('ok', flush=True)\n"
    )
    check_under_torchrun(run_command, program, **ALONE)


def test_pes_that_disagree_are_told_in_checking_mode(run_pes: Callable) -> None:
    code = """
    import torch, torch.distributed as dist, pyshmem, pyshmem.interop.torch as symmetric
    symmetric.init_process_group()
    me = dist.get_rank()
    for wrong in (torch.ones(3 + me), torch.ones(2 + me, dtype=[torch.float64, torch.int32][me])):
        try:
            dist.all_reduce(wrong)
        except pyshmem.MismatchError as error:
            assert "reduce" in str(error), error
        else:
            raise AssertionError("not told")
    dist.destroy_process_group()
    print("ok", flush=True)
    """
    done = run_pes(2, code, env={**ALONE, "PYSHMEM_CHECK": "1"}, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == 2


def test_splits_that_disagree_are_told_in_checking_mode(run_pes: Callable) -> None:
    code = """
    import torch, torch.distributed as dist, pyshmem, pyshmem.interop.torch as symmetric
    symmetric.init_process_group()
    me, n = dist.get_rank(), dist.get_world_size()

    def told(calls, wanted):
        try:
            calls()
        except pyshmem.MismatchError as error:
            assert wanted in str(error), error
        else:
            raise AssertionError("not told")

    awaited = [1] * (n - 1) + [2 if me == 0 else 1]  # rank 0 awaits more than the last one sends
    out = torch.empty(sum(awaited))
    told(lambda: dist.all_to_all_single(out, torch.ones(n), awaited, [1] * n),
         f"rank {n - 1} sends 4 bytes to rank 0, which expects 8")
    outs = [torch.empty(1 + (me == 0)) for _ in range(n)]
    work = dist.all_to_all(outs, [torch.ones(1)] * n, async_op=True)
    told(work.wait, "rank 0 sends 4 bytes to rank 0, which expects 8")
    dist.all_to_all_single(out[:n], torch.full((n,), float(me)), [1] * n, [1] * n)  # it goes on
    assert out[:n].tolist() == list(range(n))
    dist.destroy_process_group()
    print("ok", flush=True)
    """
    done = run_pes(3, code, env={**ALONE, "PYSHMEM_CHECK": "1"}, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == 3


def test_a_dead_pe_is_told_to_who_waits_for_it(run_pes: Callable) -> None:
    code = """
    import os, torch, torch.distributed as dist, pyshmem, pyshmem.interop.torch as symmetric
    symmetric.init_process_group()
    if dist.get_rank() == 1:
        os._exit(7)
    try:
        dist.all_reduce(torch.ones(3))
    except pyshmem.PeerDied as error:
        print("told:", "PE 1" in str(error), flush=True)
        os._exit(0)
    """
    done = run_pes(2, code, env=ALONE, timeout=100)
    assert done.returncode != 0
    assert "told: True" in done.stdout or "PE 1" in done.stderr


def test_a_group_that_nobody_destroys_lets_its_process_end(run_pes: Callable) -> None:
    code = """
    import time, torch, torch.distributed as dist, pyshmem.interop.torch as symmetric
    symmetric.init_process_group()
    if dist.get_rank() == 1:
        time.sleep(0.3)  # the others' calls are not over when they ask for what comes behind
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.get_future().then(lambda _: (time.sleep(0.5), print("ok", flush=True)))
    work.wait()
    """
    done = run_pes(2, code, env=ALONE, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == 2


def test_importing_pyshmem_imports_no_torch(run_command: Callable) -> None:
    code = "import sys, pyshmem, pyshmem.interop; print('torch' in sys.modules)"
    assert run_command([sys.executable, "-c", code], 60, check=True).stdout == "False\n"


def test_the_example(run_pes: Callable) -> None:
    example = HERE.parents[1] / "examples" / "22_torch_ddp.py"
    text = example.read_text()
    assert len(text.splitlines()) <= 80
    assert f"python -m pyshmem run -n 4 examples/{example.name}" in text
    done = run_pes(2, example, timeout=200, env=ALONE, check=True)
    assert done.stdout.endswith(", as in one process: ok\n")


@pytest.mark.parametrize(
    "name", ["23_torch_tensor_parallel", "24_torch_mixture_of_experts", "25_torch_generate"]
)
def test_examples_of_fused_operations(name: str, run_pes: Callable) -> None:
    example = HERE.parents[1] / "examples" / f"{name}.py"
    (output,) = re.findall(r"^Output: (.*: ok)", example.read_text(), re.MULTILINE)
    done = run_pes(2, example, timeout=200, device="sim", env=ALONE, check=True)
    assert done.stdout == f"{output}\n"


def test_a_decode_step_by_one_kernel_and_by_many(run_pes: Callable) -> None:
    """Both are compared with float64 in the program, which raises where they are off."""
    program = HERE.parents[1] / "bench" / "decode_step.py"
    done = run_pes(2, program, device="sim", timeout=200, env=ALONE, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["how"].split(" ")[0] for row in rows[:-1]] == ["graph", "graph", "task"]
    assert 0 < rows[-1]["error"] < 1e-5


def test_the_figures_of_torch_s_collectives(run_pes: Callable) -> None:
    program, only_ours = HERE.parents[1] / "bench" / "torch_calls.py", ("--backends", "pyshmem")
    done = run_pes(3, program, only_ours, device="sim", timeout=120, env=ALONE, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert {row["op"] for row in rows} == {
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "ddp_step",
    }  # fmt: skip
    assert all(row["backend"] == "pyshmem" and row["us_host"] > 0 for row in rows)


def test_the_example_that_draws(run_pes: Callable, tmp_path: Path) -> None:
    example, picture = HERE.parents[1] / "examples" / "10_torch_mlp.py", tmp_path / "mlp.png"
    (output,) = re.findall(r"^Output: (.*: ok)", example.read_text(), re.MULTILINE)
    done = run_pes(2, example, ["--out", picture], timeout=200, device="sim", env=ALONE, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == output
    assert [line.partition(":")[0] for line in lines[:-1]] == [
        "torch + gloo",
        "pyshmem all_reduce_",
        "pyshmem fused",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.gpu
def test_on_gpus(run_pes: Callable) -> None:
    """Two PEs: on a GPU each where there are two, else on one."""
    variables = {**ALONE, "CUDA_MODULE_LOADING": "EAGER"}
    done = run_pes(2, PROGRAMS / "gpus.py", device="cuda", timeout=280, env=variables, check=True)
    assert done.stdout.splitlines().count("ok") == 2


@pytest.mark.gpu
def test_calls_of_gpus_tensors_go_by_cpp(run_pes: Callable) -> None:
    """All of them, whichever stream is the current one, and as Python's would."""
    done = run_pes(
        2, PROGRAMS / "gpu_streams.py", device="cuda", timeout=280, env=ALONE, check=True
    )
    assert done.stdout.count("ok") == 2
