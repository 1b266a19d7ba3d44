# SPDX-License-Identifier: BSD-3-Clause
"""Memory ordering: fence orders, quiet completes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from .._core.arrays.checks import StreamLike, stream_handle
from .._core.library import lib
from .fast_calls import fast
from .kernels.stream_kernels import run
from .teams.contexts import Context, context_of


@fast("fence")
def fence(ctx: Context | None = None, *, stream: StreamLike = None) -> None:
    """Order the puts, atomics and signals to each PE: those before the fence before those after.

    Args:
        ctx: context whose operations are ordered; default ``CTX_DEFAULT``.
        stream: stream on which to order what kernels before it have issued; see ``streams``.

    Completes: nothing; use ``quiet`` for that.
    Raises: NotInitialized, PeerDied, ShmemError.
    Example: ``pyshmem.put(dest, source, right); pyshmem.fence(); pyshmem.p(counter, 1, right)``
    Spec: shmem_fence (OpenSHMEM 1.5).
    """
    if stream is not None:
        run(lib.ishmemx_quiet_on_stream, stream_handle(stream))
        return
    context_of(ctx, True).fence()


@fast("quiet")
def quiet(ctx: Context | None = None, *, stream: StreamLike = None) -> None:
    """Complete all puts, gets, atomics and signals of a context, here and at their targets.

    Args:
        ctx: context whose operations are completed; default ``CTX_DEFAULT``.
        stream: stream on which to order what kernels before it have issued; see ``streams``.

    Completes: everything issued on ``ctx`` by this PE from the host.
    Raises: NotInitialized, PeerDied, ShmemTimeout, ShmemError.
    Example: ``pyshmem.put_nbi(dest, source, right); pyshmem.quiet()``
    Spec: shmem_quiet (OpenSHMEM 1.5).
    """
    if stream is not None:
        run(lib.ishmemx_quiet_on_stream, stream_handle(stream))
        return
    context_of(ctx, True).quiet()


def pe_quiet(pes: Iterable[SupportsIndex], ctx: Context | None = None) -> None:
    """Complete the puts, gets, atomics and signals of a context whose targets are ``pes``.

    Args:
        pes: PEs of the context's team; none returns at once.
        ctx: context whose operations are completed; default ``CTX_DEFAULT``.

    Completes: what was issued on ``ctx`` to those PEs; it is visible to all PEs.
    Raises: ValueError (pes), NotInitialized, PeerDied, ShmemTimeout, ShmemError.
    Example: ``pyshmem.put_nbi(dest, source, right); pyshmem.pe_quiet([right])``
    Spec: shmem_pe_quiet (OpenSHMEM 1.6).
    """
    context_of(ctx).pe_quiet(pes)
