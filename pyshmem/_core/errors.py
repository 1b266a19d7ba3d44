# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions. Mistakes in arguments are ``TypeError`` and ``ValueError``, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ShmemError(RuntimeError):
    """Base of what can go wrong in a job; also raised when the system or the GPU driver fails.

    Raised itself, it has the words of the system: no memory (lower ``PYSHMEM_HEAP_SIZE``, in a container
    raise ``--shm-size``), no file, no device.

    A traceback ends with the place in the documentation that is about it.

    Attributes:
        status: of the C library, ``ISHMEMX_ERR_*``; 0 where the error did not come from there.
    """

    status = 0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        kind = next(kind for kind in type(self).__mro__ if kind.__module__ == ShmemError.__module__)
        page = f"docs/howto/errors.md#{kind.__name__.lower()}"
        self.add_note(f"see help(pyshmem.{kind.__name__}), and {page} in the sources of pyshmem")


class NotInitialized(ShmemError):
    """A call before ``pyshmem.init()`` or after the last ``finalize()``.

    Most often the line stands behind the ``with pyshmem.init()`` block, which finalizes: move it into
    the block. Arrays can be read behind it, and copied by ``pyshmem.to_numpy``.
    """


class HeapExhausted(ShmemError, MemoryError):
    """A symmetric heap has no block as large as was asked for.

    Give more: ``PYSHMEM_HEAP_SIZE=8G``, ``run --heap-size 8G`` or ``pyshmem.init(heap_size="8G")``, with
    ``device_`` for the device heap. Or free arrays: ``pyshmem.drain()`` takes those that nobody uses.
    """


class MismatchError(ShmemError):
    """The PEs disagree: library version, allocation sizes, arguments of a collective.

    All PEs of a team make the same collective calls, in one order, with the same shapes and types. Look
    at the PEs and lines that the message names: mostly a call stands in an ``if`` that one PE does not
    take, or a PE leaves a loop or the ``with`` sooner. ``PYSHMEM_CHECK=1`` compares every collective.
    """


class PeerDied(ShmemError):
    """Another PE died, failed or called ``abort``; the job is over.

    It is never the cause: look at the message of the PE that failed first, with which the report of the
    launcher begins. Do not catch it to go on.
    """


class ShmemTimeout(ShmemError):
    """A wait outlasted ``PYSHMEM_TIMEOUT`` (default: none), or init ``PYSHMEM_INIT_TIMEOUT``.

    The report says where each PE stands, what it waits for and what it saw last: a PE that is "running"
    took another branch, or is slow and wants a longer limit. At ``init`` a PE did not come: it failed
    earlier, or was not started.
    """


class UnsupportedError(ShmemError):
    """Not available on this conduit or accelerator.

    The message names the way out. Kernels and ``heap="device"`` need a device: ``--device sim``, or a
    GPU; ``python -m pyshmem doctor`` says what this machine lacks.
    """


class KernelFault(ShmemError):
    """A kernel recorded a fault: a wrong PE or address, or a wait that outlasted the timeout.

    Kernels cannot raise, so the next call on the host does. The message has kernel, block and thread:
    look at the PE and the arrays that the kernel passes there; ``--device sim`` tells the line too.
    """


class Failure(NamedTuple):
    """How one PE of a job that ``pyshmem.launch`` started did not end well."""

    pe: int
    exit_code: int | None  #: minus the signal that killed it; None: it still ran, or is not known
    exception: BaseException | None  #: what the function raised, where it can be sent
    traceback: str  #: of that exception, as the PE would have printed it
    where: str  #: what the PE was doing when the first failure was noticed
    output: tuple[str, ...]  #: the last lines it wrote to stderr
    secondary: bool  #: it failed only because another PE had


class LaunchError(ShmemError):
    """A job cannot be started as asked, or, from ``pyshmem.launch``, did not end well.

    ``failures[0]`` is the PE that was the cause, with its exception, traceback and last output.

    Attributes:
        failures: the PEs that did not end well, the cause first; empty when nothing was started.
    """

    def __init__(self, text: str, failures: Sequence[Failure] = ()) -> None:
        super().__init__(text)
        self.failures: tuple[Failure, ...] = tuple(failures)

    def __reduce__(self) -> tuple[type[LaunchError], tuple[str, tuple[Failure, ...]]]:
        return type(self), (str(self), self.failures)


# Users know them by the package's name, and tracebacks show it.
for _kind in [*globals().values()]:
    if isinstance(_kind, type) and _kind.__module__ == __name__:
        _kind.__module__ = __name__.partition(".")[0]


def is_hearsay(error: BaseException | None) -> bool:
    """Whether another PE's end led to it: PeerDied is among the exceptions that it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, PeerDied):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
