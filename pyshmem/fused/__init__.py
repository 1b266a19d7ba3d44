# SPDX-License-Identifier: BSD-3-Clause
"""Operations that compute and communicate: what an inference engine's or a trainer's layer is made of.

    import pyshmem.fused as fused

    y, residual = fused.all_reduce_rmsnorm(x, weight, residual=residual)
    hidden = fused.all_gather_matmul(x_shard, w_up, activation="silu")
    x_shard = fused.matmul_reduce_scatter(hidden, w_down)

They take tensors of torch and arrays of CuPy, run on the caller's current stream, may be captured in
CUDA graphs, and add in PE order, in float32, so that all PEs have the same bits. Each has several roads
and a measured table that chooses one (``docs/fused.md``). Kernels are stock Triton, so they run in
Triton's interpreter on the simulator too.

Extension.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pyshmem.fused needs PyTorch and Triton: pip install 'pyshmem-openshmem[torch,triton]'"
    ) from _error

from . import matmul_operators as _matmul_operators  # noqa: F401
from .matmul import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from .matmul_arguments import share_of_rows

__all__ = [
    "all_gather_matmul",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "share_of_rows",
]
from . import norm_operators as _norm_operators
from .norm import NormResult, all_reduce_rmsnorm
__all__ = ["NormResult", "all_reduce_rmsnorm"]
from .norm_modules import replace_norms

__all__ = ["NormResult", "all_reduce_rmsnorm", "replace_norms"]

assert _norm_operators._library  # torch.ops.pyshmem.all_reduce_rmsnorm
