# SPDX-License-Identifier: BSD-3-Clause
"""The names of Iris, for its users' programs: ``import pyshmem.interop.iris as iris``.

    ctx = iris.iris(heap_size=1 << 30)
    buffer = ctx.zeros(1024, dtype=torch.float32)
    kernel[grid](buffer, ctx.get_rank(), ctx.get_num_ranks(), ctx.get_heap_bases())
    ctx.barrier()

The object and its creators are in ``host``, what kernels call in ``device``, ``ctx.ccl`` in ``ccl``.
With torch installed arrays are torch tensors, else NumPy's or CuPy's. Where nothing else is said
arguments and defaults are those of Iris.
"""

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
from .host import Iris, do_bench, iris

__all__ = [
    "Iris", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_sub", "atomic_xchg", "atomic_xor", "copy", "do_bench", "get", "iris", "load", "put", "store",
]  # fmt: skip
