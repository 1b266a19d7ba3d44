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
