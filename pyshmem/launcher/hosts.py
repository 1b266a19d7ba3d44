# SPDX-License-Identifier: BSD-3-Clause
"""A job on several hosts: the command of the installed ``oshrun`` that starts it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from .._core.errors import LaunchError
from . import ranks
from .spec import PLACE, JobSpec

#: Variables of these beginnings reach the PEs of all hosts, as they would on one.
EXPORTED = ("PYSHMEM_", "SHMEM_", "UCX_", "NUMBA_", "TRITON_", "PYTHON", "CUDA_MODULE_")


def places(hosts: str, n_pes: int) -> list[tuple[str, int]]:
    """How many of ``n_pes`` PEs each host has, by ``a,b`` (even shares) or ``a:2,b:6``.

    Raises: LaunchError for an empty or repeated name, a count that is none, or the wrong sum.
    """
    rows = [text.strip().partition(":") for text in hosts.split(",")]
    names = [name for name, _, _ in rows]
    if not all(names) or len(set(names)) < len(names):
        raise LaunchError(f"--hosts {hosts}: give each host once, as in a,b or a:2,b:6")
    counts = [count for _, _, count in rows]
    if not any(counts):
        if n_pes < len(names):
            raise LaunchError(f"--hosts {hosts}: {n_pes} PEs are fewer than the {len(names)} hosts")
        share, more = divmod(n_pes, len(names))
        return [(name, share + (k < more)) for k, name in enumerate(names)]
    if not all(count.isdecimal() and int(count) for count in counts):
        raise LaunchError(f"--hosts {hosts}: give a number of PEs for each host, or for none")
    if sum(map(int, counts)) != n_pes:
        raise LaunchError(f"--hosts {hosts}: these are {sum(map(int, counts))} PEs, not -n {n_pes}")
    return [(name, int(count)) for name, count in zip(names, counts, strict=True)]


def oshrun_command(spec: JobSpec, hosts: str, environment: Mapping[str, str]) -> list[str]:
    """The command line; PEs are not bound to cores, as each has threads that need one besides."""
    oshrun = shutil.which("oshrun", path=environment.get("PATH"))
    if not oshrun:
        raise LaunchError(
            "--hosts: oshrun is not installed; it is part of Open MPI with OpenSHMEM "
            "(Debian and Ubuntu: apt install openmpi-bin libopenmpi-dev)"
        )
    where = ",".join(f"{host}:{n}" for host, n in places(hosts, spec.n_pes))
    command = [oshrun, "--host", where, "-n", str(spec.n_pes), "--bind-to", "none"]
    if spec.tag:
        command.append("--tag-output")
    if spec.timeout:
        command += ["--timeout", str(max(1, round(spec.timeout)))]
    for name in sorted(environment):
        if name.startswith(EXPORTED) and name not in PLACE:
            command += ["-x", name]
    return [*command, *spec.command]


def run_on_hosts(spec: JobSpec, hosts: str, refused: Sequence[str] = ()) -> None:
    """Become ``oshrun``: its output, signals and exit status are then those of this process.

    Raises: LaunchError, also for options given that only a job of this host has, ``refused``.
    """
    if refused:
        raise LaunchError(f"{', '.join(refused)} and --hosts: only a job on this host has that")
    environment = {
        name: value
        for name, value in spec.environment(0, -1).items()
        if name not in PLACE and (name not in ranks.NAMES or name in os.environ)
    }
    command = oshrun_command(spec, hosts, environment)
    os.execve(command[0], command, environment)
