# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: what moves tokens and keys, in one job."""

from __future__ import annotations

import os

import fused_attention
import fused_experts
import fused_moves
import torch

import pyshmem

few = os.environ.get("PYSHMEM_P2P") == "0"  # an element is a request then
torch.set_num_threads(1)
with pyshmem.init() as job:
    for part in (fused_moves, fused_experts, fused_attention):
        part.check(job.my_pe, job.n_pes, few)
print("ok", flush=True)
