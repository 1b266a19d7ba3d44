# SPDX-License-Identifier: BSD-3-Clause
"""Contexts: what fence and quiet order and complete."""

from __future__ import annotations

from typing import Any

from ._lib import check, lib
from .teams import TEAM_WORLD, Team


class Context:
    """A stream of operations; operations of different contexts are not ordered."""

    __slots__ = ("_kept", "handle", "team")

    def __init__(self, handle: int, team: Team) -> None:
        self.handle = handle  # ishmemx_ctx_t
        self.team = team
        self._kept: list[Any] = []

    def keep(self, array: Any) -> None:
        """Keep the local array of a non-blocking operation alive until it is complete."""
        self._kept.append(array)

    def take_kept(self) -> list[Any]:
        """The kept arrays, for a caller that completes the operations and then drops the list."""
        taken, self._kept = self._kept, []
        return taken

    def fence(self) -> None:
        """Order this context's puts, atomics and signals to each PE: earlier before later ones.

        Raises: NotInitialized, PeerDied, ShmemError.
        Spec: shmem_ctx_fence (OpenSHMEM 1.5).
        """
        check(lib.ishmemx_fence(self.handle))

    def quiet(self) -> None:
        """Complete all operations of this context, here and at their targets.

        Raises: NotInitialized, PeerDied, ShmemTimeout, ShmemError.
        Spec: shmem_ctx_quiet (OpenSHMEM 1.5).
        """
        kept = self.take_kept()
        check(lib.ishmemx_quiet(self.handle))
        del kept

    def __repr__(self) -> str:
        return f"<pyshmem context on {self.team!r}>"


#: The context of operations that are given none.
CTX_DEFAULT: Context = Context(lib.ctx_default(), TEAM_WORLD)
