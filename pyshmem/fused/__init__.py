# SPDX-License-Identifier: BSD-3-Clause
"""Operations that compute and communicate: what an inference engine's or a trainer's layer is made of.

    import pyshmem.fused as fused

    y, residual, _ = fused.all_reduce_rmsnorm(x, weight, residual=residual)
    hidden = fused.all_gather_matmul(x_shard, w_up, activation="silu")
    x_shard = fused.matmul_reduce_scatter(hidden, w_down)

They take tensors of torch and arrays of CuPy, run on the caller's current stream, may be captured in
CUDA graphs, and add in PE order, in float32, so that all PEs have the same bits. Each has several
algorithms and a measured table that chooses one (``docs/fused.md``). Kernels are stock Triton, so they
run in Triton's interpreter on the simulator too.

Extension.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pyshmem.fused needs PyTorch and Triton: pip install 'pyshmem-openshmem[torch,triton]'"
    ) from _error

from .._core import moved as _moved
from .._core import other_names as _other_names
from ..interop import torch as _backend  # noqa: F401  (it knows the backend, as it always did)
from .all_reduce_norm import operators as _norm_operators
from .all_reduce_norm.api import NormResult, all_reduce_rmsnorm
from .all_reduce_norm.modules import replace_norms
from .exchange.all_to_all import all_to_all, low_latency_all_gather
from .exchange.ulysses import ulysses_to_heads, ulysses_to_sequence
from .flash_decode.api import flash_decode
from .grouped_matmul import operators as _group_matmul_operators
from .grouped_matmul.api import group_matmul
from .grouped_matmul.sharded_experts import all_gather_group_matmul, group_matmul_reduce_scatter
from .grouped_matmul.sharded_layout import GroupRouting
from .matmul import operators as _matmul_operators
from .matmul.api import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from .matmul.arguments import share_of_rows
from .moe import operators as _experts_operators
from .moe.api import expert_combine, expert_dispatch
from .moe.handle import ExpertHandle
from .moe.masked.calls import ExpertMask, expert_mask

__all__ = [
    "ExpertHandle",
    "ExpertMask",
    "GroupRouting",
    "NormResult",
    "all_gather_group_matmul",
    "all_gather_matmul",
    "all_reduce_rmsnorm",
    "all_to_all",
    "expert_combine",
    "expert_dispatch",
    "expert_mask",
    "flash_decode",
    "group_matmul",
    "group_matmul_reduce_scatter",
    "low_latency_all_gather",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "replace_norms",
    "share_of_rows",
    "ulysses_to_heads",
    "ulysses_to_sequence",
]

#: Importing them makes ``torch.ops.pyshmem`` know the operators.
_OPERATORS = (
    _experts_operators, _group_matmul_operators, _matmul_operators, _norm_operators,
)  # fmt: skip

__getattr__ = _moved.attribute_of(
    __name__, _other_names.not_in_operations(__name__, _other_names.OF_FUSED)
)
