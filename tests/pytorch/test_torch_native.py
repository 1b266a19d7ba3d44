# SPDX-License-Identifier: BSD-3-Clause
"""The process group in C++: what torch's dispatcher, compiler and profiler see, beside Gloo's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch._C import _distributed_c10d as c10d
from torch_cases import BEGIN, VARIABLES, check

NATIVE = {"PYSHMEM_TORCH_GROUPS": "native"}
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)


def check_native(run_pes: Callable, n: int, code: str, **variables: str) -> None:
    begin = BEGIN + "assert type(dist.group.WORLD) is dist.ProcessGroup\n"
    check(run_pes, n, code, begin, **NATIVE, **variables)


@needs_compiler
def test_the_profiler_shows_what_it_shows_of_gloo(run_pes: Callable, tmp_path: Path) -> None:
    """Names but for the backend's, sizes and dtypes. Gloo makes a reduce_scatter of all_reduces."""
    code = """
    import torch.distributed._functional_collectives as functional
    from torch.profiler import ProfilerActivity, profile

    def calls(group):
        x, whole = torch.ones(4), torch.ones(4 * n, dtype=torch.int32)
        rows = [torch.zeros(4) for _ in range(n)]
        dist.all_reduce(x, group=group)
        dist.all_reduce(x, group=group, async_op=True).wait()
        dist.all_reduce_coalesced([x, torch.ones(2, 3)], group=group)
        dist.broadcast(whole, 0, group=group)
        dist.reduce(x.double(), 0, group=group)
        dist.all_gather(rows, x, group=group)
        dist.all_gather_into_tensor(whole, torch.ones(4, dtype=torch.int32), group=group)
        dist.reduce_scatter_tensor(x, torch.ones(4 * n), group=group)
        dist.all_to_all_single(torch.zeros(4 * n), torch.ones(4 * n), group=group)
        dist.gather(x, rows if me == 0 else None, group=group)
        dist.scatter(x, rows if me == 0 else None, group=group)
        dist.send(x, 1, group=group) if me == 0 else dist.recv(x, 0, group=group)
        dist.barrier(group)
        functional.wait_tensor(functional.all_reduce(x, "sum", group))

    def seen(group, name):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
            calls(group)
        recorded.export_chrome_trace(f"{PLACE}/{name}{me}.json")
        import json
        with open(f"{PLACE}/{name}{me}.json") as file:
            events = json.load(file)["traceEvents"]
        found = []
        for event in events:
            about, title = event.get("args", {}), event.get("name", "").replace(f"{name}:", ":")
            if title.startswith((":", "c10d::", "_c10d_functional::")):
                if title in ("_c10d_functional::wait_tensor", ":reduce_scatter") or (
                    title == ":all_reduce" and about["Input Dims"] == [[4 * n]]
                ):
                    continue
                keys = "Input Dims", "Input type", "Process Group Name"
                found.append((title, *map(about.get, keys)))
        return sorted(found, key=repr)

    gloo = dist.new_group(backend="gloo")
    for turn in range(4):  # with members that compare their calls, and with those that do not
        ours, theirs = seen(dist.group.WORLD, "pyshmem"), seen(gloo, "gloo")
        assert ours == theirs, (ours, theirs)
    assert len([title for title, *_ in ours if title[0] == ":"]) >= 11
    """
    check_native(run_pes, 2, code.replace("{PLACE}", str(tmp_path)))


@needs_compiler
def test_tools_that_look_at_the_dispatcher_see_the_calls(run_pes: Callable) -> None:
    code = """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with CommDebugMode() as mode:
        dist.all_reduce(torch.ones(2))
        dist.broadcast(torch.ones(2), 0)
    assert mode.get_total_counts() == 2, mode.get_comm_counts()
    if me == 0:  # sends nothing
        with FakeTensorMode():
            dist.all_reduce(torch.ones(4))

    def step(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    graph = make_fx(step)(torch.ones(2)).graph
    assert any("c10d.allreduce_" in str(node.target) for node in graph.nodes), graph
    """
    check_native(run_pes, 2, code)


