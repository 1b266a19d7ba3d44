# SPDX-License-Identifier: BSD-3-Clause
"""What teams, channels and contexts have in common."""

from __future__ import annotations

from typing import NoReturn


class Handle:
    """An object of the host that stands for one of the library."""

    __slots__ = ()

    @property
    def _numba_type_(self) -> NoReturn:
        """Where Numba looks for the type of an argument of a kernel; the simulator does, too."""
        kind = type(self).__name__.lower()
        raise TypeError(
            f"a kernel takes no {kind} as it is; pass pyshmem.device.as_argument({kind}), an integer"
        )
