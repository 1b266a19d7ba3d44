# SPDX-License-Identifier: BSD-3-Clause
"""What teams, channels and contexts have in common."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(handle: Any) -> NoReturn:
    kind = type(handle).__name__.lower()
    raise TypeError(
        f"a kernel takes no {kind} as it is; pass pyshmem.device.as_argument({kind}), an integer"
    )


#: Where Numba looks for the type of a kernel's argument, and the simulator of kernels too.
kernels_refuse = property(_refuse)
