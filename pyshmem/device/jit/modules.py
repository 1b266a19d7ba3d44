# SPDX-License-Identifier: BSD-3-Clause
"""Keeps the state block that kernels read filled, raises what kernels recorded, prepares kernels.

The ``integration`` of ``numba_cuda`` or ``simulator`` knows where the block is and which kernel a fault
came from.
"""

from typing import Any

from ..._core import library
from ..._core.arrays import checks as arrays
from ..._core.other_names import not_in_device as not_in_device
from ...host import faults
from ...host.job import runtime
from ...host.kernels import stream_kernels
from ...host.observe import stages
from ..leaf.backend import CPU, SIM
from ..state import HOST_BYTES
from . import checked_kernels as checked_kernels

if SIM:
    from .simulator import integration
else:
    from .numba_cuda import forget_labelled, integration  # type: ignore[assignment]

    stages.on_change(forget_labelled)
    for _launched in (integration.running, integration.others):  # type: ignore[attr-defined]
        stream_kernels.ask_before_loads(_launched.any)


def prepare(kernel: Any, *args: Any) -> None:
    """Compile and load a kernel without launching it.

    A first launch compiles and loads, which CUDA does not do beside a kernel that waits for that launch,
    and which is slow inside a stream capture. After this, launches with such arguments do neither. Also
    raises the context's stack limit where the kernel needs it.

    Args:
        kernel: a function under ``numba.cuda.jit``.
        args: arguments as for a launch, whose types count; or one signature of Numba.

    Raises: TypeError (no kernel), Numba's errors. In the simulator nothing is compiled.
    Example: ``shmem.prepare(kernel, dest, source)``
    Extension.
    """
    integration.prepare(kernel, args)


def _kernel_name(number: int) -> str | None:
    name = integration.kernel_name(number)
    return None if name == "?" else name


def _check_simulator_choice(device: str) -> None:
    """Raises when numba was imported for the other accelerator than the job runs on."""
    if device in library.SIMULATED and not SIM:
        raise ImportError(
            "the job runs on the simulator, but numba was imported without it: import pyshmem "
            "before numba, start the script with 'python -m pyshmem run --device sim', or set "
            "NUMBA_ENABLE_CUDASIM=1"
        )
    if device in library.SIMULATED and (device == "cpu") != CPU:
        raise ImportError(
            f"the job runs with device {device}, but pyshmem.device was imported for "
            f"{'cpu' if CPU else 'sim'}: start the script with 'python -m pyshmem run --device "
            f"{device}', or set PYSHMEM_DEVICE={device}"
        )
    if device == "cuda" and SIM:
        raise ImportError(
            "the job runs on a GPU, but numba was imported with its simulator: "
            "unset NUMBA_ENABLE_CUDASIM"
        )


def _on_init() -> None:
    _check_simulator_choice(runtime.device_name())
    arrays.pinned = not SIM and library.device_state()[HOST_BYTES] > 0
    _push()


def _push() -> None:
    if runtime.device_name() != "none":
        integration.push(library.device_state(), runtime.current().gpu)


def _on_finalize() -> None:
    arrays.pinned = False
    integration.forget()


integration.install()
faults.add_kernel_namer(_kernel_name, "pyshmem.device")
runtime.on_init(_on_init)
runtime.on_state_change(_push)
runtime.on_finalize(_on_finalize)
