# SPDX-License-Identifier: BSD-3-Clause
"""The state block and the kernels' names in the simulator: the methods of ``numba_cuda.Integration``."""

from __future__ import annotations

from typing import Any

from numba.cuda.simulator.kernel import FakeCUDAKernel

from ..._core import library
from ...host import streams
from ...host.kernels import sim_calls
from ..leaf.backend import CPU
from ..leaf.sim import launches, threads

if CPU:
    from ..leaf.cpu import launches as compiled
    from ..leaf.cpu.memory import STATE
    from ..leaf.cpu.numba_cuda import bf16, interface, ufuncs


class Integration:
    """Gives kernels the state block, and checks launches."""

    def __init__(self) -> None:
        #: Kernels launched so far; the word MODULE of a grid is the number of its kernel.
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def push(self, words: list[int], _gpu: int) -> None:
        """Give the block to the kernels launched from now on."""
        threads.STATE[:] = words
        if CPU:
            STATE.fill(words)

    def forget(self) -> None:
        """The job is over: kernels find no state."""
        threads.STATE[:] = []
        if CPU:
            STATE.forget()
        sim_calls.forget()

    def kernel_name(self, number: int) -> str:
        """Name of the kernel whose word MODULE is ``number``, and where it called what failed."""
        names = self._names
        return threads.CALLS.get(number, names[number]) if 0 <= number < len(names) else "?"

    def before_launch(self, kernel: str) -> int:
        """Has a kernel recorded a fault? The scheduler asks after a launch too."""
        library.raise_pending_fault()
        number = self._numbers.setdefault(kernel, len(self._names))
        if number == len(self._names):
            self._names.append(kernel)
        return number

    def prepare(self, kernel: Any, _args: tuple) -> None:
        """Kernels run as Python: there is nothing to compile or to load."""
        if not isinstance(kernel, FakeCUDAKernel):
            raise TypeError(f"kernel is {kernel!r}, which is not a function under numba.cuda.jit")

    def install(self) -> None:
        """Patch Numba's simulator."""
        launches.install(streams.finish_all, CPU)
        if CPU:
            for part in (compiled, interface, ufuncs, bf16):
                part.install()
        launches.launch_checks.append(self.before_launch)


integration = Integration()
