# SPDX-License-Identifier: BSD-3-Clause
"""The state block and the kernels' names in the simulator."""

from __future__ import annotations

from .. import _lib
from . import _leaf_sim, simulator
from ._state import MODULE

#: Kernels launched so far; the word MODULE holds the index of the running one.
_names: list[str] = []


def push_all(words: list[int]) -> None:
    """Give the block to the kernels launched from now on."""
    _leaf_sim.STATE[:] = words


def kernel_name(number: int) -> str:
    """Name of the kernel whose word MODULE is ``number``."""
    return _names[number] if 0 <= number < len(_names) else "?"


def _check_launch(kernel: str) -> None:
    _lib.raise_pending_fault()
    if kernel not in _names:
        _names.append(kernel)
    _leaf_sim.STATE[MODULE] = _names.index(kernel)


def install() -> None:
    """Patch Numba's simulator."""
    simulator.install()
    simulator.launch_checks.append(_check_launch)
