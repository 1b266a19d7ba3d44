# SPDX-License-Identifier: BSD-3-Clause
"""What has to be in place before NumPy or Numba are used. Imported first."""

from __future__ import annotations

import importlib.util
import os
import sys

import numpy as np

# numba-cuda 0.30 overloads np.row_stack at its first compile; NumPy 2.5 has dropped that name.
if "row_stack" not in np.__dict__:
    np.row_stack = np.vstack


def has_module(name: str) -> bool:
    """Whether ``name`` could be imported; it is not."""
    return name in sys.modules or importlib.util.find_spec(name) is not None


def may_have_gpu() -> bool:
    """Whether this machine has an NVIDIA driver, without asking the driver."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def simulator_requested() -> bool:
    """Whether ``NUMBA_ENABLE_CUDASIM`` asks Numba for its simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def arrange_simulator(device: str) -> None:
    """Ask Numba for its simulator where kernels cannot run on a GPU.

    Numba reads ``NUMBA_ENABLE_CUDASIM`` once, when it is imported. So ``import pyshmem`` sets it,
    unless the user has set it or Numba is there already, when ``device`` is ``"sim"``, or is
    ``"auto"`` on a machine without an NVIDIA driver.
    """
    if "NUMBA_ENABLE_CUDASIM" in os.environ or "numba" in sys.modules:
        return
    if device == "sim" or (device == "auto" and not may_have_gpu()):
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
