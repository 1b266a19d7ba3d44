# SPDX-License-Identifier: BSD-3-Clause
"""From a symmetric address of the caller to the same place on a peer, checked."""

from __future__ import annotations

from typing import Any

from ._backend import address_of, device_function, state, state_pe
from ._faults import FAULT_ADDRESS, FAULT_NELEMS, FAULT_PE, record_fault
from ._state import DELTA, HEAP_BASE, HEAP_BYTES, MY_PE, N_PES


@device_function
def my_pe() -> int:
    """Number of the calling PE, int32.

    Spec: shmem_my_pe.
    """
    return state_pe(MY_PE)


@device_function
def n_pes() -> int:
    """Number of PEs of the job, int32.

    Spec: shmem_n_pes.
    """
    return state_pe(N_PES)


@device_function
def reachable(array: Any, nelems: int, most: int, pe: int, op: int) -> bool:
    """Whether the first ``nelems`` elements of ``array`` may be accessed on ``pe``.

    Records what is wrong otherwise; the caller then leaves the operation out. ``most`` is how many
    elements there are.
    """
    address = address_of(array)
    nbytes = nelems * array.itemsize
    offset = address - state(HEAP_BASE)
    kind, a, b = 0, address, nbytes
    if pe < 0 or pe >= state_pe(N_PES):
        kind, a, b = FAULT_PE, pe, state(N_PES)
    elif nelems < 0 or nelems > most:
        kind, a, b = FAULT_NELEMS, nelems, most
    elif offset < 0 or offset + nbytes > state(HEAP_BYTES):
        kind = FAULT_ADDRESS
    if kind != 0:
        record_fault(kind, op, pe, a, b)
        return False
    return True


@device_function
def on_peer(array: Any, pe: int) -> int:
    """Where ``pe`` keeps its copy of ``array``; only after ``reachable``."""
    return address_of(array) + state(DELTA + pe)


__all__ = ["my_pe", "n_pes", "on_peer", "reachable"]
