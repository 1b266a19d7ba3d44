# SPDX-License-Identifier: BSD-3-Clause
"""Memory ordering: fence orders, quiet completes."""

from __future__ import annotations

from .contexts import CTX_DEFAULT, Context


def fence(ctx: Context | None = None) -> None:
    """Order the puts, atomics and signals to each PE: those before the fence before those after.

    Args:
        ctx: context whose operations are ordered; default ``CTX_DEFAULT``.

    Completes: nothing; use ``quiet`` for that.
    Raises: NotInitialized, PeerDied, ShmemError.
    Spec: shmem_fence (OpenSHMEM 1.5).
    """
    (CTX_DEFAULT if ctx is None else ctx).fence()


def quiet(ctx: Context | None = None) -> None:
    """Complete all puts, gets, atomics and signals of a context, here and at their targets.

    Args:
        ctx: context whose operations are completed; default ``CTX_DEFAULT``.

    Completes: everything issued on ``ctx`` by this PE from the host.
    Raises: NotInitialized, PeerDied, ShmemTimeout, ShmemError.
    Spec: shmem_quiet (OpenSHMEM 1.5).
    """
    (CTX_DEFAULT if ctx is None else ctx).quiet()
