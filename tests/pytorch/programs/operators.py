# SPDX-License-Identifier: BSD-3-Clause
"""torch.ops.pyshmem: results, derivatives, what compilers see, refusals."""

from __future__ import annotations

import pytest
import torch

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem._torch.operator_bodies import BODIES

ops = torch.ops.pyshmem


def refused(kind: type[Exception], message: str, call, *given) -> None:
    with pytest.raises(kind) as told:
        call(*given)
    assert message in str(told.value), told.value


def given(rank: int, *size: int) -> torch.Tensor:
    return torch.arange(1.0, torch.Size(size).numel() + 1).view(size) * (rank + 1)


def before_staging(me: int) -> None:
    anywhere, box = torch.ones(4), symmetric.ones(4, 4)
    refused(ValueError, "not on a symmetric heap", ops.all_reduce_, anywhere)
    refused(ValueError, "not on a symmetric heap", ops.all_reduce, anywhere)
    refused(ValueError, "not contiguous", ops.all_reduce_, box.t()[1:])
    refused(ValueError, "register_team()", ops.all_reduce, box)
    refused(ValueError, "register_team()", ops.all_reduce_, anywhere, "sum", 0, True)
    refused(ValueError, "team 5", ops.all_reduce_, box, "sum", 5)
    refused(ValueError, "op is 'add'", ops.all_reduce_, box, "add")
    refused(ValueError, "root 9", ops.broadcast_, box, 9)
    refused(TypeError, "float32", ops.all_reduce_, box, "xor")


def in_place(me: int, n: int) -> None:
    box = symmetric.tensor(given(me, 4, 3))
    ops.all_reduce_(box[1:3])  # a view is symmetric too
    assert torch.equal(box[1:3], sum(given(r, 4, 3)[1:3] for r in range(n)))
    assert torch.equal(box[0], given(me, 4, 3)[0])
    ops.broadcast_(box, n - 1)
    assert torch.equal(box[3], given(n - 1, 4, 3)[3])
    mean = symmetric.tensor(given(me, 5))
    ops.all_reduce_(mean, "avg")
    torch.testing.assert_close(mean, given(0, 5) * (n + 1) / 2)
    source, out = symmetric.tensor(given(me, n, 2)), symmetric.empty(n, n, 2)
    ops.all_gather_out(out, source)
    assert torch.equal(out, torch.stack([given(r, n, 2) for r in range(n)]))
    ops.all_to_all_out(out[0], source)
    assert torch.equal(out[0], torch.stack([given(r, n, 2)[me] for r in range(n)]))
    ops.reduce_scatter_out(out[0, :1], source)
    assert torch.equal(out[0, 0], sum(given(r, n, 2)[me] for r in range(n)))
    refused(ValueError, "elements", ops.all_gather_out, out, symmetric.empty(3))
    refused(TypeError, "float64", ops.all_gather_out, out.double(), source)
    copied = given(me, 6, 2).t()  # anywhere, and not contiguous
    ops.all_reduce_(copied, copy=True)
    assert torch.equal(copied, sum(given(r, 6, 2) for r in range(n)).t())
    ops.all_gather_out(large := torch.empty(n * 6, 2), copied.t(), copy=True)
    assert torch.equal(large.view(n, 6, 2)[me], copied.t())


def results_lie_apart(me: int, n: int) -> None:
    """For every operator with an ``out``, on the heap and anywhere, and views with other elements."""
    names = [name for name in BODIES if name.endswith("_out")]
    assert len(names) == 3
    for name in names:
        for copy in (False, True):
            room = symmetric.zeros(3 * n, 4) if not copy else torch.zeros(3 * n, 4)
            out, source = (n, 1) if name == "all_gather_out" else (1, n)
            out = n if name == "all_to_all_out" else out
            call = getattr(ops, name)
            for begin in range(out):
                with pytest.raises(ValueError, match="out shares memory with input"):
                    call(room[:out], room[begin : begin + source], copy=copy)
            apart = room[n : n + out], room[2 * n : 2 * n + source]
            call(*apart, copy=copy)
            if not copy:
                for lazy in (
                    (torch._neg_view(apart[0]), apart[1]),
                    (apart[0], torch._neg_view(apart[1])),
                ):
                    with pytest.raises(ValueError, match="negated view"):
                        call(*lazy)
            if copy:
                call(room[:out, ::2], room[n : n + source, 1::2], copy=True)
                interleaved = torch.zeros(n, 4)
                if out == source:
                    call(interleaved[:out, ::2], interleaved[:source, 1::2], copy=True)
    for name in ("all_reduce_", "broadcast_"):
        call, given = getattr(ops, name), () if name == "all_reduce_" else (0,)
        lazy = torch._neg_view(symmetric.ones(4))
        with pytest.raises(ValueError, match="negated view"):
            call(lazy, *given)
        lazy = torch._neg_view(torch.full((4,), 2.0))
        call(lazy, *given, copy=True)  # its elements are -2
        assert lazy.tolist() == [-2.0 * (n if name == "all_reduce_" else 1)] * 4
        box = symmetric.zeros(1)
    word = symmetric.zeros(1, dtype=torch.uint64)
    ops.put_signal(box, torch._neg_view(torch.ones(1)), word, 1, pyshmem.SIGNAL_SET, (me + 1) % n)
    ops.wait_signal(word, pyshmem.CMP_GE, 1, box)
    assert box.tolist() == [-1.0]
    ops.barrier(box)
    strided = torch.arange(4.0, 10.0)[::6]
    assert ops.all_reduce(strided, copy=True).tolist() == [4.0 * n]
    assert ops.all_gather(strided, copy=True).tolist() == [4.0] * n
    stray = torch.quantize_per_tensor(torch.ones(n), 0.5, 0, torch.qint8)
    with pytest.raises(
        (pyshmem.UnsupportedError, NotImplementedError), match=r"uantized|quantised"
    ):
        ops.all_reduce(stray, copy=True)


