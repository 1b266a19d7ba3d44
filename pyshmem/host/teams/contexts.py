# SPDX-License-Identifier: BSD-3-Clause
"""Contexts: what fence and quiet order and complete.

``barrier_all`` and freeing memory promise that of ``CTX_DEFAULT`` only: work on another context needs
its own ``quiet`` before, which also lets go of the local arrays of its non-blocking operations.
Contexts are destroyed by ``destroy``, with their team or with the job. One that is dropped before is
a ResourceWarning: it is destroyed then, and the next quiet of any context completes its operations.
"""

from __future__ import annotations

import warnings
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntFlag
from types import TracebackType
from typing import Any, SupportsIndex

import numpy as np

from ..._core.arrays.types import AnyArray
from ..._core.dtypes import integer
from ..._core.library import check, ffi, lib, owned
from ..job import runtime
from ..job.handles import Handle, kernels_refuse
from .arguments import listed_pes, refuse_team
from .team import TEAM_WORLD, Team, team_of


class CtxOption(IntFlag):
    """How a context is used, a promise of the program."""

    PRIVATE = lib.ISHMEMX_CTX_PRIVATE
    SERIALIZED = lib.ISHMEMX_CTX_SERIALIZED
    NOSTORE = lib.ISHMEMX_CTX_NOSTORE


#: Used by the thread that creates it only; another thread's calls are refused.
CTX_PRIVATE = CtxOption.PRIVATE
#: Never used by two threads at a time.
CTX_SERIALIZED = CtxOption.SERIALIZED
#: quiet and fence need not order the program's own stores.
CTX_NOSTORE = CtxOption.NOSTORE
#: Session option: many operations come in a row.
CTX_SESSION_BATCH: int = lib.ISHMEMX_SESSION_BATCH
#: Session option: every atomic is the same operation on the same type.
CTX_SESSION_SAME_AMO: int = lib.ISHMEMX_SESSION_SAME_AMO


class _Watched:
    """Of a source that is in use until it is completed, in checking mode: what it was."""

    __slots__ = ("_array", "_nbytes", "_sum", "held")

    def __init__(self, array: np.ndarray[Any, Any], nbytes: int, hold: bool) -> None:
        self._array, self._nbytes = weakref.ref(array), nbytes  # who drops it does not change it
        self.held = array if hold else None
        self._sum = self._now(array)

    def _now(self, array: np.ndarray[Any, Any]) -> int:
        return zlib.crc32(np.asarray(array).reshape(-1).view(np.uint8)[: self._nbytes].data)

    def complain(self, pe: int) -> None:
        array = self._array()
        if array is not None and self._now(array) != self._sum:
            raise ValueError(
                f"source (shape {array.shape}, {array.dtype}) of a non-blocking put to PE {pe} was "
                "changed before quiet; it is in use until then"
            )


