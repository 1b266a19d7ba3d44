# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed: tensors whose elements are not their memory, in every call of the backend."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import check

CALLS = """
#: Every call, of tensors that ``make`` gives; ``w`` is how a rank waits.
CALLS = {
    "all_reduce": lambda make: dist.all_reduce(make()),
    "coalesced": lambda make: dist.all_reduce_coalesced([torch.ones(4), make()]),
    "reduce": lambda make: dist.reduce(make(), 0),
    "broadcast": lambda make: dist.broadcast(make(), 0),
    "all_gather": lambda make: dist.all_gather([torch.zeros(4) for _ in range(n)], make()),
    "all_gather to": lambda make: dist.all_gather([make() for _ in range(n)], torch.ones(4)),
    "all_gather_single": lambda make: group._allgather_base(torch.zeros(4 * n), make()),
    "all_gather_single to": lambda make: group._allgather_base(make(), torch.zeros(4 // n)),
    "reduce_scatter": lambda make: dist.reduce_scatter(torch.zeros(4), [make() for _ in range(n)]),
    "reduce_scatter to": lambda make: dist.reduce_scatter(make(), [torch.ones(4)] * n),
    "reduce_scatter_single": lambda make: group._reduce_scatter_base(torch.zeros(4 // n), make(), None),
    "all_to_all": lambda make: dist.all_to_all([torch.zeros(4)] * n, [make() for _ in range(n)]),
    "all_to_all to": lambda make: dist.all_to_all([make() for _ in range(n)], [torch.ones(4)] * n),
    "all_to_all_single": lambda make: group.alltoall_base(torch.zeros(4), make(), [], []),
    "splits": lambda make: group.alltoall_base(torch.zeros(4), make(), [4 // n] * n, [4 // n] * n),
    "gather": lambda make: dist.gather(make(), [torch.zeros(4) for _ in range(n)] if me == 0 else None),
    "scatter": lambda make: dist.scatter(make(), [torch.ones(4) for _ in range(n)] if me == 0 else None),
    "send": lambda make: dist.send(make(), (me + 1) % n) if me == 0 else dist.recv(make(), me - 1),
    "batch": lambda make: dist.batch_isend_irecv([dist.P2POp(dist.isend, make(), (me + 1) % n)]),
}
"""


def test_tensors_without_plain_memory_are_refused_by_every_call(run_pes: Callable) -> None:
    code = """
    group = dist.group.WORLD
    nested = lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)])
    KINDS = {
        "quantised": lambda: torch.quantize_per_tensor(torch.ones(4), 0.5, 0, torch.qint8),
        "nested": nested,
        "jagged": lambda: torch.nested.nested_tensor([torch.ones(2)] * 2, layout=torch.jagged),
        "sparse": lambda: torch.ones(4).to_sparse(),
        "csr": lambda: torch.ones(2, 2).to_sparse_csr(),
        "mkldnn": lambda: torch.ones(4).to_mkldnn(),
    }
    if not torch.backends.mkldnn.is_available():
        del KINDS["mkldnn"]
    for kind, make in KINDS.items():
        for name, call in CALLS.items():
            # Torch's dispatcher has no kernel for lists of some kinds.
            refused = pyshmem.UnsupportedError, TypeError, ValueError, NotImplementedError
            if kind in ("nested", "jagged"):
                refused += (RuntimeError,)  # torch's flight recorder asks lists for sizes first
            with pytest.raises(refused) as told:
                call(make)
                print("no error:", kind, name, flush=True)
            text = str(told.value)
            if told.type is pyshmem.UnsupportedError:
                assert "dense tensors of plain memory" in text, (kind, name, text)
            elif told.type is RuntimeError:
                assert "n't support sizes" in text or "aten.size" in text, (kind, name, text)
    WORDS = {"quantised": "int_repr", "nested": "unbind", "sparse": "to_dense"}
    for kind, words in WORDS.items():
        refused = pyshmem.UnsupportedError, NotImplementedError
        with pytest.raises(refused, match=f"{words}|Could not run"):
            dist.broadcast(KINDS[kind](), 0)
    # Torch's dispatcher may have no kernel for nested ones: ours is for our groups alone.
    gloo = dist.new_group(backend="gloo")
    for kind in ("nested", "jagged"):
        with pytest.raises(pyshmem.UnsupportedError, match="unbind"):
            dist.all_reduce(KINDS[kind]())
        with pytest.raises(NotImplementedError, match="Could not run 'c10d::allreduce_'.*NestedTensor"):
            dist.all_reduce(KINDS[kind](), group=gloo)
    """
    check(run_pes, 2, CALLS + code.replace("\n    ", "\n"))


OF_SUBCLASSES = """
from torch._subclasses import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

group, mode = dist.group.WORLD, FakeTensorMode()

def fake():
    with mode:
        return torch.ones(4)

KINDS = {
    "fake": fake, "meta": lambda: torch.ones(4, device="meta"),
    "wrapper": lambda: TwoTensor(torch.ones(4), torch.ones(4)),
}
"""


