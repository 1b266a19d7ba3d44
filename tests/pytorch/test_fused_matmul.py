# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: matrix products that communicate, in jobs; the program checks itself."""

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

HERE = Path(__file__).parent
PROGRAM = HERE / "programs" / "matmuls.py"
ALONE = {"OMP_NUM_THREADS": "1"}


def run(run_pes: Callable, n: int, *args: object, device: str = "sim", **variables: str) -> None:
    env = {**ALONE, **variables}
    done = run_pes(n, PROGRAM, args, device=device, timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.parametrize("n", [1, 2, 3])
def test_all_roads_against_float64(n: int, run_pes: Callable) -> None:
    run(run_pes, n)


@pytest.mark.parametrize(("n", "calls"), [(2, 40), (4, 8)])
def test_calls_in_random_sequences(n: int, calls: int, run_pes: Callable) -> None:
    program, env = PROGRAM.with_name("sequences.py"), {**ALONE, "PYSHMEM_TIMEOUT": "60"}
    done = run_pes(n, program, (1, calls), device="sim", timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.parametrize("n", [2, 3])
def test_an_error_in_the_middle_of_a_call_leaves_the_next_one_working(
    n: int, run_pes: Callable
) -> None:
    program, env = PROGRAM.with_name("fused_errors.py"), {**ALONE, "PYSHMEM_TIMEOUT": "20"}
    done = run_pes(n, program, device="sim", timeout=280, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


def test_peers_out_of_reach_and_members_that_disagree(run_pes: Callable) -> None:
    run(run_pes, 2, "far", PYSHMEM_P2P="0", PYSHMEM_CHECK="1")


def test_members_that_store_into_out_compare_where_it_is(run_pes: Callable) -> None:
    code = """
    import pytest, torch, pyshmem, pyshmem.fused as fused, pyshmem.interop.torch as tensors
    with pyshmem.init() as job:
        room = tensors.zeros(3, 32, 16, heap="device")
        x, w = torch.ones(32, 8), torch.ones(8, 16)
        for out in (room[1], torch.empty(32, 16)):
            fused.matmul_all_reduce(x, w, out=out, algorithm="copy_engine")
            assert torch.equal(out, torch.full((32, 16), 16.0))
        assert not room[0].any() and not room[2].any()
        before = room.clone()
        for out in (room[job.my_pe], (room[2], torch.empty(32, 16))[job.my_pe]):
            with pytest.raises(pyshmem.MismatchError, match="place of matmul_all_reduce"):
                fused.matmul_all_reduce(x, w, out=out, algorithm="copy_engine")
        assert torch.equal(room, before)
    print("ok")
    """
    env = {**ALONE, "PYSHMEM_CHECK": "1"}
    done = run_pes(2, code, device="sim", env=env, timeout=100, check=True)
    assert done.stdout == "ok\nok\n"


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_members_store_into_an_out_that_is_registered(
    run_pes: Callable, device: str, check: str
) -> None:
    code = """
    import os, pytest, torch, pyshmem, pyshmem.fused as fused
    from pyshmem.fused.matmul import copy_engine_of_two
    with pyshmem.init() as job:
        where = f"cuda:{job.gpu}" if job.device == "cuda" else "cpu"
        x, w = torch.ones(32, 8, device=where), torch.full((8, 16), 1.0 + job.my_pe, device=where)
        room, other = (torch.full((3, 32, 16), -1.0, device=where) for _ in range(2))
        copied, exchange = [], copy_engine_of_two._exchange_sums
        copy_engine_of_two._exchange_sums = lambda *given: copied.append(exchange(*given))
        call = lambda out: fused.matmul_all_reduce(x, w, out=out, algorithm="copy_engine")
        with pyshmem.register(room), pyshmem.register(other):
            for turn in range(3):
                out = room[1].fill_(-1)
                call(out)
                assert torch.equal(out, torch.full((32, 16), 24.0, device=where)), out
            assert not copied
            call(torch.empty(32, 16, device=where))
            assert copied
            if where != "cpu":
                torch.cuda.synchronize()
            if os.environ["PYSHMEM_CHECK"] == "1":
                plain = torch.empty(32, 16, device=where)
                for out in (room[2 * job.my_pe], (room[2], plain)[job.my_pe]):
                    with pytest.raises(pyshmem.MismatchError, match="place of matmul_all_reduce"):
                        call(out)
            if where != "cpu":  # as part of a graph too
                stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    call(room[1])
                room[1].fill_(-1)
                pyshmem.barrier_all()
                graph.replay()
                torch.cuda.synchronize()
                assert torch.equal(room[1], torch.full((32, 16), 24.0, device=where))
            assert (room[0] == -1).all() and (room[2] == -1).all() and (other == -1).all()
            pyshmem.barrier_all()
        out = room[1].fill_(-1)  # no longer
        call(out)
        assert torch.equal(out, torch.full((32, 16), 24.0, device=where)), out
    print("ok")
    """
    env = {**ALONE, "PYSHMEM_CHECK": check}
    done = run_pes(2, code, device=device, env=env, timeout=100, check=True)
    assert done.stdout == "ok\nok\n"


def test_a_bias_is_that_of_the_member_whose_row_it_is_by_all_roads(run_pes: Callable) -> None:
    code = """
    import torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        x, w = torch.ones(n + 2, 8), torch.ones(8, 6)
        rows = fused.share_of_rows(n + 2, n)
        first = sum(rows[:me])
        for biases in ([torch.full((6,), 10.0 * pe + 1) for pe in range(n)], [torch.ones(6), None]):
            bias = biases[min(me, len(biases) - 1)]
            owed = [biases[min(pe, len(biases) - 1)] for pe in range(n)]
            owed = torch.cat([(0 if one is None else one) + torch.zeros(many, 6)
                              for one, many in zip(owed, rows)])
            for algorithm in ("copy_engine", "persistent", "unfused"):
                for activation in (None, "relu"):
                    options = {"bias": bias, "activation": activation, "algorithm": algorithm}
                    all_rows = fused.matmul_all_reduce(x, w, **options)
                    assert torch.equal(all_rows, 8 * n + owed), (algorithm, all_rows)
                    mine = fused.matmul_reduce_scatter(x, w, **options)
                    assert torch.equal(mine, all_rows[first : first + rows[me]]), algorithm
    print("ok")
    """
    done = run_pes(3, code, device="sim", env=ALONE, timeout=100, check=True)
    assert done.stdout == "ok\n" * 3


def test_operators_have_derivatives_with_arguments_left_out(run_pes: Callable) -> None:
    code = """
    import torch, pyshmem, pyshmem.fused
    names = "all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"
    with pyshmem.init() as job:
        for call in (getattr(torch.ops.pyshmem, name) for name in names):
            x = torch.ones(2 * job.n_pes, 6, requires_grad=True)
            w = torch.ones(6, 5, requires_grad=True)

            def loss(x, w):
                found = call(x, w)
                return (found[0] if isinstance(found, tuple) else found).sum()

            wanted = torch.autograd.grad(loss(x, w), (x, w))
            assert x.shape == wanted[0].shape and (wanted[0] % 5 == 0).all() and wanted[0].any()
            compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
            for rows in (2 * job.n_pes, 3 * job.n_pes + 1):  # of any number by one graph
                x = torch.ones(rows, 6, requires_grad=True)
                wanted = torch.autograd.grad(loss(x, w), (x, w))
                found = torch.autograd.grad(compiled(x, w), (x, w))
                assert all(map(torch.equal, found, wanted))
    print("ok")
    """
    done = run_pes(2, code, device="sim", env=ALONE, timeout=200, check=True)
    assert done.stdout == "ok\nok\n"


def test_numbers_of_rows_may_be_arrays_and_do_not_make_results_such(run_pes: Callable) -> None:
    code = """
    import numpy as np, torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        ones, w = np.ones(n, np.int64), torch.ones(8, 6)
        x = torch.ones(1, 8, requires_grad=True)
        for counts in (ones, torch.from_numpy(ones), ones.tolist(), list(ones)):
            product = fused.all_gather_matmul(x, w, rows=counts)
            assert isinstance(product, torch.Tensor) and product.requires_grad
            every = torch.full((n, 3), float(me))
            for out in (None, torch.empty(n, 3)):
                moved = fused.all_to_all(every, output_splits=counts, input_splits=counts, out=out)
                assert isinstance(moved, torch.Tensor) and moved[:, 0].tolist() == list(range(n))
        with torch.no_grad():
            assert isinstance(fused.all_gather_matmul(x, w.numpy(), rows=ones), torch.Tensor)
            assert isinstance(fused.all_gather_matmul(x.numpy(), w, rows=ones), np.ndarray)
    print("ok")
    """
    done = run_pes(2, code, device="sim", env=ALONE, timeout=100, check=True)
    assert done.stdout == "ok\nok\n"


def test_a_team_that_operators_do_not_know_is_made_known_before_compiling(
    run_pes: Callable,
) -> None:
    code = """
    import pytest, torch, pyshmem, pyshmem.fused as fused, pyshmem.interop.torch as tensors
    with pyshmem.init() as job:
        team = pyshmem.TEAM_WORLD.split(0)
        x, w = torch.ones(4, 8), torch.ones(8, 6)

        def product(x, w):
            return fused.matmul_all_reduce(x, w, team=team)

        with pytest.raises(Exception, match=r"register_team\\(team, staging=0\\) once before"):
            torch.compile(product, fullgraph=True, backend="aot_eager")(x, w)
        torch._dynamo.reset()
        tensors.register_team(team, staging=0)
        found = torch.compile(product, fullgraph=True, backend="aot_eager")(x, w)
        assert torch.equal(found, torch.full((4, 6), 8.0 * job.n_pes))
    print("ok")
    """
    done = run_pes(2, code, device="sim", env=ALONE, timeout=200, check=True)
    assert done.stdout == "ok\nok\n"


def test_what_torch_would_not_write_to_is_refused_before_anything_leaves(run_pes: Callable) -> None:
    code = """
    import pytest, torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        x, w = torch.ones(32, 8), torch.ones(8, 16)
        for call in (fused.all_gather_matmul, fused.matmul_reduce_scatter, fused.matmul_all_reduce):
            with torch.inference_mode():
                out = call(x, w, algorithm="copy_engine")
                assert call(x, w, out=out, algorithm="copy_engine") is out
            with pytest.raises(RuntimeError, match="out was made in inference mode"):
                call(x, w, out=out, algorithm="copy_engine")
            assert torch.equal(call(x, w, algorithm="copy_engine"), out)
    print("ok")
    """
    env = {**ALONE, "PYSHMEM_TIMEOUT": "20"}
    done = run_pes(2, code, device="sim", env=env, timeout=100, check=True)
    assert done.stdout == "ok\nok\n"


def test_memory_of_destroyed_teams_is_used_again(run_pes: Callable) -> None:
    code = """
    import torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init(device_heap_size="8M") as job:
        x, w = torch.ones(256, 16), torch.ones(16, 256)
        for _ in range(16):
            with pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes) as team:
                for algorithm in ("copy_engine", "unfused"):
                    out = fused.matmul_all_reduce(x, w, team=team, algorithm=algorithm)
                    assert torch.equal(out, torch.full((256, 256), 16.0 * job.n_pes))
                fused.all_reduce_rmsnorm(torch.ones(4, 64), torch.ones(64), team=team)
    print("ok")
    """
    done = run_pes(2, code, device="sim", env=ALONE, timeout=200, check=True)
    assert done.stdout == "ok\nok\n"


def test_waits_of_links_have_a_deadline(run_pes: Callable) -> None:
    """On GPUs a kernel waits where PYSHMEM_TIMEOUT is set; in the interpreter it is called by itself."""
    code = """
    import torch, pytest, pyshmem
    from pyshmem.fused._shared import copy_engine as links, workspace
    with pyshmem.init() as job:
        link = links.CopyChannel(workspace.workspace(pyshmem.TEAM_WORLD), "test", 16)
        links.await_by_kernel(link._busy(0), 0, 0)
        with pytest.raises(pyshmem.KernelFault, match="signal_wait_until.*PE 0"):
            links.await_by_kernel(link._full(0, 2), 1, 0)
    print("ok")
    """
    done = run_pes(
        1, code, device="sim", env={**ALONE, "PYSHMEM_TIMEOUT": "0.3"}, timeout=60, check=True
    )
    assert done.stdout == "ok\n"


def test_timelines_show_products_copies_and_waits(run_pes: Callable, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    code = f"""
    import torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        x, w = torch.ones(4, 16), torch.ones(16, 16)
        for algorithm in ("copy_engine", "persistent"):
            with pyshmem.profiling.trace({str(path)!r} + algorithm):
                fused.all_gather_matmul(x, w, algorithm=algorithm)
                fused.matmul_reduce_scatter(x, w, algorithm=algorithm)
    """
    run_pes(2, code, device="sim", env=ALONE, timeout=100, check=True)
    found = {}
    for algorithm in ("copy_engine", "persistent"):
        events = json.loads(Path(f"{path}{algorithm}").read_text())["traceEvents"]
        found[algorithm] = {event["name"] for event in events if event.get("cat") == "stage"}
    assert found["copy_engine"] >= {
        "wait for room",
        "put rows",
        "wait for rows",
        "multiply",
        "add up",
    }
    assert found["persistent"] >= {"wait for rows", "multiply", "put tile", "wait for tiles, add"}


@pytest.mark.parametrize("n", [2, 3])
def test_owners_of_no_rows_do_not_release_too_early(n: int, run_pes: Callable) -> None:
    """What is released before it is claimed stays claimed, and the next call waited for ever."""
    code = """
    import time, torch, pyshmem, pyshmem.fused as fused
    with pyshmem.init() as job:
        me, n = job.my_pe, job.n_pes
        x, w, rows = torch.ones(1, 16), torch.ones(16, 8), (1,) + (0,) * (job.n_pes - 1)
        for late in range(n):
            for name in ("all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"):
                gathers = name == "all_gather_matmul"
                for way in ({"algorithm": "persistent"}, {"algorithm": "copy_engine"}):
                    for _ in range(2):
                        time.sleep(0.05 * (me == late))
                        got = getattr(fused, name)(x[: 0 if gathers and me else 1], w, rows=rows, **way)
                        assert (got == 16 * (1 if gathers else n)).all(), (name, way, got)
    print("ok", flush=True)
    """
    env = {"PYSHMEM_CHECK_FIRST": "0", "PYSHMEM_TIMEOUT": "20", "OMP_NUM_THREADS": "1"}
    done = run_pes(n, code, device="sim", timeout=100, env=env, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.gpu
def test_on_gpus(run_pes: Callable) -> None:
    """Two PEs: on a GPU each where there are two, else on one."""
    run(run_pes, 2, device="cuda", CUDA_MODULE_LOADING="EAGER")


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = str(tmp_path_factory.mktemp("triton"))
    environment = dict(os.environ, TRITON_INTERPRET="0", TRITON_CACHE_DIR=folder)
    command = [sys.executable, str(HERE / "matmul_cases.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)["ptx"]


def test_tiles_are_multiplied_by_warp_groups_from_wide_copies(ptx: dict[str, str]) -> None:
    for name in ("gather", "gather_fp8", "scatter"):
        text = ptx[name]
        assert "wgmma.mma_async" in text, name
        assert "mma.sync" not in text, name
        assert re.search(r"cp\.async\.cg\.shared\.global .*0x10, ", text), name
        assert "cp.async.ca" not in text, name
    few = ptx["product_of_few"]  # whose tiles are too low for warp groups
    assert "mma.sync" in few
    assert ".local." not in few


def test_results_are_stored_and_parts_loaded_16_bytes_wide(ptx: dict[str, str]) -> None:
    for name in ("gather", "gather_fp8", "scatter", "finish"):
        stores = set(re.findall(r"[\t ]st\.global\.((?:v\d\.)?b(?:8|16|32))\b", ptx[name]))
        assert stores == {"v4.b32"}, (name, stores)
    for name in ("scatter", "finish"):
        assert "ld.global.v4.b32" in ptx[name], name


def test_signals_and_waits_are_for_the_whole_system(ptx: dict[str, str]) -> None:
    assert "st.release.sys.global.b64" in ptx["scatter"]
    for name in ("gather", "scatter"):
        assert "ld.acquire.sys.global.b64" in ptx[name], name


def test_kernels_compile_as_launches_specialise_them(tmp_path: Path) -> None:
    """Numbers of 1 in groups, and constants of groups: what the oldest Triton takes otherwise."""
    variables = dict(os.environ, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))
    command = [sys.executable, str(HERE / "as_launched.py")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=280)
    assert done.stdout == "ok\n", done.stderr[-4000:]
