# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch's own parts and programs ask of the backend, on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import BEGIN, check


def test_a_callback_of_a_future_may_wait_for_other_calls(run_pes: Callable) -> None:
    """As the hooks of DDP do that compress gradients (PowerSGD)."""
    code = """
    def twice(future):
        (first,) = future.value()
        (second,) = dist.all_reduce(first.clone(), async_op=True).get_future().wait()
        dist.all_reduce(second)
        return second

    first = dist.all_reduce(torch.ones(3), async_op=True)
    assert (first.get_future().then(twice).wait() == n**3).all()
    works = [dist.all_reduce(torch.full((3,), i + 1.0), async_op=True) for i in range(5)]
    futures = [work.get_future() for work in works]
    ends = [one.then(lambda _: futures[4].wait()[0] * 2) for one in futures[:4]]
    for end in ends:
        assert (end.wait() == 10 * n).all()
    late = dist.all_reduce(torch.ones(1), async_op=True)
    late.wait()
    assert late.get_future().then(twice).wait().item() == n**3
    """
    check(run_pes, 2, code)


@pytest.mark.parametrize("n", [2, 3])
def test_parts_of_a_reduce_scatter_may_differ_in_size(n: int, run_pes: Callable) -> None:
    code = """
    for extent in (1, 70_000):  # the second in pieces
        ops = dist.ReduceOp
        for op, wanted in ((ops.SUM, n * (n + 1) / 2), (ops.AVG, (n + 1) / 2), (ops.MAX, n)):
            out = torch.zeros(me * extent)  # nothing for rank 0
            given = [torch.full((rank * extent,), me + 1.0) for rank in range(n)]
            dist.reduce_scatter(out, given, op=op)
            assert (out == wanted).all(), (op, out)
            assert all((row == me + 1).all() for row in given)
    with pytest.raises(ValueError, match="output of 9 elements for an input of"):
        dist.reduce_scatter(torch.zeros(9), given)
    with pytest.raises(ValueError, match="an input of 9 elements for an output of"):
        dist.all_gather(given, torch.zeros(9))
    """
    check(run_pes, n, code)


def test_a_compiler_makes_no_calls_while_it_compiles(run_pes: Callable) -> None:
    """Of a tensor of one element, whose value it knows, it computed what it could: on PE 0 alone."""
    code = """
    from torch._subclasses.fake_tensor import FakeTensorMode
    operators = torch.ops.pyshmem
    symmetric.register_team()
    if me == 0:
        with FakeTensorMode():
            operators.all_reduce(torch.tensor(3.0), copy=True)
            operators.broadcast_(torch.tensor(3.0), 0, copy=True)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def total():
        return operators.all_reduce(torch.tensor(3.0), copy=True) + 1

    assert total() == 3 * n + 1
    """
    check(run_pes, 2, code)


def test_a_compiler_makes_no_calls_of_fused_operations_either(run_pes: Callable) -> None:
    pytest.importorskip("triton")
    code = """
    import pyshmem.fused
    from torch._subclasses.fake_tensor import FakeTensorMode
    if me == 0:
        with FakeTensorMode():
            torch.ops.pyshmem.low_latency_all_gather(torch.tensor([3.0]))
    """
    check(run_pes, 2, code, device="sim")


def test_there_is_memory_for_many_groups(run_pes: Callable) -> None:
    code = """
    groups = [dist.new_group() for _ in range(40)]
    totals = [torch.full((200_000,), float(i)) for i in range(40)]
    for total, group in zip(totals, groups):
        dist.all_reduce(total, group=group)
    assert all((total == n * i).all() for i, total in enumerate(totals))
    """
    check(run_pes, 2, code)


def test_staging_of_an_odd_size_is_shared_in_aligned_parts(run_pes: Callable) -> None:
    code = """
    symmetric.init_process_group(options=symmetric.Options(staging=1_000_037))
    me, n = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group() for _ in range(3)]
    for group in groups:
        box = torch.empty(50_000, dtype=torch.float64)
        calls = [
            dist.P2POp(dist.isend, torch.full_like(box, me), 1 - me, group=group),
            dist.P2POp(dist.irecv, box, 1 - me, group=group),
        ]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        assert (box == 1 - me).all()
        dist.all_reduce(box, group=group)
        assert (box == 1).all()
    """
    begin = BEGIN.replace("symmetric.init_process_group()\nme", "#")
    check(run_pes, 2, code, begin)
