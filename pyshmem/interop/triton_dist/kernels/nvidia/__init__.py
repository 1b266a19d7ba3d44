# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.kernels.nvidia``: ``common_ops``; the operators are ``pyshmem.fused``'s."""

from typing import Any

from ....._core.other_names import absent, leave_out

_OPERATORS = {
    "ag_gemm": "all_gather_matmul", "create_ag_gemm_context": "all_gather_matmul",
    "gemm_rs": "matmul_reduce_scatter", "create_gemm_rs_context": "matmul_reduce_scatter",
    "gemm_allreduce_op": "matmul_all_reduce", "create_gemm_ar_context": "matmul_all_reduce",
    "low_latency_gemm_allreduce_op": "matmul_all_reduce", "fast_all_to_all": "all_to_all",
    "create_all_to_all_context": "all_to_all", "gqa_fwd_batch_decode": "flash_decode",
}  # fmt: skip

_MODULES = {
    "allgather_gemm": "all_gather_matmul", "gemm_reduce_scatter": "matmul_reduce_scatter",
    "gemm_allreduce": "matmul_all_reduce", "low_latency_all_to_all": "all_to_all",
    "low_latency_allgather": "low_latency_all_gather", "ep_a2a": "expert_dispatch",
    "ep_a2a_intra_node": "expert_dispatch", "flash_decode": "flash_decode",
    "allgather_group_gemm": "group_matmul", "ulysses_sp_dispatch": "ulysses_to_heads",
}  # fmt: skip


def _instead(operation: str) -> str:
    return f"pyshmem.fused.{operation} does the same, with other arguments"


leave_out(__name__, "triton_dist.kernels.nvidia", {m: _instead(o) for m, o in _MODULES.items()})


def __getattr__(name: str) -> Any:
    if name in _OPERATORS:
        raise absent(f"triton_dist's {name}", _instead(_OPERATORS[name]))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
