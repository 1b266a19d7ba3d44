# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch's own parts and programs ask of the backend, on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import check


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
