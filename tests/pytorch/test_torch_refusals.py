# SPDX-License-Identifier: BSD-3-Clause
"""What the backend of torch.distributed refuses, in words and on all members, and that it goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import BEGIN, VARIABLES, check, check_under_torchrun

import pyshmem.interop.torch as symmetric
from pyshmem import fused
from pyshmem._core import other_names


def test_ranks_that_a_group_lacks_are_refused(run_pes: Callable) -> None:
    code = """
    some = dist.new_group([0, 1])
    x = torch.ones(3)
    for rank in (-1, n, n + 5):
        for call in (
            lambda: dist.send(x, rank), lambda: dist.recv(x, rank),
            lambda: dist.isend(x, rank), lambda: dist.irecv(x, group_src=rank),
            lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, x, rank)]),
            lambda: dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, rank)]),
            lambda: dist.broadcast(x, rank), lambda: dist.reduce(x, rank),
            lambda: dist.gather(x, None, rank), lambda: dist.scatter(x, None, rank),
        ):
            with pytest.raises(ValueError, match=rf"rank {rank}, which this group of {n} members"):
                call()
    with pytest.raises(TypeError, match="0.5"):
        dist.send(x, 0.5)
    if me < 2:
        for call in (
            lambda: dist.send(x, group_dst=2, group=some), lambda: dist.recv(x, group_src=2, group=some)
        ):
            with pytest.raises(ValueError, match="rank 2, which this group of 2 members"):
                call()
        with pytest.raises(ValueError, match="not part of group"):  # torch says that
            dist.send(x, 2, group=some)
    """
    check(run_pes, 3, code)


def test_a_monitored_barrier_says_who_is_missing_as_the_page_has_it(run_pes: Callable) -> None:
    code = """
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
        with pytest.raises(ValueError, match="only implemented for GLOO"):
            dist.monitored_barrier()
    else:
        dist.monitored_barrier()
    from datetime import timedelta
    dist.group.WORLD.monitored_barrier()
    if me == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.group.WORLD.monitored_barrier(timedelta(seconds=0.2))
    """
    check(run_pes, 2, code)
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text()
    assert "`dist.monitored_barrier`" in page
    assert "only implemented for GLOO" in page


@pytest.mark.parametrize("kind", ["FileStore", "HashStore"])
def test_a_monitored_barrier_says_so_by_each_kind_of_store(kind: str, tmp_path: Path) -> None:
    import torch.distributed as dist

    from pyshmem.interop.torch.monitored_barrier import monitored_barrier

    store = dist.FileStore(str(tmp_path / "store"), 3) if kind == "FileStore" else dist.HashStore()
    with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 100 ms"):
        monitored_barrier(store, 1, 0, 3, 0.1, False)
    with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier in 100 ms"):
        monitored_barrier(store, 2, 0, 3, 0.1, True)
    with pytest.raises(RuntimeError, match=r"Rank 1 successfully reached .*Ranks 1"):
        monitored_barrier(store, 2, 1, 3, 0.1, False)
    # Of no whole millisecond stores wait for ever.
    with pytest.raises(RuntimeError, match=r"Rank 1 failed to pass monitoredBarrier in 0\.3 ms"):
        monitored_barrier(store, 3, 0, 3, 0.0003, False)


#: The job outlives the groups; they fail on all ranks with the texts given.
IN_A_JOB = """
import contextlib, pytest, torch, torch.distributed as dist
import pyshmem, pyshmem.interop.torch as symmetric
job = pyshmem.init(heap_size="64M")
me, n = job.my_pe, job.n_pes
def begin(staging=None):
    symmetric.init_process_group(options=symmetric.Options(staging=staging))
def check():
    total = torch.ones(2)
    dist.all_reduce(total)
    assert (total == n).all()