@needs_compiler
def test_compiled_programs_have_the_numbers_and_the_graph_breaks_of_gloo(run_pes: Callable) -> None:
    code = """
    gloo = dist.new_group(backend="gloo")

    def functions(group):
        def all_reduce(x):
            y = x * 2
            dist.all_reduce(y, group=group)
            return y + 1

        def all_reduce_async(x):
            y = x * 2
            dist.all_reduce(y, group=group, async_op=True).wait()
            return y + 1

        def broadcast(x):
            y = x * 2
            dist.broadcast(y, 0, group=group)
            return y + 1

        def barrier(x):
            y = x * 2
            dist.barrier(group)
            return y + 1

        def messages(x):
            y = x * 2
            dist.send(y, 1, group=group) if me == 0 else dist.recv(y, 0, group=group)
            return y + 1

        return [all_reduce, all_reduce_async, broadcast, barrier, messages]

    def breaks(function, *given):
        torch._dynamo.reset()
        return torch._dynamo.explain(function)(*given).graph_break_count

    for mine, gloos in zip(functions(dist.group.WORLD), functions(gloo)):
        x = torch.arange(4.0) + me
        wanted = mine(x.clone())
        torch._dynamo.reset()
        assert torch.compile(mine, backend="aot_eager")(x.clone()).equal(wanted), mine
        assert breaks(mine, x.clone()) <= breaks(gloos, x.clone()), mine
    """
    check_native(run_pes, 2, code)


@needs_compiler
def test_functional_collectives_and_ddp_are_compiled(run_pes: Callable) -> None:
    code = """
    import torch.distributed._functional_collectives as functional
    from torch.nn.parallel import DistributedDataParallel as DDP
    gloo = dist.new_group(backend="gloo")

    @torch.compile(backend="aot_eager", fullgraph=True)
    def whole(x):
        y = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(y, 0, dist.group.WORLD) + 1

    x = torch.arange(4.0) + me
    assert whole(x).equal((2 * (torch.arange(4.0) * n + sum(range(n)))).repeat(n) + 1)

    def trained(group, compiled):
        torch.manual_seed(0)
        layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
        model = DDP(layers, process_group=group)
        torch._dynamo.reset()
        ran = torch.compile(model, backend="aot_eager") if compiled else model
        for _ in range(2):
            model.zero_grad()
            ran(torch.full((2, 8), me + 1.0)).sum().backward()
        torch._dynamo.reset()
        breaks = torch._dynamo.explain(model)(torch.ones(2, 8)).graph_break_count
        return torch.cat([one.grad.flatten() for one in model.parameters()]), breaks

    wanted, breaks = trained(gloo, True)
    for compiled in (False, True):
        found, ours = trained(dist.group.WORLD, compiled)
        torch.testing.assert_close(found, wanted)
        assert ours <= breaks, (ours, breaks)
    """
    check_native(run_pes, 2, code)


@needs_compiler
def test_fsdp_has_the_numbers_and_the_graph_breaks_of_gloo(run_pes: Callable) -> None:
    code = """
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    gloo = dist.new_group(backend="gloo")

    def trained(group, compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        for part in (model[0], model):
            fully_shard(part, mesh=DeviceMesh.from_group(group, "cpu"))
        optimiser, x = torch.optim.SGD(model.parameters(), 0.1), torch.full((2, 8), me + 1.0)
        ran = torch.compile(model, backend="aot_eager") if compiled else model
        for _ in range(2):
            optimiser.zero_grad()
            ran(x).sum().backward()
            optimiser.step()
        found = torch.cat([one.full_tensor().flatten() for one in model.parameters()]).detach()
        torch._dynamo.reset()
        return found, torch._dynamo.explain(model)(x).graph_break_count

    wanted, breaks = trained(gloo, True)
    for compiled in (False, True):
        found, ours = trained(dist.group.WORLD, compiled)
        torch.testing.assert_close(found, wanted)
        assert ours <= breaks, (ours, breaks)
    """
    check_native(run_pes, 2, code)


@needs_compiler
def test_groups_come_and_go_and_processes_fork(run_pes: Callable) -> None:
    """As under an elastic agent, which begins again in the same processes; DataLoader forks."""
    code = """
    import os
    from torch.utils.data import DataLoader, TensorDataset
    for first in ("of all", "of two", "none"):
        some, every = dist.new_group([0, 1]), dist.new_group()
        x = torch.ones(3)
        dist.all_reduce(x, group=every)
        assert (x == n).all()
        for group, name in ((every, "of all"), (some, "of two")):
            if name == first and dist.get_rank(group) >= 0:
                dist.destroy_process_group(group)
        dist.destroy_process_group()
        assert not pyshmem.initialized()
        dist.init_process_group("pyshmem")

    dist.all_reduce(torch.ones(2), async_op=True).wait()
    seen = 0.0
    for (batch,) in DataLoader(TensorDataset(torch.arange(16.0)), batch_size=4, num_workers=2):
        total = batch.sum()
        dist.all_reduce(total)
        seen += total.item()
    assert seen == n * sum(range(16))
    child = os.fork()
    if not child:
        try:
            dist.all_reduce(torch.ones(2))
        except pyshmem.ShmemError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    """
    check_native(run_pes, 3, code)


