# SPDX-License-Identifier: BSD-3-Clause
"""What callers give a process group: where torch does not look, and tensors that share memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import check

GROUPS = pytest.mark.parametrize("groups", ["native", "python"])
#: Members compare no calls, so that each has to see by itself what is wrong with its own.
ALONE = {"PYSHMEM_CHECK_FIRST": "0"}


@GROUPS
def test_lists_of_another_dtype_length_or_tag_are_refused(groups: str, run_pes: Callable) -> None:
    """Bytes of another dtype would be read as other numbers."""
    code = """
    group = dist.group.WORLD
    int32, float64 = torch.int32, torch.float64
    def rows(k=2, dtype=torch.float32):
        return [torch.zeros(k, dtype=dtype) for _ in range(n)]

    one, options = torch.ones(2), dist.ReduceScatterOptions()
    dtypes = {
        "all_gather": lambda: group.allgather([rows(dtype=int32)], [one]),
        "all_gather, wide": lambda: group.allgather([rows(1, float64)], [one]),
        "all_gather, last": lambda: group.allgather([rows()[:-1] + rows(dtype=int32)[:1]], [one]),
        "all_gather_coalesced": lambda: group.allgather_coalesced(
            [[row] for row in rows(dtype=int32)], [one]
        ),
        "reduce_scatter": lambda: group.reduce_scatter([one], [rows(dtype=int32)], options),
        "reduce_scatter, wide": lambda: group.reduce_scatter([one], [rows(1, float64)], options),
        "all_to_all": lambda: group.alltoall(rows(dtype=int32), rows()),
        "all_to_all, wide": lambda: group.alltoall(rows(1, float64), rows()),
        "gather": lambda: group.gather([rows(dtype=int32)], [one], dist.GatherOptions()),
        "scatter": lambda: group.scatter([one], [rows(1, float64)], dist.ScatterOptions()),
    }
    for name, call in dtypes.items():
        with pytest.raises(TypeError, match=f"{name.partition(',')[0]} of .*: give one dtype"):
            call().wait()
            print("no error:", name)
    values = {
        "of 2 at a time": lambda: group.broadcast([one, one], dist.BroadcastOptions()),
        "all_gather of 2": lambda: group.allgather([rows(), rows()], [one, one]),
        "lists of 1 and 2": lambda: group.allgather_into_tensor_coalesced([one], [one, one]),
        "lists of 2 and 1": lambda: group.reduce_scatter_tensor_coalesced([one], [one, one]),
        "coalesced of lists": lambda: group.allgather_coalesced([[one]] * n, [one, one]),
        "tag is -1": lambda: dist.isend(one, (me + 1) % n, tag=-1),
        "recv: tag is -2": lambda: dist.irecv(one, (me + 1) % n, tag=-2),
        "sent itself nothing": lambda: dist.irecv(one, me),
        f"expects {2 * one.nbytes}": lambda: group.alltoall(rows(4), rows(2)),
    }
    for text, call in values.items():
        with pytest.raises(ValueError, match=text):
            call().wait()
            print("no error:", text)
    group.send([one], me, 3).wait()
    group.recv([one.zero_()], me, 3).wait()
    assert one.tolist() == [1.0, 1.0]
    """
    check(run_pes, 3, code, **ALONE, PYSHMEM_TORCH_GROUPS=groups)


@GROUPS
def test_tensors_that_share_memory_are_read_before_they_are_written(
    groups: str, run_pes: Callable
) -> None:
    """Where the input lies over another part of the output than its own; of few and of many bytes."""
    code = """
    group = dist.new_group()
    def values(count):
        return (torch.arange(count) % 251 + 7 * me).float()
    for k in (8, 60_000, 700_001):
        for shift in (0, 1, 5, k // 2, k):
            whole = values(n * k)
            inside = whole[shift : shift + k]
            want = torch.zeros(n * k)
            dist.all_gather_into_tensor(want, inside.clone(), group=group)
            dist.all_gather_into_tensor(whole, inside, group=group)
            assert whole.equal(want), ("all_gather_into_tensor", k, shift)

            whole = values(n * k)
            inside, want = whole[shift : shift + k], torch.zeros(k)
            dist.reduce_scatter_tensor(want, whole.clone(), group=group)
            dist.reduce_scatter_tensor(inside, whole, group=group)
            assert inside.equal(want), ("reduce_scatter_tensor", k, shift)

            memory, want = values(n * k + shift), torch.zeros(n * k)
            dist.all_to_all_single(want, memory[: n * k].clone(), group=group)
            dist.all_to_all_single(memory[shift:], memory[: n * k], group=group)
            assert memory[shift:].equal(want), ("all_to_all_single", k, shift)

            rows = [(splits := [k + 1, *[k] * (n - 2), k - 1])[me]] * n
            want = torch.zeros(sum(rows))
            memory = values(shift + max(sum(rows), n * k))
            given, out = memory[: n * k], memory[shift : shift + sum(rows)]
            dist.all_to_all_single(want, given.clone(), rows, splits, group=group)
            dist.all_to_all_single(out, given, rows, splits, group=group)
            assert out.equal(want), ("all_to_all_single with splits", k, shift)

            memory, want = values(n * k + shift), torch.zeros(k)
            out, rows = memory[shift : shift + k], list(memory[: n * k].chunk(n))
            dist.scatter(want, [row.clone() for row in rows] if me == 0 else None, 0, group=group)
            dist.scatter(out, rows if me == 0 else None, 0, group=group)
            assert out.equal(want), ("scatter", k, shift)

            sizes = [k + 1 + rank for rank in range(n)]
            memory = values(sum(sizes))
            rows, want = list(memory.split(sizes)), [torch.zeros(size) for size in sizes]
            given = memory[shift : shift + sizes[me]]
            dist.all_gather(want, given.clone(), group=group)
            dist.all_gather(rows, given, group=group)
            assert all(map(torch.equal, rows, want)), ("all_gather of other sizes", k, shift)

            memory = values(sum(sizes))
            rows, out = list(memory.split(sizes)), memory[shift : shift + sizes[me]]
            want = torch.zeros(sizes[me])
            dist.reduce_scatter(want, [row.clone() for row in rows], group=group)
            dist.reduce_scatter(out, rows, group=group)
            assert out.equal(want), ("reduce_scatter of other sizes", k, shift)
    dist.destroy_process_group(group)
    """
    check(run_pes, 3, code, **ALONE, PYSHMEM_TORCH_GROUPS=groups)


def test_one_tensor_for_all_members_need_not_be_contiguous(run_pes: Callable) -> None:
    """Its rows are what members share; those that cannot be shared are refused."""
    code = """
    own = torch.arange(12.0).reshape(3, 4) + 100 * me
    out = torch.zeros(4, 3 * n).t()
    dist.all_gather_into_tensor(out, own)
    assert out.equal(torch.cat([own - 100 * me + 100 * rank for rank in range(n)]))
    whole = torch.arange(12.0 * n).reshape(4, 3 * n).t()
    part = torch.zeros(6, 4)[::2]
    dist.reduce_scatter_tensor(part, whole)
    assert part.equal(n * whole[3 * me : 3 * me + 3])
    out = torch.zeros(4, 2 * n).t()
    dist.all_to_all_single(out, (torch.arange(8.0 * n) + 100 * me).reshape(2 * n, 4))
    sent = torch.arange(8.0 * n).reshape(n, 2, 4)[me]
    assert out.equal(torch.cat([sent + 100 * rank for rank in range(n)]))
    with pytest.raises(ValueError, match="is not contiguous, and whose 4 rows 3 members cannot"):
        dist.all_gather_into_tensor(torch.zeros(3, 4).t(), torch.zeros(4))
    """
    check(run_pes, 3, code)
