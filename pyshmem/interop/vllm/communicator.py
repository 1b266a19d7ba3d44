# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's device communicator for CUDA, adding by pyshmem. It imports vLLM."""

from __future__ import annotations

from vllm import envs
from vllm.distributed.device_communicators.cuda_communicator import CudaCommunicator

from .sums import TensorParallelSums


class Communicator(TensorParallelSums, CudaCommunicator):  # type: ignore[misc, unused-ignore]
    """vLLM captures graphs of groups whose communicator is a CudaCommunicator alone."""

    batch_invariant = bool(envs.VLLM_BATCH_INVARIANT)
