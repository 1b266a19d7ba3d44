# SPDX-License-Identifier: BSD-3-Clause
"""A default process group for the PEs of a job, whoever launched them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.distributed as dist

from ...host.collectives.data_movement import broadcast
from ...host.job import runtime
from ...host.memory import creation
from ...host.memory import heap as heaps
from .group import NAME, Options


def _store(n_pes: int, my_pe: int) -> Any:
    """A store served by PE 0, on a free port that it tells the others."""
    port, store = creation.zeros(1, np.int64), None
    if my_pe == 0:
        store = dist.TCPStore("localhost", 0, n_pes, is_master=True, wait_for_workers=False)
        port[0] = store.port
    broadcast(port, port, 0)
    if store is None:
        store = dist.TCPStore("localhost", int(port[0]), n_pes, is_master=False)
    heaps.free(port)
    return store


def _leave_until(left: int) -> None:
    """Take back one init, unless ``left`` are left: done twice it does no harm."""
    if runtime.inits() > left:
        runtime.finalize()


def _leave_out(given: dict[str, Any], me: int, n: int) -> None:
    """Take out of the arguments of torch's function what the job says itself.

    Raises: ValueError (it says otherwise).
    """
    for name, value in (("rank", me), ("world_size", n)):
        if given.pop(name, value) not in (value, -1):
            raise ValueError(
                f"init_process_group: this is rank {me} of {n}, as what starts the PEs says; leave "
                "rank= and world_size= out"
            )
    for name in ("init_method", "store"):
        if given.pop(name, None) not in (None, "env://"):
            raise ValueError(
                f"init_process_group: {name}= is given, but what starts the PEs says where they meet; "
                "leave it out, or call torch.distributed.init_process_group"
            )


def init_process_group(backend: str = NAME, *, options: Options | None = None, **rest: Any) -> None:
    """``torch.distributed.init_process_group`` for a job: ranks are numbers of PEs. Collective.

    It needs no variables and no address: the job's PEs are joined first, by whatever launched them.
    Under torchrun torch's own function does the same with ``backend="pyshmem"``. PEs on one host.

    Args:
        backend: of torch.distributed.
        options: of the backend ``"pyshmem"``.
        rest: further arguments of torch's function; ``rank`` and ``world_size`` are those of the job,
            ``timeout`` is that of its store and of waits for CPU tensors. Other waits end by
            ``PYSHMEM_TIMEOUT``, as all do of groups in Python.

    Raises: what ``pyshmem.init`` and torch's function raise.
    Extension.
    """
    counted = runtime.inits()
    try:
        job = runtime.init()
        _leave_out(rest, job.my_pe, job.n_pes)
        store = _store(job.n_pes, job.my_pe)
        if rest.get("timeout") is not None:
            store.set_timeout(rest["timeout"])  # torch does that to stores of its own alone
        if options is not None:
            rest["pg_options"] = options
        dist.init_process_group(backend, store=store, rank=job.my_pe, world_size=job.n_pes, **rest)
    finally:
        # The group counts an init of its own. One of another backend needs no job. An exception of a
        # signal's handler may have come before the init was counted, or comes here.
        left = None
        try:
            left = max(counted, runtime.inits() - 1)
            _leave_until(left)
        except BaseException:
            _leave_until(max(counted, runtime.inits() - 1) if left is None else left)
            raise