def test_calls_of_tensors_that_stand_for_others_are_torchs(run_pes: Callable) -> None:
    """Its dispatcher makes a call of each part of a wrapper, and none of what has no elements."""
    code = """
    if me == 0:
        for kind in ("fake", "meta"):
            for call in CALLS.values():
                try:
                    call(KINDS[kind])
                except (AssertionError, RuntimeError, TypeError, ValueError):
                    continue  # torch's, of a call of several kinds
    pair = KINDS["wrapper"]()
    dist.all_reduce(pair)
    assert pair.a.tolist() == pair.b.tolist() == [float(n)] * 4
    """
    check(run_pes, 2, CALLS + OF_SUBCLASSES + code.replace("\n    ", "\n"))


def test_groups_in_python_refuse_tensors_that_stand_for_others(run_pes: Callable) -> None:
    code = """
    for kind, make in KINDS.items():
        for name, call in CALLS.items():
            with pytest.raises((pyshmem.UnsupportedError, TypeError, ValueError)) as told:
                call(make)
                print("no error:", kind, name, flush=True)
            text = str(told.value)
            if told.type is pyshmem.UnsupportedError:
                assert "dense tensors of plain memory" in text, (kind, name, text)
    for kind, words in {"fake": "FakeTensor", "wrapper": "TwoTensor"}.items():
        with pytest.raises(pyshmem.UnsupportedError, match=words):
            dist.broadcast(KINDS[kind](), 0)
    """
    program = CALLS + OF_SUBCLASSES + code.replace("\n    ", "\n")
    check(run_pes, 2, program, PYSHMEM_TORCH_GROUPS="python")


NEGATED = """
def negated():
    return torch._neg_view(torch.full((4,), me + 1.0))
"""


def test_elements_of_lazy_views_count(run_pes: Callable) -> None:
    """Those that are read. What is written to them is lost: torch gives each backend a copy."""
    code = """
    rows = [torch.zeros(4) for _ in range(n)]
    dist.all_gather(rows, negated())
    assert [row.tolist() for row in rows] == [[-r - 1.0] * 4 for r in range(n)]
    x = torch.zeros(4)
    dist.scatter(x, [negated() for _ in range(n)] if me == 0 else None)
    assert x.tolist() == [-1.0] * 4
    if me == 0:
        dist.send(negated(), 1)
    elif me == 1:
        dist.recv(x, 0)
        assert x.tolist() == [-1.0] * 4
    """
    check(run_pes, 3, NEGATED + code.replace("\n    ", "\n"))


def test_elements_of_lazy_views_are_written_by_groups_in_python(run_pes: Callable) -> None:
    code = """
    total = -sum(range(1, n + 1))
    x = negated()
    dist.all_reduce(x)
    assert x.tolist() == [total] * 4
    x, opts = torch.full((2,), me + 2j).conj(), dist.BroadcastOptions()
    opts.rootRank = 1
    dist.group.WORLD.broadcast([x], opts).wait()  # torch's functions want it resolved
    assert x.tolist() == [1 - 2j] * 2
    rows = [torch._neg_view(torch.zeros(4)) for _ in range(n)]
    dist.all_gather(rows, negated())
    assert [row.tolist() for row in rows] == [[-r - 1.0] * 4 for r in range(n)]
    x = negated()
    dist.broadcast(x, n - 1)
    assert x.tolist() == [-n] * 4
    x = negated()
    if me == 0:
        dist.send(x, 1)
    elif me == 1:
        dist.recv(x, 0)
        assert x.tolist() == [-1.0] * 4
    """
    program = NEGATED + code.replace("\n    ", "\n")
    check(run_pes, 3, program, PYSHMEM_TORCH_GROUPS="python")


def test_elements_of_odd_strides_count(run_pes: Callable) -> None:
    code = """
    def alone():
        return torch.arange(4.0, 10.0)[::6]

    def new():
        return [torch.zeros(3)[1:2] for _ in range(n)]
    every = {
        "all_reduce": lambda t: dist.all_reduce(t), "broadcast": lambda t: dist.broadcast(t, 0),
        "reduce": lambda t: dist.reduce(t, 0), "all_gather": lambda t: dist.all_gather(new(), t),
        "into": lambda t: dist.all_gather_into_tensor(torch.zeros(n), t),
        "from": lambda t: dist.reduce_scatter_tensor(t, torch.ones(n)),
        "reduce_scatter": lambda t: dist.reduce_scatter(t, [torch.ones(1)] * n),
        "all_to_all": lambda t: dist.all_to_all(new(), [t] * n),
        "gather": lambda t: dist.gather(t, new() if me == 0 else None, 0),
        "scatter": lambda t: dist.scatter(t, new() if me == 0 else None, 0),
        "send": lambda t: dist.send(t, 1) if me == 0 else dist.recv(t, 0) if me == 1 else None,
    }
    for name, call in every.items():
        for make in (alone, lambda: torch.ones(1, 5).t()[:1], lambda: torch.ones(6, 6)[2:3, 4:5]):
            for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
                call(make().to(dtype) if name in ("all_reduce", "broadcast") else make())
    x = alone()
    dist.all_reduce(x)
    assert x.tolist() == [4.0 * n]
    strided = torch.zeros(9)
    dist.broadcast(strided[::9], 0)
    dist.all_gather([strided[i :: 9] for i in range(n)], torch.tensor([me + 1.0]))
    assert strided.tolist() == [float(i + 1) for i in range(n)] + [0.0] * (9 - n)
    column = torch.ones(1, n).t()
    dist.all_to_all_single(column, torch.full((n, 1), me + 1.0))
    assert column.flatten().tolist() == [r + 1.0 for r in range(n)]
    """
    check(run_pes, 3, code)
