# SPDX-License-Identifier: BSD-3-Clause
"""The device suite with kernels compiled for the CPU: some jobs of its files, which keep machine code.

What only the simulator does with kernels stays with ``test_suites.py``: routines of the host in them,
arguments that its launches refuse, late messages, checking mode.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from oshrun import PYTEST

SUITE = Path(__file__).parent.parent / "spmd" / "device"

#: Files of a job. Most of the time is the compiler's; two need minutes of it, and are dealt out.
JOBS = {
    "transfers": ("put_get", "ll", "strided", "messages", "paths", "faults", "traps"),
    "collectives": ("collectives", "reduce_scatter", "teams", "device_contexts", "locks"),
    "waits": (
        *("waits", "signals", "atomics", "atomics_nbi", "arguments"),
        *("old_replies", "loads_beside_kernels"),
    ),
    "reductions": ("collectives_reduce",),
    "verdicts": ("verdicts",),
}
#: Parts that two jobs are dealt out into, of which every run of the tests has the first.
PARTS = {"reductions": 6, "verdicts": 6}
#: Files of what is not compiled for CPUs, or is a GPU's.
NOT_THERE = ("host_only", "routine_examples", "launches", "on_gpu", "streams_on_gpu")

RunPes = Callable[..., object]


def run_job(
    name: str, n_pes: int, run_pes: RunPes, environment: dict[str, str], *more: str
) -> None:
    files = [str(SUITE / f"test_{file}.py") for file in JOBS[name]]
    program, *others = [*files, *more]
    run_pes(
        n_pes,
        Path(program),
        others,
        device="cpu",
        options=PYTEST,
        timeout=900,
        env=environment,
        check=True,
    )


def test_every_file_of_the_suite_is_in_a_job_or_says_why_not() -> None:
    files = sorted(path.stem.removeprefix("test_") for path in SUITE.glob("test_*.py"))
    assert files == sorted([*NOT_THERE, *(file for job in JOBS.values() for file in job)])


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", JOBS)
def test_device_suite_on_cpus(name: str, run_pes: RunPes, kept: dict[str, str]) -> None:
    part = [f"--shard=0/{PARTS[name]}"] if name in PARTS else []
    run_job(name, 3, run_pes, kept, *part)


@pytest.mark.long
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", PARTS)
def test_the_other_parts_on_cpus(name: str, run_pes: RunPes, kept: dict[str, str]) -> None:
    for part in range(1, PARTS[name]):
        run_job(name, 3, run_pes, kept, f"--shard={part}/{PARTS[name]}")


#: Numbers of PEs, and settings.
KINDS = [(1, ""), (2, ""), (4, ""), (2, "P2P=0"), (3, "NODE_SIZE=1")]


@pytest.mark.long
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("n_pes", "setting"), KINDS)
@pytest.mark.parametrize("name", JOBS)
def test_whole_device_suite_on_cpus(
    name: str, n_pes: int, setting: str, run_pes: RunPes, kept: dict[str, str]
) -> None:
    """What was compiled for 3 PEs is kept."""
    word, _, value = setting.partition("=")
    run_job(name, n_pes, run_pes, {**kept, f"PYSHMEM_{word}": value} if word else kept)
