# SPDX-License-Identifier: BSD-3-Clause
"""The place in a job from a communicator, such as mpi4py's: who is here, and a name for the job.

Only methods are used, so that nothing of mpi4py is imported.
"""

from __future__ import annotations

import socket
import uuid
from pathlib import Path
from typing import Any

from ..._core.errors import UnsupportedError
from ..._core.library import ffi, lib
from ..._core.values import with_article


def place_in(comm: Any, config: Any) -> Any:
    """Set PE, number of PEs and job name of an ``ishmemx_config_t``. Collective over ``comm``.

    Returns:
        What ``config`` points into; keep it until the library has read ``config``. None past one
        host: there the launcher's own job is the communicator's.
    """
    rank, size = rank_and_size(comm)
    if config.control_fd >= 0 and size != config.n_pes:
        raise ValueError(
            f"comm has {size} process{'es' if size > 1 else ''}, but pyshmem's launcher started "
            f"{config.n_pes} PEs: leave comm out, or start the program with mpirun alone"
        )
    launched_so = (config.pe, config.n_pes) == (rank, size)
    hosts, launched_alike = zip(*comm.allgather((_host(), launched_so)), strict=True)
    if len(set(hosts)) > 1:
        if not all(launched_alike):
            raise UnsupportedError(
                f"the communicator spans {len(set(hosts))} hosts and is not the whole job in the "
                "launcher's order, which past one host is what the OpenSHMEM library gives; take "
                "MPI.COMM_WORLD, or the communicator of a host "
                "(comm.Split_type(MPI.COMM_TYPE_SHARED))"
            )
        return None
    name = ffi.new("char[]", comm.bcast(f"comm-{uuid.uuid4()}" if rank == 0 else None).encode())
    config.pe, config.n_pes, config.local_pe = rank, size, rank
    config.job, config.control_fd = name, -1
    gpu = getattr(comm, "gpu", None)
    if gpu is not None:
        config.device = gpu
    return name


def check_same(comm: Any) -> None:
    """Refuse a communicator that is not the one the running job has the PEs of."""
    rank, size = rank_and_size(comm)
    me, n_pes = lib.ishmemx_my_pe(), lib.ishmemx_n_pes()
    if (rank, size) != (me, n_pes):
        raise ValueError(
            f"this process is rank {rank} of {size} in comm, but PE {me} of {n_pes} in the job "
            "that runs already"
        )


def rank_and_size(comm: Any) -> tuple[int, int]:
    """Of the calling process in a communicator."""
    try:
        return int(comm.Get_rank()), int(comm.Get_size())
    except AttributeError:
        raise TypeError(
            f"comm is {with_article(type(comm).__name__)}; give a communicator of mpi4py, or an object "
            "with Get_rank, Get_size, bcast and allgather"
        ) from None


def _host() -> str:
    """What tells hosts apart; containers of one machine may share a name but not memory."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"
