# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: which launches go to what Triton compiled before, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")


class Compiled:
    """Stands for what Triton compiles."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, stream: self.seen.append(("again", grid, stream, args))


def body(x, y, number, size, block, ctx, WIDTH, SCALE=2.5, LAST=True) -> None:  # type: ignore[no-untyped-def]
    """Parameters of a kernel."""


class Kernel:
    """Stands for a kernel: says how it was launched."""

    fn = staticmethod(body)

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any, **constants: Any) -> Compiled:
            self.seen.append(("by Triton", grid, len(args), constants))
            return Compiled(self.seen)

        return launch


def test_launches_that_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyshmem._torch import launches

    monkeypatch.setattr(launches, "CompiledKernel", Compiled)
    monkeypatch.setattr(launches, "current_stream", lambda: 77)
    seen: list[Any] = []
    block, addresses = torch.zeros(8), iter((4096, 8192))
    ctx = SimpleNamespace(data_ptr=lambda: next(addresses))
    constants = {"WIDTH": 3, "LAST": False, "num_warps": 4}
    launch = launches.Launch(Kernel(seen), 5, (10, block, ctx), constants)
    memory = torch.zeros(64)
    x, y = memory[:16], memory[16:32]
    assert x.data_ptr() % 16 == 0
    for number in (1, 2, 3):
        launch((x, y), (number,))
    rest = 10, block.data_ptr()
    assert seen == [
        ("by Triton", (5, 1, 1), 6, constants),
        ("again", (5, 1, 1), 77, (x.data_ptr(), y.data_ptr(), 2, *rest, 4096, 3, 2.5, False)),
        ("again", (5, 1, 1), 77, (x.data_ptr(), y.data_ptr(), 3, *rest, 8192, 3, 2.5, False)),
    ]
    seen.clear()
    launch((x, memory[1:17]), (4,))  # Triton knows of addresses whether they are multiples of 16
    assert [one[0] for one in seen] == ["by Triton"]
    launches._forget()  # stages are compiled in, or no longer
    addresses = iter((1, 2))
    launch((x, y), (5,))
    launch((x, y), (6,))
    assert [one[0] for one in seen] == ["by Triton", "by Triton", "again"]


TWO_JOBS = """
    import threading
    import pyshmem
    import torch
    from pyshmem.fused._shared.copy_engine import side_stream

    device, found, go_on = torch.device("cpu"), [], threading.Semaphore(0)
    done = threading.Semaphore(0)

    def other() -> None:
        for _ in range(2):
            go_on.acquire()
            found.append(side_stream(device))
            done.release()

    thread = threading.Thread(target=other)
    thread.start()
    for _ in range(2):
        with pyshmem.init():
            assert side_stream(device) is side_stream(device)
            go_on.release()
            done.acquire()
    thread.join()
    print(found[0] is not found[1])
"""


def test_streams_beside_others_are_those_of_one_job_in_all_threads(run_pes: Callable) -> None:
    assert run_pes(1, TWO_JOBS, device="sim", check=True).stdout == "True\n"


def test_tensors_that_differ_are_seen_at_once() -> None:
    """What C makes of tensors is the same where Python sees the same, and nowhere else."""
    from pyshmem.fused._shared.arguments import look, look_at_once

    x = torch.zeros(4, 8)
    parameter = torch.nn.Parameter(x)
    same = [x, torch.ones(4, 8), torch.zeros(8, 8)[2:6]]
    others = [
        x[:, :4], x.t(), x.view(8, 4), x.view(32), x.to(torch.bfloat16), x.to(torch.float16),
        x.int(), x.to(torch.float8_e4m3fn), x.to(torch.float8_e5m2), torch.zeros(8, 8)[:, ::2][:4],
        parameter, None, torch.zeros(4, 8, device="meta"),
    ]  # fmt: skip
    seen = [look_at_once(False, one) for one in same]
    assert seen[0] is not None
    assert len(set(seen)) == 1
    assert len({look_at_once(False, one) for one in (x, *others)}) == len(others) + 1
    assert len({look(one) for one in (x, *others)}) == len(others) + 1
    assert look_at_once(False, x, None) != look_at_once(False, None, x)
    for lazy in (torch._neg_view(x), x.to_sparse(), 5, "x"):
        assert look_at_once(False, lazy) is None
    assert look_at_once(True, x) is not None
    assert look_at_once(True, x, parameter) is None


NORMS_AGAIN = """
    import pyshmem
    import torch
    from pyshmem import fused
    from pyshmem._torch.launches import Launch

    pyshmem.init()
    x, residual = torch.randn(4, 32), torch.randn(4, 32)
    weight, other = torch.randn(32), torch.randn(32)
    first = fused.all_reduce_rmsnorm(x, weight, residual=residual)
    seen = []

    def again(self, tensors, numbers=(), stream=None):
        seen.append(tensors)
        return len(tensors) == 8

    Launch.again, Launch.repeats = again, True
    slow, run = [], fused.all_reduce_norm.api.run
    fused.all_reduce_norm.api.run = lambda *given: (slow.append(given), run(*given))[1]
    y, total, scales = fused.all_reduce_rmsnorm(x, weight, residual=residual)
    (tensors,) = seen
    wanted = x, residual, weight, weight, y, total, x, x
    assert all(one is two for one, two in zip(tensors, wanted, strict=True)) and scales is None
    assert y.shape == total.shape == x.shape and not slow
    fused.all_reduce_rmsnorm(x + 1, other, residual=x)
    assert len(seen) == 2 and not slow
    calls = [
        dict(eps=1e-3), dict(norm="layer"), dict(residual=None), dict(bias=weight), dict(out=x.clone()),
        dict(residual_out=x.clone()), dict(algorithm="one_shot"), dict(x=x[:2], residual=residual[:2]),
        dict(x=x.bfloat16(), residual=residual.bfloat16()), dict(weight=weight.bfloat16()),
    ]
    for number, more in enumerate(calls, 1):
        fused.all_reduce_rmsnorm(**(dict(x=x, weight=weight, residual=residual) | more))
        assert len(slow) == number, more
    fused.all_reduce_rmsnorm(x, torch.nn.Parameter(weight), residual=residual)
    assert len(slow) == len(calls) + 1  # by the operator, for the gradient
    for wrong in (dict(norm=["rms"]), dict(eps="x"), dict(team=None), dict(weight=weight[:8])):
        try:
            fused.all_reduce_rmsnorm(**(dict(x=x, weight=weight, residual=residual) | wrong))
        except (TypeError, ValueError):
            continue
        raise AssertionError(wrong)
    print("ok")
"""


def test_a_norm_like_one_before_goes_to_its_launch_at_once(run_pes: Callable) -> None:
    assert run_pes(1, NORMS_AGAIN, device="sim", check=True).stdout == "ok\n"
