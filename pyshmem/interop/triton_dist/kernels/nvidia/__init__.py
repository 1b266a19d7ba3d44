# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.kernels.nvidia``: ``common_ops``; the operators are ``pyshmem.fused``'s."""

from typing import Any

from ....._core.other_names import absent

_OPERATORS = {
    "ag_gemm": "all_gather_matmul", "create_ag_gemm_context": "all_gather_matmul",
    "gemm_rs": "matmul_reduce_scatter", "create_gemm_rs_context": "matmul_reduce_scatter",
    "gemm_allreduce_op": "matmul_all_reduce", "create_gemm_ar_context": "matmul_all_reduce",
    "low_latency_gemm_allreduce_op": "matmul_all_reduce", "fast_all_to_all": "all_to_all",
    "create_all_to_all_context": "all_to_all", "gqa_fwd_batch_decode": "flash_decode",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _OPERATORS:
        instead = f"pyshmem.fused.{_OPERATORS[name]} does the same, with other arguments"
        raise absent(f"triton_dist's {name}", instead)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