class Context(Handle):
    """A stream of operations; operations of different contexts are not ordered.

    A context manager: leaving the block completes and destroys it.

    Args:
        options: ``CTX_PRIVATE``, ``CTX_SERIALIZED``, ``CTX_NOSTORE``, or several with ``|``.
        team: team whose PE numbers the operations use.

    Raises: ValueError (options, team destroyed), MemoryError (too many contexts; the program may go
        on without), NotInitialized, ShmemError.
    Spec: shmem_ctx_create (OpenSHMEM 1.5).
    """

    __slots__ = ("__weakref__", "_cell", "_kept", "handle", "team")
    _numba_type_ = kernels_refuse

    def __init__(self, options: int = 0, team: Team = TEAM_WORLD) -> None:
        if not isinstance(team, Team):
            raise refuse_team(team, "team")
        self._cell, number = owned(lib.end_ctx), integer("options", options)
        self._set(0, team)
        check(lib.ishmemx_ctx_create(team.handle, number, self._cell))
        self.handle = int(self._cell[0])
        team._contexts.add(self)
        _made.add(self)

    def _set(self, handle: int, team: Team) -> None:
        self.handle = handle  # ishmemx_ctx_t, 0: destroyed
        self.team = team
        # Arrays with the PE of their operation. Threads share the list, and the extension looks into
        # it: it is never replaced, and append, pop and extend are one step each.
        self._kept: list[tuple[int, Any]] = []

    # ---- what the operations use -----------------------------------------------------------------

    def keep(self, array: AnyArray, pe: int, reads: int = 0) -> None:
        """Keep the local array of a non-blocking operation alive until it is complete.

        In checking mode the first ``reads`` bytes of a NumPy array are to be the same then.

        To be called when the operation has begun: a thread that takes the array after that, to
        complete what has begun, completes this operation too. On a conduit that completes operations
        at once nothing is kept.
        """
        outstanding = bool(lib.ishmemx_outstanding())
        if reads and runtime.current().checks and isinstance(array, np.ndarray):
            self._kept.append((pe, _Watched(array, reads, outstanding)))
        elif outstanding:
            self._kept.append((pe, array))

    def complete_by(
        self, routine: Callable[..., int], *args: Any, pes: Iterable[int] | None = None
    ) -> None:
        """Call a routine that completes this context's operations, and then let go of their arrays.

        Args:
            routine: returns a status; where that is an error, the arrays are kept.
            args: its arguments.
            pes: the targets whose operations it completes; default all.

        Raises: ValueError (in checking mode: a source was changed meanwhile).
        """
        pes = pes if pes is None else set(pes)
        taken: list[tuple[int, Any]] = []
        for _ in range(len(self._kept)):
            try:
                taken.append(self._kept.pop())
            except IndexError:  # another thread completes the rest
                break
        incomplete = taken
        try:
            check(routine(*args))
            incomplete = [] if pes is None else [entry for entry in taken if entry[0] not in pes]
        finally:
            self._kept.extend(incomplete)
        for pe, array in taken:
            if isinstance(array, _Watched) and (pes is None or pe in pes):
                array.complain(pe)

    def __del__(self) -> None:  # the cell gives the context back
        if not getattr(self, "handle", 0) or self.handle == _DEFAULT_HANDLE or not self._cell[0]:
            return
        # That moves no data; the operations are completed by any later quiet.
        CTX_DEFAULT._kept.extend(self._kept)
        warnings.warn(
            f"{self!r} was dropped; destroy it", ResourceWarning, stacklevel=2, source=self
        )

    def forget(self) -> None:
        """The library no longer has the context."""
        self.handle = self._cell[0] = 0
        self._kept.clear()
        _made.discard(self)

    # ---- ordering --------------------------------------------------------------------------------

    def fence(self) -> None:
        """Order this context's puts, atomics and signals to each PE: earlier before later ones.

        Raises: NotInitialized, PeerDied, ShmemError (another thread's private context).
        Spec: shmem_ctx_fence (OpenSHMEM 1.5).
        """
        check(lib.ishmemx_fence(self.handle))

    def quiet(self) -> None:
        """Complete all operations of this context, here and at their targets.

        Raises: NotInitialized, PeerDied, ShmemTimeout, ShmemError (another thread's private
            context).
        Spec: shmem_ctx_quiet (OpenSHMEM 1.5).
        """
        self.complete_by(lib.ishmemx_quiet, self.handle)

    def pe_quiet(self, pes: Iterable[SupportsIndex]) -> None:
        """Complete the operations of this context whose targets are ``pes``; as ``pe_quiet``.

        Spec: shmem_ctx_pe_quiet (OpenSHMEM 1.6).
        """
        numbers = listed_pes(pes)
        listed = ffi.new("int[]", numbers)
        self.complete_by(lib.ishmemx_pe_quiet, self.handle, listed, len(numbers), pes=set(numbers))

    # ---- sessions --------------------------------------------------------------------------------

    def session_start(self, options: int = 0, *, total_ops: int | None = None) -> None:
        """Tell the library what is going to be done on this context; hints only.

        Called again, it adds options, and replaces ``total_ops`` where that is given.

        Args:
            options: ``CTX_SESSION_BATCH``: many operations in a row;
                ``CTX_SESSION_SAME_AMO``: atomics of one kind; both, or 0.
            total_ops: expected number of operations.

        Raises: ValueError (options), NotInitialized, ShmemError.
        Spec: shmem_ctx_session_start (OpenSHMEM 1.6).
        """
        config, mask = ffi.NULL, 0
        if total_ops is not None:
            config = ffi.new(
                "ishmemx_session_config_t *", (integer("total_ops", total_ops, np.uint64),)
            )
            mask = lib.ISHMEMX_SESSION_TOTAL_OPS
        number = integer("options", options)
        check(lib.ishmemx_session_start(self.handle, number, config, mask))

    def session_stop(self) -> None:
        """End the session; without one it does nothing.

        Raises: NotInitialized, ShmemError.
        Spec: shmem_ctx_session_stop (OpenSHMEM 1.6).
        """
        check(lib.ishmemx_session_stop(self.handle))

    @contextmanager
    def session(self, options: int = 0, *, total_ops: int | None = None) -> Iterator[Context]:
        """``session_start`` and, when the block is left, ``session_stop``.

        Extension.
        """
        try:
            self.session_start(options, total_ops=total_ops)
            yield self
        finally:
            self.session_stop()

    # ---- the end ---------------------------------------------------------------------------------

    def get_team(self) -> Team | None:
        """The team the context was made on; None once it is destroyed.

        Spec: shmem_ctx_get_team (OpenSHMEM 1.5).
        """
        return self.team if self.handle else None

    def destroy(self) -> None:
        """Complete the context's operations and give it back; a second call does nothing.

        Raises: ValueError (``CTX_DEFAULT``), PeerDied, NotInitialized, ShmemError (another thread's
            private context).
        Spec: shmem_ctx_destroy (OpenSHMEM 1.5).
        """
        check(lib.destroy_ctx(self._cell))
        self.forget()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.destroy()

    def __repr__(self) -> str:
        if not hasattr(self, "_kept"):
            return "<pyshmem context that is half made>"
        kept = f", {len(self._kept)} operations outstanding" if self._kept else ""
        destroyed = "" if self.handle else " (destroyed)"
        return f"<pyshmem context{destroyed} on {self.team!r}{kept}>"


