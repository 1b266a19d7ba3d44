# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions. Mistakes in arguments are ``TypeError`` and ``ValueError``, as everywhere."""

from __future__ import annotations


class ShmemError(RuntimeError):
    """Base of what can go wrong in a job; also raised when the system or the GPU driver fails."""


class NotInitialized(ShmemError):
    """A call before ``pyshmem.init()`` or after the last ``finalize()``."""


class HeapExhausted(ShmemError, MemoryError):
    """A symmetric heap has no block as large as was asked for."""


class MismatchError(ShmemError):
    """The PEs disagree: library version, allocation sizes, arguments of a collective."""


class PeerDied(ShmemError):
    """Another PE died, failed or called ``abort``; the job is over."""


class ShmemTimeout(ShmemError):
    """A wait outlasted ``PYSHMEM_TIMEOUT`` (default: none), or init ``PYSHMEM_INIT_TIMEOUT``."""


class UnsupportedError(ShmemError):
    """Not available on this conduit or accelerator."""


class KernelFault(ShmemError):
    """A kernel recorded a fault: a wrong PE or address, or a wait that outlasted the timeout."""
