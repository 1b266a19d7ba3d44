# SPDX-License-Identifier: BSD-3-Clause
"""``iris.hip``: what Iris asks of a GPU, asked of CUDA. Without a GPU there is one simulated device."""

from __future__ import annotations

from typing import Any

from ..._core.errors import UnsupportedError
from ...host.job import runtime
from ...triton.runtime.context import resident_programs

__all__ = [
    "count_devices", "get_arch_string", "get_cu_count", "get_device_id", "get_num_xcc",
    "get_rocm_version", "get_wall_clock_rate", "get_wavefront_size", "set_device",
]  # fmt: skip


def _cuda() -> Any:
    """CuPy, or None without a GPU."""
    if runtime.initialized() and runtime.device_name() != "cuda":
        return None
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # no CuPy, or no driver
        return None
    return cupy


def count_devices() -> int:
    """Number of GPUs."""
    cupy = _cuda()
    return 1 if cupy is None else int(cupy.cuda.runtime.getDeviceCount())


def set_device(gpu_id: int) -> None:
    """Make a GPU the current one. A job's PEs keep theirs."""
    cupy = _cuda()
    if cupy is not None:
        cupy.cuda.Device(gpu_id).use()
    elif gpu_id != 0:
        raise ValueError(f"gpu_id is {gpu_id}, but the simulated device is the only one")


def get_device_id() -> int:
    """Number of the current GPU."""
    cupy = _cuda()
    return 0 if cupy is None else int(cupy.cuda.runtime.getDevice())


def get_cu_count(device_id: int | None = None) -> int:
    """Number of multiprocessors; without a GPU how many programs the interpreter is given."""
    cupy = _cuda()
    if cupy is None:
        return resident_programs()
    device = get_device_id() if device_id is None else device_id
    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def get_wall_clock_rate(device_id: int) -> int:
    """Rate of the clock that ``tl.extra`` timers of a GPU count, in kHz: nanoseconds, 1,000,000."""
    return 1_000_000


def get_num_xcc(device_id: int | None = None) -> int:
    """Number of chiplets that programs are dealt to in turn: 1 on NVIDIA's GPUs."""
    return 1


def get_wavefront_size(device_id: int | None = None) -> int:
    """Threads of a warp."""
    return 32


def get_arch_string(device_id: int | None = None) -> str:
    """The GPU's architecture, such as "sm_90"; "sim" without one."""
    cupy = _cuda()
    if cupy is None:
        return "sim"
    device = get_device_id() if device_id is None else device_id
    return f"sm_{cupy.cuda.Device(device).compute_capability}"


def get_rocm_version() -> tuple[int, int]:
    """Raises UnsupportedError: there is no ROCm under pyshmem."""
    raise UnsupportedError("there is no ROCm here: pyshmem runs on NVIDIA GPUs, or without one")


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"iris.hip.{name} is not in pyshmem: memory and its handles are the library's own; "
        f"there are {', '.join(__all__)}"
    )
