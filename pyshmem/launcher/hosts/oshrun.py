# SPDX-License-Identifier: BSD-3-Clause
"""A job on several hosts by the command of an installed ``oshrun``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from ..._core.errors import LaunchError
from .. import torchrun_names
from ..spec import PLACE, JobSpec
from .environment import EXPORTED
from .places import Place


def oshrun_command(
    spec: JobSpec, hosts: Sequence[Place], environment: Mapping[str, str]
) -> list[str]:
    """The command line; PEs are not bound to cores, as each has threads that need one besides."""
    oshrun = shutil.which("oshrun", path=environment.get("PATH"))
    if not oshrun:
        raise LaunchError(
            "--hosts: oshrun is not installed; it is part of Open MPI with OpenSHMEM "
            "(Debian and Ubuntu: apt install openmpi-bin libopenmpi-dev)"
        )
    names = [place.host for place in hosts]
    if len(set(names)) < len(names):
        raise LaunchError(f"--hosts {','.join(names)}: oshrun takes each host once")
    where = ",".join(f"{host}:{n}" for host, n in hosts)
    command = [oshrun, "--host", where, "-n", str(spec.n_pes), "--bind-to", "none"]
    if spec.tag:
        command.append("--tag-output")
    if spec.timeout:
        command += ["--timeout", str(max(1, round(spec.timeout)))]
    for name in sorted(environment):
        if name.startswith(EXPORTED) and name not in PLACE:
            command += ["-x", name]
    return [*command, *spec.command]


def run_by_oshrun(spec: JobSpec, hosts: Sequence[Place], refused: Sequence[str] = ()) -> None:
    """Become ``oshrun``: its output, signals and exit status are then those of this process.

    Raises: LaunchError, also for options given that such a job does not have, ``refused``.
    """
    if refused:
        raise LaunchError(f"{', '.join(refused)}: a job that oshrun starts does not have that")
    environment = {
        name: value
        for name, value in spec.environment(0, -1).items()
        if name not in PLACE and (name not in torchrun_names.NAMES or name in os.environ)
    }
    command = oshrun_command(spec, hosts, environment)
    os.execve(command[0], command, environment)