_made: weakref.WeakSet[Context] = weakref.WeakSet()
_DEFAULT_HANDLE = lib.ctx_default()


Team._new_context = Context


def _default() -> Context:
    context = Context.__new__(Context)
    context._cell = ffi.new("uintptr_t *", lib.ctx_default())
    context._set(lib.ctx_default(), TEAM_WORLD)
    return context


def _job_ended() -> None:
    for context in tuple(_made):
        context.forget()


#: The context of operations that are given none.
CTX_DEFAULT: Context = _default()
_DEFAULT_HANDLE = CTX_DEFAULT.handle


def context_of(ctx: Context | None, waits: bool = False) -> Context:
    """The context of an operation whose argument ``ctx`` is this; ``waits``: for those before it."""
    if ctx is None:
        return CTX_DEFAULT
    if not isinstance(ctx, Context):
        made = "team.create_ctx()" if isinstance(ctx, Team) else "pyshmem.Context()"
        way = f"{made} makes one"
        if waits and isinstance(ctx, int):
            way = "of one PE's operations it is pe_quiet([pe])"
        raise TypeError(f"ctx is {ctx!r} ({type(ctx).__name__}), not a context; {way}")
    return ctx


def slot_of(given: Any) -> int:
    """The number by which kernels know a team, a channel of one, or a context's team.

    It goes by what the object is: handles of teams and of contexts are both numbers from 1 on.

    Raises: TypeError (it is none of these, or None: this PE is in no such team), ValueError (destroyed),
        NotInitialized.
    """
    ask = lib.ishmemx_ctx_team_slot if isinstance(given, Context) else lib.ishmemx_team_slot
    handle = given.handle if isinstance(given, Context) else team_of(given).handle
    slot = ffi.new("int *")
    check(ask(handle, slot))
    return int(slot[0])


def handle_of(ctx: Context | None) -> int:
    """The same as the library takes it."""
    return _DEFAULT_HANDLE if ctx is None else context_of(ctx).handle


runtime.on_finalize(_job_ended)
