# SPDX-License-Identifier: BSD-3-Clause
"""The names of Iris, for its users' programs: ``import pyshmem.interop.iris as iris``.

    ctx = iris.iris(heap_size=1 << 30)
    buffer = ctx.zeros(1024, dtype=torch.float32)
    kernel[grid](buffer, ctx.get_rank(), ctx.get_num_ranks(), ctx.get_heap_bases())
    ctx.barrier()

The object and its creators are in ``host`` and ``creators``, what kernels call in ``device`` and
``context``, ``ctx.ccl`` in ``ccl``, ``ctx.ops`` in ``ops``. With torch installed arrays are torch's,
else NumPy's or CuPy's. Where nothing else is said arguments and defaults are those of Iris.
"""

from typing import Any

from ..._core.other_names import absent, leave_out
from . import ccl, creators, hip, logging, ops, util
from .ccl import Config
from .context import DeviceContext
from .device import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xchg,
    atomic_xor,
    copy,
    get,
    load,
    put,
    store,
)
from .host import Iris, iris
from .logging import DEBUG, ERROR, INFO, WARNING, logger, set_logger_level
from .ops import FusedConfig
from .util import do_bench, get_device_id_for_rank, is_simulation_env, memset_tensor

Context = TritonContext = DeviceContext
tensor_creation = creators

__all__ = [
    "DEBUG", "ERROR", "INFO", "WARNING", "Config", "Context", "DeviceContext", "FusedConfig", "Iris",
    "TritonContext", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_sub", "atomic_xchg", "atomic_xor", "ccl", "copy", "creators", "do_bench", "get",
    "get_device_id_for_rank", "hip", "iris", "is_simulation_env", "load", "logger", "logging",
    "memset_tensor", "ops", "put", "set_logger_level", "store", "tensor_creation", "util",
]  # fmt: skip

_ABSENT = {
    "TraceEvent": "pyshmem.profiling.trace makes a timeline",
    "kernel_artifacts": "Triton's own cache has what it compiles",
    "experimental": "kernels of Gluon take pyshmem.gluon",
    "gluon": "kernels of Gluon take pyshmem.gluon",
    "x": "pyshmem.triton has collectives of tiles in kernels",
    "Tile": "pyshmem.triton has collectives of tiles in kernels",
    "TileView": "pyshmem.triton has collectives of tiles in kernels",
    "TensorView": "pyshmem.triton has collectives of tiles in kernels",
    "make_tensor_view": "pyshmem.triton has collectives of tiles in kernels",
    "AllReduceConfig": "pyshmem.triton has collectives of tiles in kernels",
    "triggered": "pyshmem's operations on streams may be captured in graphs",
    "bench": "do_bench is there, and the bench folder of pyshmem",
    "tensor_from_ptr": "pyshmem.ptr gives a peer's array",
    "CUDAArrayInterface": "pyshmem.ptr gives a peer's array",
}

leave_out(__name__, "iris", _ABSENT)


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise absent(f"iris.{name}", _ABSENT[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
