# SPDX-License-Identifier: BSD-3-Clause
"""The environment of programs under test."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

#: Variables of a job that the tests themselves may run in; a program under test must not see them.
_JOB_VARIABLES = (
    *(
        f"PYSHMEM_{name}"
        for name in (
            "PE",
            "N_PES",
            "LOCAL_PE",
            "CORES",
            "JOB",
            "CONTROL_FD",
            "DEVICE",
            "RENDEZVOUS",
            "SECRET",
        )
    ),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("RANK_SET_BY", "TORCHELASTIC_RUN_ID"),
)


def clean_environment(**extra: str) -> dict[str, str]:
    """This process's environment without the place in a job it may have, and with ``extra``.

    Bytecode is kept: suites start their tests some hundred times.
    """
    without = (*_JOB_VARIABLES, "PYTHONDONTWRITEBYTECODE")
    return {k: v for k, v in os.environ.items() if k not in without} | extra


def random_seed() -> int:
    """For a test of random things, which it prints: ``PYSHMEM_TEST_SEED`` has it take the same again."""
    seed = int(os.environ.get("PYSHMEM_TEST_SEED") or random.randrange(1 << 32))
    print("seed", seed, flush=True)
    return seed


def processes_of(session: int) -> list[psutil.Process]:
    """The processes of a session that have not ended."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) == session:
                found.append(process)
    return found


def listing(processes: Iterable[psutil.Process]) -> str:
    """A line for each that is there: number, command, state, CPU seconds; and the machine's load.

    Seconds of the CPU tell a machine that has too much to do from processes that spin.
    """
    import psutil

    lines = []
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            words = " ".join(one.cmdline()[1:4])
            lines.append(f"{one.pid} {words}: {one.status()}, {one.cpu_times().user} s")
    return "\n".join([*lines, f"load {os.getloadavg()[0]}"])