"""


def test_staging_that_is_refused_is_told_on_all_members(run_pes: Callable) -> None:
    code = """
    alone = "rank 1 could not make the process group: "
    for mine, error, text in (
        ("1G", pyshmem.HeapExhausted, "1.0 GiB requested"),
        (["2M", "4M", "2M"][me], pyshmem.MismatchError, "staging"),
        ([None, "4M", None][me], pyshmem.MismatchError, "staging"),
        (1000, ValueError, "1000 bytes, too few"),
        (-1, ValueError, "-1 bytes"),
        (["2M", "much", "2M"][me], *[(pyshmem.MismatchError, alone), (ValueError, "much")][me == 1]),
        (["2M", 0.5, "2M"][me], *[(pyshmem.MismatchError, alone), (TypeError, "0.5")][me == 1]),
    ):
        with pytest.raises(error, match=text):
            begin(mine)
    begin("2M")
    """
    check(run_pes, 3, code, IN_A_JOB)


def test_a_group_that_finds_no_staging_memory_fails_on_all_and_the_others_go_on(
    run_pes: Callable,
) -> None:
    code = """
    begin("1M")
    pair = dist.new_group([0, 1])  # rank 2 has more free
    made = []
    with pytest.raises(pyshmem.HeapExhausted, match="no part of the 1048576 bytes"):
        while len(made) < 100:
            made.append(dist.new_group())
    assert 1 <= len(made) < 17
    for group in made:
        x = torch.full((70_000,), float(me))  # in pieces
        dist.all_reduce(x, group=group)
        assert (x == 3).all()
        dist.destroy_process_group(group)
    dist.destroy_process_group(dist.new_group())
    """
    check(run_pes, 3, code, IN_A_JOB)


def test_staging_of_another_size_counts_where_no_group_is_left(run_pes: Callable) -> None:
    code = """
    begin("20M")
    check()
    with pytest.raises(ValueError, match="31457280 bytes, but groups of the job share"):
        dist.new_group(pg_options=symmetric.Options("30M"))
    dist.new_group(pg_options=symmetric.Options("20M"))
    dist.destroy_process_group()
    for size in ("30M", "40M", "30M", None, "30M"):  # two do not fit
        begin(size)
        check()
        dist.destroy_process_group()
    begin()
    """
    check(run_pes, 2, code, IN_A_JOB)


def test_groups_made_again_under_torchrun(run_command: Callable, tmp_path: Path) -> None:
    """The store is torchrun's and outlives them: rank 1 comes first, and must not take what is old."""
    program = tmp_path / "program.py"
    program.write_text(
        "import time, torch, torch.distributed as dist, pyshmem.interop.torch\n"
        "for turn in range(3):\n"
        "    dist.init_process_group('pyshmem')\n"
        "    x = torch.ones(3); dist.all_reduce(x); assert x[0] == 2\n"
        "    late = dist.get_rank() == 0\n"
        "    dist.destroy_process_group()\n"
        "    time.sleep(0.5 * late)\n"
        "print('ok', flush=True)\n"
    )
    check_under_torchrun(run_command, program, **VARIABLES, PYSHMEM_INIT_TIMEOUT="10")


def test_a_member_that_does_not_come_is_named(run_pes: Callable) -> None:
    code = """
    import contextlib, io
    from datetime import timedelta
    symmetric.init_process_group(timeout=timedelta(seconds=2))
    late, told = "rank 1 has not come to make the process group of 2 ranks in", io.StringIO()
    if me == 0:
        with (
            contextlib.redirect_stderr(told),
            pytest.raises(pyshmem.ShmemTimeout, match=f"{late} 2 s: all ranks of the job call init_"),
        ):
            dist.new_group([0, 1])
        assert f"{late} 1 s: all ranks" in told.getvalue(), told.getvalue()
    pyshmem.barrier_all()
    """
    check(run_pes, 2, code, IN_A_JOB, PYSHMEM_REPORT_AFTER="1")


def test_what_the_job_says_itself_is_taken_where_it_is_the_same(run_pes: Callable) -> None:
    code = """
    for wrong in ({"world_size": n + 2}, {"rank": me + 1}):
        with pytest.raises(ValueError, match=f"this is rank {me} of {n}, as what starts .* leave rank="):
            symmetric.init_process_group(**wrong)
    with pytest.raises(ValueError, match="init_method= is given, but what starts"):
        symmetric.init_process_group(init_method="tcp://localhost:1")
    symmetric.init_process_group(init_method="env://", rank=me, world_size=n)
    assert (dist.get_rank(), dist.get_world_size()) == (me, n)
    """
    check(run_pes, 2, code, IN_A_JOB)


def test_arguments_of_operations_are_told_what_does_the_same(run_pes: Callable) -> None:
    code = """
    from pyshmem import fused
    from pyshmem.host.job.tracebacks import shortened
    with pytest.raises(TypeError) as told:
        fused.all_gather_matmul(1, 2, group=None)
    with shortened(told.value):
        first, second = told.value.__notes__[-1].splitlines()
    assert first == "the PEs that take part are team="
    assert second.startswith("it is called so: pyshmem.fused.all_gather_matmul(x_shard, w, *, bias=None")
    begin()
    """
    check(run_pes, 2, code, IN_A_JOB)


def test_a_group_that_was_destroyed_says_so(run_pes: Callable) -> None:
    code = """
    whole = dist.group.WORLD
    dist.destroy_process_group()
    for call in (lambda: dist.all_reduce(torch.ones(1), group=whole), lambda: whole.team):
        with pytest.raises(ValueError, match="process group 0 was destroyed"):
            call()
    symmetric.init_process_group()
    """
    check(run_pes, 2, code)


