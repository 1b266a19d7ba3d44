# SPDX-License-Identifier: BSD-3-Clause
"""torch.ops.pyshmem.batch_invariant_*: what a batch-invariant model adds up, on one PE alone."""

from __future__ import annotations

import torch

from ...fused.all_reduce_norm.local import rmsnorm
from ...fused.exchange.all_to_all import declare
from ...fused.flash_decode.local import attend_alone
from ...fused.matmul.linear import linear

declare(
    "batch_invariant_linear",
    "(Tensor x, Tensor weight, Tensor? bias=None, str? activation=None) -> Tensor",
    linear,
    lambda x, weight, bias=None, activation=None: x.new_empty((*x.shape[:-1], weight.shape[0])),
    None,
)
declare(
    "batch_invariant_rmsnorm", "(Tensor x, Tensor weight, float eps) -> Tensor",
    rmsnorm, lambda x, weight, eps: torch.empty_like(x), None,
)  # fmt: skip
declare(
    "batch_invariant_attention",
    "(Tensor q, Tensor k, Tensor v, Tensor bounds, float scale) -> Tensor",
    attend_alone, lambda q, k, v, bounds, scale: torch.empty_like(q), None,
)  # fmt: skip
