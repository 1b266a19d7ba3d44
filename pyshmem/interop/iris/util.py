# SPDX-License-Identifier: BSD-3-Clause
"""``iris.util``: timing, and small helpers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.errors import UnsupportedError
from ...host.job import runtime
from . import hip

__all__ = ["do_bench", "get_device_id_for_rank", "is_simulation_env", "memset_tensor"]


def synchronize() -> None:
    """Waits for this PE's kernels."""
    if runtime.device_name() == "cuda":
        import cupy

        cupy.cuda.Device().synchronize()


def check_group(group: Any, ranks: int) -> None:
    """Raises UnsupportedError for a process group that is not all ranks."""
    size = ranks if group is None else int(group.size())
    if size != ranks:
        raise UnsupportedError(
            f"group has {size} of {ranks} ranks: these are of all ranks; pyshmem's own collectives, and "
            "pyshmem.triton's, take teams"
        )


def is_simulation_env() -> bool:
    """Is there no GPU?"""
    if runtime.initialized():
        return runtime.device_name() != "cuda"
    return os.environ.get("PYSHMEM_DEVICE") == "sim" or hip._cuda() is None


def get_device_id_for_rank(rank: int) -> int:
    """The GPU of a rank, where each rank has the next one."""
    return rank % hip.count_devices()


def memset_tensor(tensor: Any, value: Any) -> None:
    """Set all elements, in the order of the current stream."""
    if hasattr(tensor, "fill_"):
        tensor.fill_(value)
    else:
        tensor[...] = value


def do_bench(
    fn: Callable[[], Any],
    barrier_fn: Callable[[], Any] = lambda: None,
    preamble_fn: Callable[[], Any] = lambda: None,
    n_warmup: int = 25,
    n_repeat: int = 100,
    quantiles: list[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that ``fn`` and its kernels take, behind ``preamble_fn`` and ``barrier_fn``.

    Args:
        quantiles: return these instead.
        return_mode: "min", "max", "mean", "median" or "all".

    Raises: ValueError (return_mode).
    """
    modes: dict[str, Callable[..., Any]] = {
        "min": min, "max": max, "mean": np.mean, "median": np.median, "all": list,
    }  # fmt: skip
    if return_mode not in modes:
        raise ValueError(f"return_mode is {return_mode!r}; the modes are {', '.join(modes)}")
    times = []
    for run in range(n_warmup + n_repeat):
        preamble_fn()
        synchronize()
        barrier_fn()
        begin = time.perf_counter()
        fn()
        synchronize()
        if run >= n_warmup:
            times.append(1e3 * (time.perf_counter() - begin))
    if quantiles is not None:
        found = np.quantile(times, quantiles).tolist()
        return found[0] if len(found) == 1 else found
    result = modes[return_mode](times)
    return result if return_mode == "all" else float(result)