@needs_compiler
def test_calls_of_the_group_itself_take_the_forms_of_torchs(run_pes: Callable) -> None:
    code = """
    from datetime import timedelta
    group, limit, sums = dist.group.WORLD, timedelta(seconds=20), dist.ReduceOp.SUM
    own = lambda: torch.full((2,), me + 1.0)
    rows = lambda: [torch.zeros(2) for _ in range(n)]
    total, each = n * (n + 1) / 2, [[rank + 1.0] * 2 for rank in range(n)]
    for given in ((), (sums,), (sums, limit)):
        for form in (lambda x: [x], lambda x: x) if len(given) < 2 else (lambda x: [x],):
            x = own()
            group.allreduce(form(x), *given).wait()
            assert (x == total).all()
    x = own(); group.broadcast(x, root=1, timeout=limit).wait(); assert x.tolist() == each[1]
    x = own(); group.reduce(x, 0, sums).wait(); assert x[0] == (total if me == 0 else me + 1)
    out = rows(); group.allgather(out, own(), limit).wait(); assert torch.stack(out).tolist() == each
    x = own(); group.reduce_scatter(x, rows(), sums).wait(); assert x.tolist() == [0, 0]
    out = rows(); group.gather(out if me == 0 else [], own(), 0).wait()
    assert me or torch.stack(out).tolist() == each
    x = own(); group.scatter(x, rows() if me == 0 else [], 0).wait(); assert x.tolist() == [0, 0]
    group.barrier(timeout=limit).wait()
    group.get_group_store().add("k", 1)
    assert group._get_sequence_number_for_group() > 0
    group.set_timeout(limit)
    assert group._get_backend(torch.device("cpu")).name() == "pyshmem" and group.team.n_pes() == n
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    assert group.name() == model._get_ddp_logging_data()["backend_name"] == "pyshmem"
    assert dist.new_group(backend="gloo").name() == "gloo"
    with pytest.raises(AttributeError, match="no team of pyshmem"):
        dist.new_group(backend="gloo").team

    with dist._coalescing_manager(async_ops=True, device=torch.device("cpu")) as works:
        dist.all_reduce(x); dist.all_reduce(x)
    works.wait()
    group._start_coalescing(torch.device("cpu"))
    group.allreduce([x.fill_(1)])
    group.broadcast(x, 0)
    group._end_coalescing(torch.device("cpu")).wait()
    assert (x == n).all()
    """
    check_native(run_pes, 2, code)


@needs_compiler
def test_waits_end_in_time_and_a_barrier_names_who_is_missing(run_pes: Callable) -> None:
    code = """
    from datetime import timedelta
    soon = timedelta(seconds=0.5)
    dist.monitored_barrier = dist.group.WORLD.monitored_barrier
    dist.monitored_barrier(soon * 60)
    group = dist.new_group(timeout=soon * 10)
    dist.all_reduce(torch.ones(2), group=group)
    if me == 0:
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier in 500 ms"):
            group.monitored_barrier(soon, wait_all_ranks=True)
        group.set_timeout(soon)
        for call in (
            lambda: dist.all_reduce(torch.ones(2), group=group),
            lambda: dist.barrier(group),
            lambda: dist.recv(torch.ones(2), 1, group=group),
            lambda: dist.all_reduce(torch.ones(2), group=group, async_op=True).wait(),
        ):
            with pytest.raises(pyshmem.ShmemTimeout, match="timeout of 0.5 s is over") as told:
                call()
        calls = str(told.value).partition("this rank's last calls of the group:")[2]
        assert calls.split("\\n  call ")[1:] == [
            "1, all_reduce of 2 Float: done", "2, all_reduce of 2 Float: not done",
            "3, barrier: not done", "4, recv of 2 Float: not done",
            "5, all_reduce of 2 Float: not done",
        ], calls
    dist.barrier()
    dist.distributed_c10d._abort_process_group(group)
    """
    check_native(run_pes, 3, code)


@needs_compiler
def test_a_time_out_of_a_call_says_the_last_calls_of_the_rank(run_pes: Callable) -> None:
    """The last eight: those before have gone."""
    code = """
    import os, time
    for i in range(9):
        dist.broadcast(torch.ones(i + 1), 0)
    if me == 0:
        with pytest.raises(pyshmem.ShmemTimeout) as told:
            dist.all_reduce(torch.ones(5, dtype=torch.int32))
        first, *calls = told.value.__notes__[-1].split("\\n  call ")
        assert first == "this rank's last calls of the group:" and len(calls) == 8, calls
        assert calls[0] == "3, broadcast of 3 Float: done", calls
        assert calls[-1] == "10, all_reduce of 5 Int: not done", calls
        print("ok", flush=True)
    time.sleep(3)
    print("ok" * me, flush=True)
    os._exit(0)
    """
    check(run_pes, 2, code, BEGIN, **NATIVE, PYSHMEM_TIMEOUT="1")


