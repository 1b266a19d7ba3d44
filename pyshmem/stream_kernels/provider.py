# SPDX-License-Identifier: BSD-3-Clause
"""What the host asks for by ``host/kernels/provider.py``. Importing it imports no Numba."""

from __future__ import annotations

from ..host.kernels.provider import Compile


def compiler() -> Compile:
    """The compiler of kernels for GPUs.

    Raises: ImportError (no Numba, or Numba without its simulator).
    """
    from ..device.jit import images
    from .table import kernel_of

    def compiled(key: int, capability: int) -> tuple[bytes, str, int]:
        image = images.image_of(kernel_of(key), capability)
        return image.code, image.entry, image.stack

    return compiled


def simulate() -> None:
    """Let the simulator run the kernels, in the threads of their streams."""
    from . import runner

    runner.install()
