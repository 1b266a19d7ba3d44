# SPDX-License-Identifier: BSD-3-Clause
"""Locks: one PE at a time, first come, first served.

A lock is element 0 of a symmetric int64 array on the host heap that is 0 on all PEs at first. It is
not re-entrant: its holder must not set it again.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any

import numpy as np

from .._core.arrays.checks import target
from .._core.arrays.types import AnyArray
from .._core.dtypes import kind_of
from .._core.errors import ShmemError
from .._core.library import check, ffi, lib
from .job.handles import Handle
from .memory import creation
from .teams.contexts import CTX_DEFAULT

#: What the calls of a lock raise themselves.
_OF_CALLS = (ShmemError, TypeError, ValueError)
_LONG = kind_of(np.dtype(np.int64))


def _word(lock: AnyArray) -> int:
    if isinstance(lock, Lock):
        raise TypeError("lock is a Lock, which is held by `with lock:`; its array is lock.word")
    address, kind = target(lock, "lock", writable=True)
    if kind is not _LONG:
        raise TypeError(f"lock has dtype {kind.dtype}; locks are int64")
    return address


def set_lock(lock: AnyArray) -> None:
    """Wait until this PE has the lock.

    After a ``ShmemTimeout`` the PE keeps its place in the queue: the lock comes to it and waits for its
    next ``set_lock`` or ``test_lock``.

    Args:
        lock: symmetric int64 array on the host heap; element 0 is the lock.

    Raises: TypeError (not int64), ValueError (not symmetric), ShmemTimeout, PeerDied,
        NotInitialized, ShmemError (this PE has it already).
    Example: ``pyshmem.set_lock(counter); pyshmem.clear_lock(counter)``
    Spec: shmem_set_lock (OpenSHMEM 1.5).
    """
    check(lib.ishmemx_set_lock(_word(lock)))


def test_lock(lock: AnyArray) -> bool:
    """Take the lock if nobody has it; whether this PE has it now.

    The C routine returns 0 for that, this one True.

    Args:
        lock: symmetric int64 array on the host heap; element 0 is the lock.

    Raises: as ``set_lock``.
    Example: ``mine = pyshmem.test_lock(counter)``
    Spec: shmem_test_lock (OpenSHMEM 1.5).
    """
    acquired = ffi.new("int *")
    check(lib.ishmemx_test_lock(_word(lock), acquired))
    return bool(acquired[0])


test_lock.__test__ = False  # type: ignore[attr-defined]  # for pytest: a routine, not a test


def clear_lock(lock: AnyArray) -> None:
    """Complete all operations of ``CTX_DEFAULT`` and give the lock to the next PE.

    Args:
        lock: symmetric int64 array that this PE has locked.

    Raises: as ``set_lock``; ShmemError (this PE does not have the lock).
    Example: ``pyshmem.set_lock(counter); pyshmem.clear_lock(counter)``
    Spec: shmem_clear_lock (OpenSHMEM 1.5).
    """
    CTX_DEFAULT.complete_by(lib.ishmemx_clear_lock, _word(lock))


class Lock(Handle):
    """A lock of its own. Making it is collective. ``with lock:`` holds it for a block.

    Attributes:
        word: the symmetric int64 array that ``set_lock`` and the others take.
    """

    __slots__ = ("word",)

    def __init__(self) -> None:
        self.word: Any = creation.zeros(1, np.int64)  # of shmem4py: None once given back

    def set(self) -> None:
        """``set_lock``."""
        set_lock(self.word)

    def test(self) -> bool:
        """``test_lock``."""
        return test_lock(self.word)

    def clear(self) -> None:
        """``clear_lock``."""
        clear_lock(self.word)

    def __enter__(self) -> Lock:
        try:
            self.set()
            return self
        except _OF_CALLS:
            raise
        except BaseException:
            self._give_back()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.clear()
        except _OF_CALLS:
            raise
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        """Behind an exception of a signal's handler, which may have come before or after the C call."""
        with contextlib.suppress(ShmemError):  # this PE does not have it
            self.clear()