@needs_compiler
@pytest.mark.skipif(not hasattr(c10d, "FlightRecorderHook"), reason="comes with torch 2.14")
def test_torchs_flight_recorder_has_the_calls(run_pes: Callable) -> None:
    code = """
    import gc, pickle, weakref
    from torch._C import _distributed_c10d as c10d

    def recorded():
        try:
            return pickle.loads(c10d._dump_fr_trace(backend="pyshmem"))
        except TypeError:  # before torch 2.15 all backends have one
            return pickle.loads(c10d._dump_fr_trace())

    some = dist.new_group([0, 1], group_desc="two of us")
    dist.all_reduce(torch.ones(4, 3))
    if me < 2:
        dist.all_gather_into_tensor(torch.zeros(2, dtype=torch.int32), torch.ones(1).int(), some)
    work = dist.barrier(async_op=True)
    work.wait()
    found = recorded()
    assert found["pg_config"]["0"]["desc"] == "default_pg", found["pg_config"]
    def named(one):  # c10d:allreduce, from torch 2.15 on pyshmem:all_reduce
        return one["profiling_name"].partition(":")[2].replace("_", "").removesuffix("base")

    entries = [
        (one["process_group"][1], named(one), one["input_sizes"], one["input_dtypes"])
        for one in found["entries"]
    ]
    wanted = [
        ("default_pg", "allreduce", [[4, 3]], ["Float"]), ("two of us", "allgather", [[1]], ["Int"]),
        ("default_pg", "barrier", [], []),
    ]
    assert entries == [one for one in wanted if me < 2 or one[0] == "default_pg"], entries
    assert any("pyshmem" not in frame["filename"] for frame in found["entries"][0]["frames"])
    if me < 2:
        group = weakref.ref(some._get_backend(torch.device("cpu")).group)
        dist.destroy_process_group(some)
        del some
        gc.collect()
        assert group() is None
    """
    check_native(run_pes, 3, code)
    off = "from torch._C import _distributed_c10d as c10d\ndist.barrier()\n"
    check_native(
        run_pes, 1, f"{off}assert b'barrier' not in c10d._dump_fr_trace()", TORCH_FR_BUFFER_SIZE="0"
    )


@needs_compiler
def test_a_program_may_end_while_calls_wait(run_pes: Callable) -> None:
    """Their threads come back to an interpreter that has ended."""
    code = """
    x = torch.ones(4)
    works = [dist.isend(x, 1), dist.irecv(x, 1)] if me == 0 else [dist.irecv(x, 0), dist.irecv(x, 0)]
    dist.all_reduce(x.clone(), async_op=True)
    works[0].wait()
    print("ok", flush=True)
    sys.exit(0)
    """
    begin = "import sys\n" + BEGIN
    check(run_pes, 2, code, begin, **NATIVE, PYSHMEM_TIMEOUT="1")


@needs_compiler
def test_a_group_is_split(run_pes: Callable) -> None:
    code = """
    parent = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert parent.supports_splitting
    ranks = [0, 2] if me != 1 else [1]
    half = dist.group.WORLD.split_group(ranks, None, None, f"half{me == 1}", "half")
    x = torch.full((2,), me + 1.0)
    half.allreduce([x]).wait()
    assert x[0] == (4 if me != 1 else 2)
    assert half.size() == len(ranks) and half.team.n_pes() == len(ranks)
    half.shutdown()
    """
    check_native(run_pes, 3, code)


def test_what_a_killed_compiler_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyshmem.interop.torch import native

    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    left, of_another = (tmp_path / f"_torch_backend-{i}-making-x" for i in (0, 1))
    left.mkdir()
    of_another.mkdir()
    path = tmp_path / "_torch_backend-0.so"
    native._compile("backend", path, alone=False)  # without the lock it may be at work
    assert left.exists()
    native._compile("backend", path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["_torch_backend-0.so", of_another.name, "compiler"]


def test_without_a_compiler_python_does_it_and_says_so_once(
    run_pes: Callable, tmp_path: Path
) -> None:
    code = """
    import warnings
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            symmetric.init_process_group()
            dist.destroy_process_group()
    ours = [str(one.message) for one in told if "process group in C++" in str(one.message)]
    assert len(ours) == 1 and "no-such-compiler" in ours[0], ours
    symmetric.init_process_group()
    me, n = dist.get_rank(), dist.get_world_size()
    assert isinstance(dist.group.WORLD, symmetric.ShmemProcessGroup)
    """
    begin = BEGIN.partition("symmetric.init_process_group()")[0]
    variables = {
        **VARIABLES,
        **NATIVE,
        "CXX": "no-such-compiler",
        "PYSHMEM_CACHE_DIR": str(tmp_path),
    }
    check(run_pes, 2, code, begin, **variables)
