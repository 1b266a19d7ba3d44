# SPDX-License-Identifier: BSD-3-Clause
"""What ``vectorize`` and ``guvectorize`` for the target ``cuda`` ask of a kernel, compiled for the CPU.

numba-cuda makes a kernel of such a function and launches it by ``forall``; it reads from the device
function what it returns.
"""

from __future__ import annotations

from typing import Any

from numba.core.target_extension import target_override
from numba.cuda.simulator import kernel as numba_kernel

from ....._foreign import numba_simulator
from ...sim import launches as simulated
from .. import launches
from ..target import NAME, dispatcher_of

#: Threads of a block where a kernel leaves it to ``forall``.
_THREADS = 256


class Overload(numba_kernel.FakeOverload):
    """A function for arguments of some types."""

    def __init__(self, kernel: Any, kinds: tuple[Any, ...]) -> None:
        self._kernel, self._kinds = kernel, kinds

    @property
    def signature(self) -> Any:
        """The types of its arguments and of its result. Raises: what its compilation raises."""
        with target_override(NAME):
            made = dispatcher_of(self._kernel)
            if self._kinds not in made.overloads:
                made.compile(self._kinds)
        return made.overloads[self._kinds].signature


class Overloads(dict[Any, Any]):
    """``kernel.overloads``: those that were launched, by the types of the arguments; others if asked."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        known = launches.compiled_kernel(kernel).launchers
        super().__init__({tuple(kinds): Overload(kernel, tuple(kinds)) for kinds in known})

    def __missing__(self, kinds: Any) -> Overload:
        return Overload(self._kernel, tuple(kinds))


def _for_all(kernel: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Any:
    """A thread for each task, in whole blocks: kernels ask whether there is one for them, as on GPUs."""
    if ntasks <= 0:
        return simulated.for_all(kernel, ntasks)
    threads = min(tpb or _THREADS, ntasks)
    return simulated.configure(kernel, (-(-ntasks // threads), threads, stream, sharedmem))


def install() -> None:
    """Have kernels say what they are asked."""
    numba_simulator.FOR_ALL.replace(_for_all)
    numba_simulator.OVERLOADS.replace(property(Overloads))
    numba_simulator.add_to_kernels({"signatures": property(lambda kernel: list(Overloads(kernel)))})
