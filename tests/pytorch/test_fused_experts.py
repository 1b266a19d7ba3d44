# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: moves of parts, tokens to experts and back, flash decode; the program checks itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")

from test_torch import ALONE, PROGRAMS, run

FAR = {"PYSHMEM_P2P": "0", "PYSHMEM_CHECK": "1"}


@pytest.mark.parametrize("n", [1, 3])
def test_moves_experts_and_attention(n: int, run_pes: Callable) -> None:
    run(run_pes, n, "fused_tokens", device="sim")


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 2])
def test_on_gpus_and_in_graphs(n: int, run_pes: Callable) -> None:
    program = PROGRAMS / "fused_tokens.py"  # with all the kernels that it compiles
    done = run_pes(n, program, device="cuda", timeout=400, env=ALONE, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


def test_by_requests_and_with_checks(run_pes: Callable) -> None:
    """PEs out of reach of loads and stores; calls that differ are refused."""
    program, settings = PROGRAMS / "fused_tokens.py", {**ALONE, **FAR}
    done = run_pes(2, program, device="sim", timeout=200, env=settings, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


@pytest.mark.parametrize(
    "call",
    [
        "fused.expert_dispatch(x, ids, 2, max_tokens=2)",
        "fused.all_gather_group_matmul(x, torch.ones(2, 4, 4), ids)",
    ],
)
def test_an_expert_that_there_is_not_ends_the_job_from_the_kernel(
    call: str, run_pes: Callable
) -> None:
    code = f"""
    import torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        x, ids = torch.zeros(2, 4), torch.tensor([[0, 1], [-1, 5 + job.my_pe]])
        {call}
        pyshmem.barrier_all()
    """
    done = run_pes(2, code, device="sim", env=ALONE, timeout=60)
    assert done.returncode != 0
    told = re.search(
        r"abort\(1\): topk_ids\[1\]: no expert (\d) \(block", done.stdout + done.stderr
    )
    assert told, done.stderr
    assert told[1] in "56"


@pytest.mark.parametrize("wrong", [2**32 + 1, -1 - 2**32])
def test_experts_that_int32_has_no_room_for_are_none(wrong: int, run_pes: Callable) -> None:
    code = f"""
    import torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        ids = torch.tensor([[0], [{wrong}]])
        fused.all_gather_group_matmul(torch.zeros(2, 4), torch.ones(3, 4, 4), ids)
    """
    done = run_pes(1, code, device="sim", env=ALONE, timeout=60)
    assert done.returncode != 0
    assert re.search(r"topk_ids\[1\]: no expert -?21474836\d\d", done.stderr), done.stderr


def test_tokens_that_left_before_an_error_are_taken_from_the_link(run_pes: Callable) -> None:
    code = """
    import pytest, torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        x, ids = torch.full((4, 8), job.my_pe + 1.0), torch.zeros(4, 1, dtype=torch.int64)
        for _ in range(2):
            with pytest.raises(ValueError, match="low_latency_all_gather has no algorithm 'best'"):
                fused.all_gather_group_matmul(x, torch.ones(1, 8, 2), ids, algorithm="copy_engine")
        found = fused.all_gather_matmul(x + 1, torch.ones(8, 2), algorithm="copy_engine")
        assert found[:, 0].tolist() == [16.0] * 4 + [24.0] * 4 + [32.0] * 4
    print("ok")
    """
    wrong = {**ALONE, "PYSHMEM_FUSED": "low_latency_all_gather=best", "PYSHMEM_TIMEOUT": "20"}
    done = run_pes(3, code, device="sim", env=wrong, timeout=60, check=True)
    assert done.stdout == "ok\n" * 3


#: A member's own work of two streams: what it does on each, and where they are joined.
ORDERED = """
    import torch, pyshmem, pyshmem.fused as fused
    from pyshmem.fused._shared.copy_engine import CopyChannel, SideStream
    from pyshmem.fused.moe import dispatch

    log, kernel = [], dispatch.dispatch_by_engine

    def logged(kind, name):
        do = getattr(kind, name)
        def call(self, *given, **named):
            log.append((name, given[0]))
            return do(self, *given, **named)
        setattr(kind, name, call)

    class Kernel:
        def __getitem__(self, grid):
            log.append(("kernel", None))
            return kernel[grid]

    dispatch.dispatch_by_engine = Kernel()
    for name in ("claim", "send", "release"):
        logged(CopyChannel, name)
    logged(SideStream, "join")
    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        for tokens in ([0, 3], [2, 0], [0, 0], [2, 2]):
            x, ids = torch.ones(tokens[me], 8), torch.zeros(tokens[me], 2, dtype=torch.int64)
            log.clear()
            way = dict(max_tokens=3, mode="throughput", algorithm="copy_engine")
            rows, _ = fused.expert_dispatch(x, ids, 2 * n, **way)
            assert len(rows) == (0 if me else sum(tokens))
            names, others = [name for name, _ in log], {(me + k) % n for k in range(1, n)}
            before = names.index("kernel")
            claimed = {member for name, member in log[:before] if name == "claim"}
            sent = {member for name, member in log[:before] if name == "send"}
            last = max(at for at, name in enumerate(names) if name == "claim")
            joined = "join" in names[last:before]
            assert claimed == others and (joined or sent == others), (tokens, log)
            assert {member for name, member in log[before:] if name == "release"} == others
            assert names[-1] == "join"
    print("ok", flush=True)
"""


def test_members_without_tokens_claim_before_others_may_release(run_pes: Callable) -> None:
    """On GPUs claims are on another stream than the kernel whose numbers let others release.

    A member with tokens is released by who has waited for them, which come behind the claim.
    """
    done = run_pes(2, ORDERED, device="sim", env=ALONE, timeout=200, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


INTERRUPTED = """
    import sys
    import torch, pyshmem, pyshmem.fused as fused
    from pyshmem.fused.moe.numbers import Numbers

    def interrupted(numbers):
        Numbers.wait = wait
        raise KeyboardInterrupt

    def given(pe, number, tokens):
        x = torch.arange(8.0).repeat(tokens, 1) + 1000 * pe + 100 * number
        x += torch.arange(tokens)[:, None]
        return x, (torch.arange(tokens * k).view(tokens, k) + pe) % (2 * n)

    def send(number, *tokens):
        every = [given(pe, number, many) for pe, many in enumerate(tokens)]
        rows, handle = fused.expert_dispatch(*every[me], 2 * n)
        here = [x[((ids // 2) == me).any(1)] for x, ids in every]
        assert torch.equal(rows, torch.cat(here)), number

    wait, k = Numbers.wait, int(sys.argv[1])
    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        send(0, *[2] * n)
        for number, many in enumerate((9, 1)):
            if me == 0:
                Numbers.wait = interrupted
            try:
                send(1 + 3 * number, 2, *[many] * (n - 1))  # the others have all tokens
                assert me
            except KeyboardInterrupt:
                assert me == 0
            if number == 0:
                found = fused.low_latency_all_gather(torch.full((1,), me), algorithm="simple")
                assert found.tolist() == list(range(n))
            send(2 + 3 * number, *[3] * n)
    print("ok", flush=True)
"""


@pytest.mark.parametrize(("n", "k", "checks"), [(2, 2, "0"), (2, 2, "1"), (3, 1, "0")])
def test_a_member_that_was_interrupted_guesses_as_the_others_do(
    n: int, k: int, checks: str, run_pes: Callable
) -> None:
    """The host waits before tokens move, or while they do; the first of both calls is made twice."""
    settings = {**ALONE, "PYSHMEM_CHECK": checks}
    done = run_pes(n, INTERRUPTED, [k], device="sim", env=settings, timeout=60, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("triton")
    environment = dict(os.environ, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(folder))
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("experts_cases.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)["ptx"]


def test_kernels_compile_for_gpus_with_wide_accesses(ptx: dict[str, str]) -> None:
    for name in (
        "exchange_rows", "dispatch_tokens", "dispatch_at_once", "combine_tokens", "sum_of_choices",
        "pairs_of_gradients", "dispatch_by_engine",
    ):  # fmt: skip
        text = ptx[f"{name}-90"]
        assert "st.global.v4.b32" in text, name
        assert ".local." not in text, f"{name} spills"
        stores = re.findall(r"st\.global\.(?:b16|v2\.b16|b8)", text)
        assert not stores, f"{name} stores data in small pieces: {stores}"
    assert "st.global.wt.b64" in ptx["dispatch_at_once-90"], "numbers for the host"
    assert "st.release.sys.global" in ptx["dispatch_decode-90"]
    assert "cvt.rn.satfinite.e4m3x2.f32" in ptx["dispatch_decode-90"]
    # ptxas 12.8 loses scales of NVFP4 that this instruction made: fused/formats/block_kernels.py
    assert "cvt.rn.satfinite.e4m3x2.f32" not in ptx["dispatch_decode_nvfp4-90"]
    # Scales are stored two at a time: of 448 a row, whose number is a constant.
    assert "st.global.b8" not in ptx["dispatch_decode_nvfp4-90"]
    assert "st.global.b16" in ptx["dispatch_decode_nvfp4-90"]
    assert "ld.acquire.sys.global.b64" in ptx["await_word-90"]
    assert "%globaltimer" in ptx["await_word-90"], "its deadline"
    for name in ("decode_parts", "own_parts", "group_matmul_tiles", "group_matmul_weights"):
        assert re.search(r"mma\.sync|wgmma", ptx[f"{name}-90"]), name
