# SPDX-License-Identifier: BSD-3-Clause
"""Settings as the launcher needs them: all valid before a PE starts, the device decided once."""

from __future__ import annotations

from typing import NamedTuple

from .._core import library
from .._foreign import environment
from ..host.job import runtime
from ..host.tuning import cutover
from .spec import LaunchError


def check_settings(*, hosts: bool = False) -> None:
    """Raise ValueError for a setting that cannot be parsed: once here, not once a PE.

    ``hosts``: oshrun is going to start the job, so one of an OpenSHMEM library is right.
    """
    library.check(library.lib.ishmemx_settings_check())
    library.check_texts()
    for name in ("HEAP_SIZE", "DEVICE_HEAP_SIZE"):
        if library.setting_number(name) <= 0:
            raise ValueError(f"PYSHMEM_{name} is {library.setting(name)[0]!r}; it must be positive")
    cutover.check_settings()
    if hosts and library.checks_order():
        raise LaunchError("PYSHMEM_CHECK=order: the PEs have to be on one host, without --hosts")
    if not hosts:  # else the folder is that of other hosts
        library.check_cache_folder()
        check_conduit(library.setting("CONDUIT")[0])


def check_conduit(name: str) -> None:
    """Raise LaunchError for jobs that another launcher has to start."""
    if name.lower() == "openshmem":
        raise LaunchError(
            "conduit openshmem: this launcher starts no OpenSHMEM jobs but with --hosts; start it with "
            "oshrun, as in `oshrun -n 2 python script.py`"
        )


def check_setting(variable: str, text: str) -> None:
    """Raise ValueError if ``text`` cannot be the value of a variable, where that is a setting."""
    library.number_in(variable, text)
    if variable.startswith("PYSHMEM_"):
        cutover.check_setting(variable.removeprefix("PYSHMEM_"), text)


class Place(NamedTuple):
    """Which of the processes of a launcher this one is."""

    pe: int
    n_pes: int


def started_by_another() -> Place | None:
    """The place that another launcher, such as mpirun, has given this process; None: it gave none."""
    config = library.ffi.new("ishmemx_config_t *")
    if library.lib.ishmemx_config_from_environment(config):
        return None  # what is wrong with its variables matters to PEs alone
    return Place(int(config.pe), int(config.n_pes))


def settle_device(n_pes: int = 1, wanted: str | None = None) -> str:
    """The accelerator of all PEs, as ``PYSHMEM_DEVICE`` or ``wanted`` asks: cuda, sim, cpu or none."""
    device = runtime.choose_device(wanted, n_pes=n_pes)
    if device == "cuda" and not runtime.gpu_count():
        raise LaunchError(
            "device cuda: no GPU is visible here; --device sim runs kernels without one "
            "(`python -m pyshmem doctor` says what is missing)"
        )
    if device in library.SIMULATED and not environment.has_compiler():
        raise LaunchError(
            f"device {device}: numba is not installed, and triton neither "
            "(`python -m pyshmem doctor` says how to install it)"
        )
    return device