def signals(me: int, n: int) -> None:
    box, sig = symmetric.zeros(3), symmetric.zeros(1, dtype=torch.uint64)
    ops.put_signal(box, given(me, 3), sig, 1, pyshmem.SIGNAL_ADD, (me + 1) % n)
    ops.wait_signal(sig, pyshmem.CMP_GE, 1, box)
    assert torch.equal(box, given((me - 1) % n, 3))
    ops.barrier(box)
    refused(TypeError, "uint64", ops.wait_signal, box, pyshmem.CMP_GE, 1)


def derivatives(me: int, n: int) -> None:
    """Against the whole computed on one PE: the loss is the sum over the PEs."""
    weight = given(me, 2 * n, 2)

    def model(x: torch.Tensor) -> torch.Tensor:
        summed = ops.all_reduce(x, "sum", 0, True)
        part = ops.reduce_scatter(summed * weight, "avg", 0, True)
        whole = ops.all_gather(part, 0, True)
        turned = ops.all_to_all(whole * x, 0, True)
        return ops.broadcast(turned, n - 1, 0, True) * weight

    def reference(xs: list[torch.Tensor]) -> torch.Tensor:
        weights = [given(r, 2 * n, 2) for r in range(n)]
        summed = sum(xs)
        whole = sum(summed * w for w in weights) / n
        blocks = [(whole * x).view(n, 2, 2) for x in xs]
        turned = torch.cat([block[n - 1] for block in blocks])
        return sum((turned * w).sum() for w in weights)

    xs = [given(r, 2 * n, 2).requires_grad_() for r in range(n)]
    reference(xs).backward()
    mine = given(me, 2 * n, 2).requires_grad_()
    result = model(mine)
    result.sum().backward()
    torch.testing.assert_close(mine.grad, xs[me].grad)
    eager, mine.grad = mine.grad, None
    graph = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(graph(mine), result)
    graph(mine).sum().backward()
    torch.testing.assert_close(mine.grad, eager)
    refused(RuntimeError, "requires grad", ops.all_reduce_, mine, "sum", 0, True)
    largest = ops.all_reduce(mine, "max", 0, True)
    refused(NotImplementedError, "no derivative", largest.sum().backward)
    # What autograd had kept of a tensor is changed in place: it notices.
    kept = torch.ones(3)
    product = torch.ones(3, requires_grad=True) * kept
    ops.all_reduce_(kept, copy=True)
    refused(RuntimeError, "modified by an inplace operation", product.sum().backward)


def compiled(me: int, n: int) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        ops.all_reduce_(y, "sum", 0, True)
        ops.barrier(y)
        ops.broadcast_(x, 0, 0, True)
        return y + x

    mine, graph = given(me, 4), torch.compile(step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(graph(mine), 2 * sum(given(r, 4) for r in range(n)) + given(0, 4))
    torch.testing.assert_close(mine, given(0, 4))


def checked() -> None:
    """On one PE, as each check calls an operator as often as it likes."""
    x, grad = given(0, 2, 3), given(0, 2, 3).requires_grad_()
    for name, arguments in {
        "all_reduce": (grad, "sum", 0, True), "all_reduce_": (x, "sum", 0, True),
        "all_gather": (grad, 0, True), "all_gather_out": (x + 1, x, 0, True),
        "reduce_scatter": (grad, "avg", 0, True), "reduce_scatter_out": (x + 1, x, "sum", 0, True),
        "all_to_all": (grad, 0, True), "all_to_all_out": (x + 1, x, 0, True),
        "broadcast": (grad, 0, 0, True), "broadcast_": (x, 0, 0, True), "barrier": (x,),
    }.items():  # fmt: skip
        torch.library.opcheck(getattr(ops, name).default, arguments)


torch.set_num_threads(1)
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    before_staging(me)
    refused(TypeError, "team is of type int, not a Team", symmetric.register_team, 1)
    refused(TypeError, "team is None", symmetric.register_team, None)
    assert symmetric.register_team() == 0
    in_place(me, n)
    results_lie_apart(me, n)
    signals(me, n)
    derivatives(me, n)
    compiled(me, n)
    if n == 1:
        checked()
    else:
        rows, columns = pyshmem.TEAM_WORLD.split_2d(2)
        number = symmetric.register_team(rows, staging="1M")
        result = ops.all_reduce(torch.ones(2), "sum", number, True)
        assert result.tolist() == [rows.n_pes()] * 2
        rows.destroy()
        columns.destroy()

refused(pyshmem.NotInitialized, "init", ops.all_reduce_, torch.ones(2))
print("ok", flush=True)
