# SPDX-License-Identifier: BSD-3-Clause
"""The environment of programs under test."""

from __future__ import annotations

import os
from pathlib import Path

#: Variables of a job that the tests themselves may run in; a program under test must not see them.
_JOB_VARIABLES = (
    *(f"PYSHMEM_{name}" for name in ("PE", "N_PES", "LOCAL_PE", "JOB", "CONTROL_FD", "DEVICE")),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
)


def clean_environment(**extra: str) -> dict[str, str]:
    """This process's environment without the place in a job it may have, and with ``extra``.

    Bytecode is kept: suites start their tests some hundred times.
    """
    without = (*_JOB_VARIABLES, "PYTHONDONTWRITEBYTECODE")
    return {k: v for k, v in os.environ.items() if k not in without} | extra


def processes_of(session: int) -> str:
    """A line for each living process of a session: number, parent, state, what it waits for, command."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, _, of = (
                (folder / "stat").read_text().rpartition(")")[2].split(maxsplit=4)[:4]
            )
            command = (folder / "cmdline").read_text().replace("\0", " ")
            waits = (folder / "wchan").read_text()
        except OSError:  # it has ended
            continue
        if int(of) == session:
            lines.append(f"{folder.name} (of {parent}) {state} {waits}: {command[:200]}")
    return "\n".join(lines)
