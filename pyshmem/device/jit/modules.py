# SPDX-License-Identifier: BSD-3-Clause
"""Keeps the state block that kernels read filled, raises what kernels recorded, prepares kernels.

The ``integration`` of ``numba_cuda`` or ``simulator`` knows where the block is and which kernel a fault
came from.
"""

from typing import Any

from ..._core import arrays, library
from ...host import faults, runtime, stages
from ..leaf.chosen import SIM, check_simulator_choice
from ..state import HOST_BYTES

if SIM:
    from .simulator import integration
else:
    from .numba_cuda import forget_labelled, integration  # type: ignore[assignment]

    stages.on_change(forget_labelled)


def prepare(kernel: Any, *args: Any) -> None:
    """Compile and load a kernel without launching it.

    A first launch compiles and loads, which CUDA does not do beside a kernel that waits for that launch,
    and which is slow inside a stream capture. After this, launches with such arguments do neither. Also
    raises the context's stack limit where the kernel needs it.

    Args:
        kernel: a function under ``numba.cuda.jit``.
        args: arguments as for a launch, whose types count; or one signature of Numba.

    Raises: TypeError (no kernel), Numba's errors. In the simulator nothing is compiled.
    Extension.
    """
    integration.prepare(kernel, args)


def _kernel_name(number: int) -> str | None:
    name = integration.kernel_name(number)
    return None if name == "?" else name


def _on_init() -> None:
    check_simulator_choice(runtime.device_name())
    arrays.pinned = not SIM and library.device_state()[HOST_BYTES] > 0
    _push()


def _push() -> None:
    if runtime.device_name() != "none":
        integration.push(library.device_state(), runtime.current().gpu)


def _on_finalize() -> None:
    arrays.pinned = False
    integration.forget()


integration.install()
faults.add_kernel_namer(_kernel_name)
runtime.on_init(_on_init)
runtime.on_state_change(_push)
runtime.on_finalize(_on_finalize)