@pytest.mark.parametrize("checks", ["0", "1"])
def test_first_calls_that_disagree_are_told_on_all_ranks(checks: str, run_pes: Callable) -> None:
    code = """
    ops, of = dist.ReduceOp, lambda count, dtype=torch.float32: torch.ones(count, dtype=dtype)
    odd = me == 1
    dtype = torch.int32 if odd else torch.float32
    one = lambda *given: [of(*given) for _ in range(n)]
    for call, texts in (
        (lambda: dist.all_reduce(of(2), op=ops.SUM if odd else ops.AVG), ("(sum", "(avg")),
        (lambda: dist.all_reduce(of(2, dtype)), ("2 of int32", "2 of float32")),
        (lambda: dist.all_reduce(of(2 + odd)), ("2 of float32", "3 of float32")),
        (lambda: dist.broadcast(of(2, dtype), 0), ("int32, 0", "float32, 0")),
        (lambda: dist.broadcast(of(2), int(odd)), ("float32, 0", "float32, 1")),
        (lambda: dist.reduce(of(2), int(odd)), ("reduce(sum, 2 of float32, 1)",)),
        (lambda: dist.all_gather(one(2, dtype), of(2, dtype)), ("2 of int32", "2 of float32")),
        (lambda: dist.all_gather_into_tensor(of(2 * n, dtype), of(2, dtype)), ("2 of int32",)),
        (lambda: dist.reduce_scatter(of(2), one(2), op=ops.MAX if odd else ops.MIN), ("(max", "(min")),
        (lambda: dist.reduce_scatter_tensor(of(1 + odd), of(n + n * odd)), ("1 of float32", "2 of")),
        (lambda: dist.all_to_all_single(of(n, dtype), of(n, dtype)), (f"{n} of int32",)),
        (lambda: dist.all_to_all(one(1, dtype), one(1, dtype)), ("torch.int32", "torch.float32")),
        (lambda: dist.all_to_all_single(of(n), of(n), *([[1] * n] * 2 if odd else ())), ("parts",)),
        (lambda: dist.gather(of(2, dtype), one(2, dtype) if me == 0 else None), ("2 of int32",)),
        (lambda: dist.scatter(of(1 + odd), one(1) if me == 0 else None), ("1 of float32", "2 of")),
        (
            lambda: dist.all_reduce(of(2)) if odd else dist.broadcast(of(2), 0),
            ("all_reduce(", "broadcast("),
        ),
        (lambda: dist.all_reduce(of(2)) if odd else dist.barrier(), ("all_reduce(", "barrier()")),
        (
            lambda: dist.all_to_all_single(of(n + odd), of(n), [1, 1 + odd], [1] * n),
            (),
        ),
    ):
        words = "rank 0: .*; rank 1: " if texts else "rank 1 sends"
        with pytest.raises(pyshmem.MismatchError, match=words) as told:
            call()
        assert all(text in str(told.value) for text in texts), (texts, told.value)
    group = dist.new_group()
    own = group if hasattr(group, "compares") else group._get_backend(torch.device("cpu")).group
    for number in range(32):
        assert own.compares()
        dist.barrier(group) if number % 2 else dist.all_reduce(of(2), group=group)
    assert own.compares() == (CHECKS == "1")
    """
    check(run_pes, 2, code, f"{BEGIN}\nCHECKS = '{checks}'\n", PYSHMEM_CHECK=checks)


def test_long_facts_are_compared_whole_in_checking_mode(run_pes: Callable) -> None:
    code = """
    with pytest.raises(pyshmem.MismatchError, match=r"1 of float32, 1 of float32.*\\.\\.\\. "):
        tensors = [torch.ones(1) for _ in range(60)] + [torch.ones(1 + me)]
        dist.all_reduce_coalesced(tensors)
    """
    check(run_pes, 2, code, PYSHMEM_CHECK="1")


@pytest.mark.parametrize(
    ("package", "table"), [(fused, other_names.OF_FUSED), (symmetric, other_names.OF_TORCH)]
)
def test_names_of_other_libraries_are_told_what_does_the_same(
    package: ModuleType, table: dict[str, str]
) -> None:
    for name, told in table.items():
        with pytest.raises(
            AttributeError, match=rf"^module {package.__name__} has no {name}: "
        ) as caught:
            getattr(package, name)
        assert str(caught.value).endswith(told)
        for routine in re.findall(rf"{package.__name__}\.(\w+)", told):
            assert hasattr(package, routine)
    first = package.__all__[-1]
    with pytest.raises(AttributeError, match=f"it is {package.__name__}.{first}$"):
        getattr(package, first.title())
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        package.nonsense  # noqa: B018
