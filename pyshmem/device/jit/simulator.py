# SPDX-License-Identifier: BSD-3-Clause
"""The state block and the kernels' names in the simulator."""

from __future__ import annotations

from ..._core import library
from ..leaf.sim import scheduler, threads
from ..state import ABI, MODULE

#: Kernels launched so far; the word MODULE holds the index of the running one.
_names: list[str] = []


def push_all(words: list[int]) -> None:
    """Give the block to the kernels launched from now on."""
    threads.STATE[:] = words if words[ABI] else []


def kernel_name(number: int) -> str:
    """Name of the kernel whose word MODULE is ``number``, and where it called what failed."""
    return threads.CALLS.get(number, _names[number]) if 0 <= number < len(_names) else "?"


def _check_launch(kernel: str) -> None:
    library.raise_pending_fault()
    if kernel not in _names:
        _names.append(kernel)
    if threads.STATE:
        threads.STATE[MODULE] = _names.index(kernel)


def install() -> None:
    """Patch Numba's simulator."""
    scheduler.install()
    scheduler.launch_checks.append(_check_launch)
