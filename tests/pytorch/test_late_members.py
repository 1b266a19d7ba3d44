# SPDX-License-Identifier: BSD-3-Clause
"""Steps of experts that go on without members which are late or stopped, and have them back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")
pytest.importorskip("triton")

from test_torch import ALONE, PROGRAMS

PROGRAM = PROGRAMS / "late_members.py"
PLACES = ("begins", "sends", "commits", "takes", "answers", "commits sums", "adds")


def run(
    run_pes: Callable, n: int, *options: object, device: str = "sim", timeout: int = 280
) -> None:
    done = run_pes(
        n, PROGRAM, options, device=device, timeout=timeout, env={**ALONE, "PYSHMEM_CHECK": "0"},
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines().count("ok") == n, done.stdout


@pytest.mark.parametrize("n", [1, pytest.param(3, marks=pytest.mark.long)])
def test_with_all_there_a_step_has_the_bits_of_calls_without_timeout(
    n: int, run_pes: Callable
) -> None:
    run(run_pes, n, "alike")


@pytest.mark.parametrize(
    ("n", "place"),
    [
        (2, "commits"),
        *(pytest.param(n, one, marks=pytest.mark.long) for n in (2, 3) for one in PLACES),
    ],
)
def test_a_member_that_is_late_in_one_place_is_left_out_and_back(
    n: int, place: str, run_pes: Callable
) -> None:
    run(run_pes, n, "held", place, 5)


@pytest.mark.parametrize(("n", "seconds"), [(3, 3), pytest.param(4, 5, marks=pytest.mark.long)])
def test_several_are_late_at_once_and_again(n: int, seconds: int, run_pes: Callable) -> None:
    run(run_pes, n, "several", seconds)


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.long)])
def test_with_a_timeout_that_no_step_meets_all_agree(n: int, run_pes: Callable) -> None:
    run(run_pes, n, "short")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("what", "n", "late", "steps"),
    [
        ("stopped", 3, 0, 24),
        *(
            pytest.param(what, n, 2, 1000, marks=pytest.mark.long)
            for what in ("stopped", "sleeps")
            for n in (3, 4)
        ),
    ],
)
def test_a_member_that_is_stopped_or_sleeps_amid_many_steps_is_left_out_and_back(
    what: str, n: int, late: int, steps: int, run_pes: Callable
) -> None:
    """Of up to one token each: a step of four PEs takes a second of two processors."""
    seconds = 3 if steps < 100 else 5
    run(run_pes, n, what, late, steps, seconds, 1, timeout=3500)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options", [("alike",), ("stopped", 0, 1000, 1), ("asleep", 1000, 0.02)], ids=lambda o: o[0]
)
def test_on_gpus(options: tuple[object, ...], run_pes: Callable) -> None:
    run(run_pes, 2, *options, device="cuda")
