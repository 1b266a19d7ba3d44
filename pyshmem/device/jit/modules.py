# SPDX-License-Identifier: BSD-3-Clause
"""Keeps the state block that kernels read filled, and raises what kernels recorded.

``numba_cuda`` and ``simulator`` know where the block is and which kernel a fault came from.
"""

from collections.abc import Mapping

from ..._core import arrays, library
from ...host import runtime
from ..faults import describe_fault
from ..leaf.chosen import SIM, check_simulator_choice
from ..state import HOST_BYTES, WORDS

if SIM:
    from .simulator import install, kernel_name, push_all
else:
    from .numba_cuda import install, kernel_name, push_all


def _format_fault(fault: Mapping[str, int]) -> str:
    return describe_fault(fault, kernel_name(fault["module"]))


def _on_init() -> None:
    check_simulator_choice(runtime.device_name())
    arrays.pinned = not SIM and library.device_state()[HOST_BYTES] > 0
    _push()


def _push() -> None:
    if runtime.device_name() != "none":
        push_all(library.device_state())


def _on_finalize() -> None:
    arrays.pinned = False
    push_all([0] * WORDS)


install()
library.set_fault_formatter(_format_fault)
runtime.on_init(_on_init)
runtime.on_state_change(_push)
runtime.on_finalize(_on_finalize)
