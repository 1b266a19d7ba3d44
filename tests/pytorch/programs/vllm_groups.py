# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's own groups on CPUs, with a device communicator that adds by pyshmem. Needs vLLM."""

from __future__ import annotations

import os
import sys
from unittest import mock

import torch
import vllm.platforms
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state, tensor_model_parallel_all_reduce
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase
from vllm.platforms.interface import Platform, PlatformEnum

import pyshmem
from pyshmem.interop.vllm import TensorParallelSums

rank, size = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])


class Communicator(TensorParallelSums, DeviceCommunicatorBase):
    """vLLM's for platforms that have none of their own."""


class PlatformOfCPUs(Platform):
    """What vLLM asks of a platform to make groups."""

    _enum = PlatformEnum.CPU
    device_name = device_type = "cpu"
    dispatch_key, dist_backend = "CPU", "gloo"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "__main__.Communicator"


def main() -> None:
    vllm.platforms.current_platform = PlatformOfCPUs()
    with set_current_vllm_config(VllmConfig()):
        parallel_state.init_distributed_environment(
            size, rank, f"file://{sys.argv[1]}", rank, backend="gloo"
        )
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=size)
        assert isinstance(parallel_state.get_tp_group().device_communicator, Communicator)
        assert (pyshmem.my_pe(), pyshmem.n_pes()) == (rank, size)
        total = size * (size + 1) / 2
        traced = torch.compile(tensor_model_parallel_all_reduce, backend="eager", fullgraph=True)
        with mock.patch.object(DeviceCommunicatorBase, "all_reduce", side_effect=AssertionError):
            for dtype in (torch.float32, torch.bfloat16):
                x = torch.full((3, 8), rank + 1.0, dtype=dtype)
                for call in (tensor_model_parallel_all_reduce, traced):
                    assert torch.equal(call(x), torch.full((3, 8), total, dtype=dtype))
                assert torch.equal(x, torch.full((3, 8), rank + 1.0, dtype=dtype))
        whole = tensor_model_parallel_all_reduce(torch.ones(3, dtype=torch.int64))  # vLLM's own
        assert torch.equal(whole, torch.full((3,), size))
        parallel_state.destroy_model_parallel()
        assert not pyshmem.initialized()
        parallel_state.destroy_distributed_environment()
    print("ok", flush=True)


if __name__ == "__main__":
    main()
