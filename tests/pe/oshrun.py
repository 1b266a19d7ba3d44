# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of jobs that ``oshrun`` starts share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TESTS = Path(__file__).parent.parent
SUITE = TESTS / "spmd" / "host"
EXAMPLES = TESTS.parent / "examples"
#: Hypothesis, which no suite uses, would be imported for its line in the summary.
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]


def reason_to_skip() -> str:
    """Why no job can be started here; empty when one can."""
    return "" if shutil.which("oshrun") else "oshrun is not installed"


def permission() -> dict[str, str]:
    """Open MPI refuses root, as in a container, unless it is told twice."""
    if os.geteuid():
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def launch(n: int) -> list[str]:
    """``oshrun -n n``; more PEs than cores must be allowed."""
    cores = len(os.sched_getaffinity(0))
    return ["oshrun", *(["--oversubscribe"] if n > cores else []), "-n", str(n)]
