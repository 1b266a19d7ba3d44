# SPDX-License-Identifier: BSD-3-Clause
"""``--check=deliver``: what may be late is late, in an order that the seed gives."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import seeds
from test_order import HERE, RIGHT, WITHOUT, groups, needs, wants_torch

RUN = [sys.executable, "-m", "pyshmem", "run", "--timeout", "160"]
LATE = sorted(HERE.glob("late/*.py"))


def command(program: Path, *options: str) -> list[str]:
    n_pes, device = needs(program)
    return [*RUN, "-n", n_pes, "--device", device, "--check=deliver", *options]


#: Those that the regular tests run.
SOME = (
    "put_then_flag",
    "source_reused",
    "fence_for_another_pe",
    "kernel_put_then_flag",
    "stream_without_event",
    "triton_stored_here",
)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            path,
            id=path.stem,
            marks=[
                *([] if path.stem in SOME else [pytest.mark.long]),
                *([WITHOUT] if wants_torch(path) else []),
            ],
        )
        for path in LATE
    ],
)
def test_a_wrong_order_shows(program: Path, run_command: Callable) -> None:
    done = run_command([*command(program, "--seeds", "40"), str(program)], 200)
    told = re.search(r"--seed (\d+)", done.stderr)
    assert done.returncode == 3, done.stderr
    assert told is not None, done.stderr
    assert "prints otherwise" in done.stderr


def _runs(count: int, run_command: Callable, programs: list[Path]) -> str:
    line = command(programs[0], "--seeds", str(count), "--seed", "11")
    limit = max(200, 4 * count)
    line[line.index("--timeout") + 1] = str(limit - 20)
    done = run_command([*line, str(HERE / "several.py"), *map(str, programs)], limit)
    assert done.returncode == 0, done.stderr
    return str(done.stderr)


@pytest.mark.parametrize("programs", groups(RIGHT)[:1])
def test_a_right_program_stays_right(programs: list[Path], run_command: Callable) -> None:
    assert "the same with seeds 11 to 12" in _runs(2, run_command, programs)


def test_thirty_programs_stay_right(run_command: Callable) -> None:
    """With few seeds here; ``make seeds`` is of 100."""
    assert len(set(seeds.SHORT)) == 30
    assert sum(map(len, seeds.jobs())) == 30
    done = run_command([sys.executable, str(HERE / "seeds.py"), "2"], 280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 seeds of 30 programs: the same" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thirty_programs_stay_right_with_100_seeds(run_command: Callable) -> None:
    done = run_command([sys.executable, str(HERE / "seeds.py")], 3600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("programs", groups(RIGHT))
def test_a_right_program_stays_right_with_many(programs: list[Any], run_command: Callable) -> None:
    assert "the same with seeds 11 to 40" in _runs(30, run_command, programs)


ORDER_OF_PES = """
import numpy as np, pyshmem
with pyshmem.init(device="none") as job:
    seen, data = pyshmem.zeros(1, np.int64), pyshmem.zeros(12, np.int64)
    for n in range(1, 5):
        at = pyshmem.atomic_fetch_inc(seen, 0)
        pyshmem.atomic_set(data[at:], job.my_pe + 1, 0)
    pyshmem.barrier_all()
    if job.my_pe == 0:
        print(*data)
"""


def test_a_seed_repeats_the_order_of_the_pes(run_command: Callable, tmp_path: Path) -> None:
    program = tmp_path / "order.py"
    program.write_text(ORDER_OF_PES, encoding="utf-8")

    def printed(seed: str) -> str:
        line = [*RUN, "-n", "3", "--device", "none", "--check=deliver", "--seed", seed]
        done = run_command([*line, str(program)], 100, check=True)
        assert f"--seed {seed} repeats this order" in done.stderr
        return str(done.stdout)

    first, again, other = (printed(seed) for seed in ("7", "7", "8"))
    assert first == again
    assert first != other


def test_a_seed_that_fails_is_told(run_command: Callable, tmp_path: Path) -> None:
    code = (
        "import numpy as np, pyshmem\n"
        "job = pyshmem.init()\n"
        "data = pyshmem.zeros(1, np.int64)\n"
        "pyshmem.p(data, 1, 1 - job.my_pe)\n"
        "pyshmem.sync_all()\n"
        "assert data[0] == 1\n"
    )
    line = [*RUN, "-n", "2", "--device", "none", "--check=order,deliver", "--seeds", "40"]
    done = run_command([*line, "-c", code], 100)
    assert re.search(r"PE \d fails with --seed \d+", done.stderr), done.stderr
    assert "AssertionError" in done.stderr
    assert done.returncode == 3  # of order, which tells the pair in the first run
    assert "nothing orders" in done.stderr


def test_who_waits_for_what_never_comes_times_out(run_command: Callable) -> None:
    code = (
        "import pyshmem; pyshmem.init(); flag = pyshmem.new_signal(); "
        "pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)"
    )
    line = [*RUN, "-n", "2", "--device", "none", "--check=deliver", "-c", code]
    done = run_command(line, 60, PYSHMEM_TIMEOUT="1")
    assert "ShmemTimeout" in done.stderr
    assert "who waits for whom" in done.stderr


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--check=order", "--seed", "1", "-c", "pass"], "are of --check=deliver"),
        (["--check=deliver", "--seeds", "2", "/bin/true"], "is of programs in Python"),
    ],
)
def test_what_it_is_not_for_is_refused(
    options: list[str], what: str, run_command: Callable
) -> None:
    done = run_command([*RUN, "-n", "1", "--device", "sim", *options], 60)
    assert done.returncode == 1
    assert what in done.stderr
