# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that were not made here become the remote side of put and get."""

from __future__ import annotations

import contextlib
import sys
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from ..._core.arrays.checks import place, registered_tensors, unregistered
from ..._core.dtypes import as_dtype
from ..._core.library import check, lib
from ..._core.values import with_article
from ..job import runtime, tracebacks
from ..teams.arguments import refuse_team
from ..teams.team import TEAM_WORLD, Team


class Registration:
    """An array that ``register`` has made reachable. A context manager: leaving it unregisters.

    Attributes:
        array: what was registered; it is kept until it is unregistered, or until the next job.
        team: whose PEs reach each other's.
    """

    def __init__(self, array: Any, team: Team, address: int, nbytes: int) -> None:
        self.array, self.team = array, team
        self._place = address, nbytes

    def unregister(self) -> None:
        """The same as ``pyshmem.unregister(registration)``.

        Example: ``pyshmem.register(np.zeros(4)).unregister()``
        """
        unregister(self)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:  # else the others need not come
            unregister(self)

    def __repr__(self) -> str:
        address, nbytes = self._place
        state = "" if address in _kept else ", unregistered"
        return f"<pyshmem registration of {nbytes} bytes at {address:#x}{state}>"


#: By address. Others may store into these arrays, whether the program still has them or not.
_kept: dict[int, Registration] = {}

runtime.on_init(_kept.clear)  # of a job before, whose PEs have gone
runtime.on_finalize(registered_tensors.clear)
runtime.on_finalize(unregistered.clear)


def place_in_registered(address: int) -> tuple[int, int]:
    """Bytes of the registered array that an address is in, and where in it; the same on its members."""
    begin, nbytes = next(
        (begin, nbytes)
        for begin, nbytes in (one._place for one in _kept.values())
        if begin <= address < begin + nbytes
    )
    return nbytes, address - begin


def register(array: Any, *, team: Team = TEAM_WORLD) -> Registration:
    """Make an array that was not made here the remote side of put and get. Collective over a team.

    Each member gives one of its own, of as many bytes, of NumPy or of another library. From then on
    ``put``, ``get``, ``p``, ``g``, their ``_nbi`` and the data of ``put_signal`` take it, or a
    contiguous part of it, as ``dest`` or ``source`` there, and reach the same part of the member's;
    of memory of GPUs they take ``stream=`` too, and ``ptr`` gives the member's part, which kernels may
    load and store. Nothing else takes it: atomics, waits, collectives, strided transfers and routines
    in kernels need heap memory.

    As of heap memory, no stream is waited for where a member's part is meant: what kernels write to it
    is there for others once the program has waited for them.

    Memory of the host is copied by the kernel between processes (``process_vm_writev``). Memory of
    a GPU has to be of ``cudaMalloc``, as torch's and CuPy's is by default; all of the allocation that
    it is a part of is mapped by the members. Decision 35 in the documentation has a table.

    Args:
        array: contiguous and writable, not on a symmetric heap, nor registered already.
        team: whose members call this, and reach each other's arrays.

    Returns:
        A ``Registration``, which keeps the array until ``unregister``.

    Completes: on return all members' arrays can be reached.
    Raises: ValueError (no elements, not contiguous, read-only, on a heap, registered), TypeError (no
        array; of Python objects), MismatchError (bytes, or host and GPU, or the calls differ),
        UnsupportedError (a kind of memory, or a PE of another node; the text says why), NotInitialized,
        ShmemTimeout, PeerDied.
    Example: ``held = pyshmem.register(np.zeros(4, int)); pyshmem.put(held.array, source, right)``
    Extension.
    """
    runtime.current()
    if not isinstance(team, Team):
        raise refuse_team(team, "team")
    where = place(array, "array", symmetric=False, writable=True)
    address, nbytes, kind = where
    as_dtype(kind.dtype)  # refuses objects, whose addresses other PEs can neither use nor write
    made = Registration(array, team, address, nbytes)
    try:
        _kept.setdefault(address, made)  # before others may store into it
        check(lib.ishmemx_register(team.handle, address, nbytes))
    finally:
        if _kept.get(address) is made and not lib.ishmemx_is_registered(address, nbytes):
            del _kept[address]
    if callable(getattr(array, "data_ptr", None)):
        registered_tensors[id(array)] = array, where
    return made


def unregister(registration: Registration) -> None:
    """End what ``register`` began. Collective over its team; begins with ``quiet`` and a barrier.

    Args:
        registration: what ``register`` returned, of the same call on all members.

    Completes: on return no member reaches the array any more, and it may be freed.
    Raises: TypeError (not a Registration), ValueError (not registered any more, the team was
        destroyed), MismatchError (members give other registrations), NotInitialized, ShmemTimeout.
    Example: ``held = pyshmem.register(np.zeros(4)); pyshmem.unregister(held)``
    Extension.
    """
    runtime.current()
    if not isinstance(registration, Registration):
        raise TypeError(
            f"registration is {with_article(type(registration).__name__)}; give what register returned"
        )
    address, nbytes = registration._place
    if _kept.get(address) is not registration:
        raise ValueError("the registration is not of this job, or was unregistered before")
    try:
        check(lib.ishmemx_unregister(registration.team.handle, address, nbytes))
    finally:  # also where a transfer failed before, which is told last
        if not lib.ishmemx_is_registered(address, nbytes):
            _kept.pop(address, None)
            registered_tensors.pop(id(registration.array), None)
            _note_end(registration.array)


def _note_end(array: Any) -> None:
    """Where it was unregistered, for those who go on using it."""
    frame = tracebacks.program_frame(sys._getframe(1))
    if frame is None:
        return

    def forget(_: Any, key: int = id(array)) -> None:
        unregistered.pop(key, None)

    with contextlib.suppress(TypeError):  # where objects of the class take no weak reference
        where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        unregistered[id(array)] = weakref.ref(array, forget), where
