# SPDX-License-Identifier: BSD-3-Clause
"""The example that uses MPI too, under the launchers that have MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="needs mpi4py")

pytestmark = pytest.mark.flaky(reruns=1)  # as in tests/pe/test_oshrun.py

EXAMPLE = Path(__file__).parents[2] / "examples" / "08_mpi.py"
EVERYWHERE = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("launcher", ["mpirun", "oshrun"])
def test_the_mpi_example(launcher: str, n: int) -> None:
    if shutil.which(launcher) is None:
        pytest.skip(f"needs {launcher}")
    command = [launcher, "--oversubscribe", "-n", str(n), sys.executable, str(EXAMPLE)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSHMEM_")}
    environment |= EVERYWHERE | {"PYSHMEM_DEVICE": "none", "PYSHMEM_TIMEOUT": "20"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{n} processes")
    assert done.stdout.endswith(": ok\n")
