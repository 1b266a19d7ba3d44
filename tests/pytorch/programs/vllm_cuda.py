# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's own communicator for CUDA, with our class before it, in vLLM's own groups, on CPUs.

    vllm_cuda.py STORE

vLLM's sources have to be found, from an installation or an unpacked wheel; its compiled modules and
most of what it needs need not: what its communicator imports of NCCL, FlashInfer and AMD's libraries,
and its configuration, are stubs here. Theirs are ``CudaCommunicator`` and its base,
``GroupCoordinator``, ``initialize_model_parallel``, the settings and the interface of platforms.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from stubs import Stubs

import pyshmem

rank, size = int(os.environ["PYSHMEM_PE"]), int(os.environ["PYSHMEM_N_PES"])
COMMUNICATORS = "vllm.distributed.device_communicators"
CONFIG = SimpleNamespace(
    parallel_config=SimpleNamespace(
        data_parallel_size=1, enable_elastic_ep=False, enable_eplb=False, use_all2all=False
    ),
    engram_config=None,
    model_config=None,
)
#: Modules that stand for vLLM's, with what is looked at; any other name in them is a mock.
STUBS: dict[str, dict[str, Any]] = {
    "vllm.config": {
        "get_current_vllm_config": lambda: CONFIG,
        "get_current_vllm_config_or_none": lambda: None,
    },
    "vllm._aiter_ops": {
        "rocm_aiter_ops": SimpleNamespace(is_custom_all_reduce_enabled=lambda: False)
    },
    f"{COMMUNICATORS}.all_reduce_utils": {
        "NCCL_SYMM_MEM_ALL_REDUCE_CONFIG": {"min_world_size": 4},
        "should_nccl_symm_mem_allreduce": lambda *_: False,
    },
    f"{COMMUNICATORS}.pynccl": {
        "PyNcclCommunicator": lambda group, device: mock.MagicMock(disabled=True)
    },
    f"{COMMUNICATORS}.pynccl_allocator": {"is_symmetric_memory_enabled": lambda: False},
    **{
        f"{COMMUNICATORS}.{name}": {}
        for name in (
            "aiter_custom_all_reduce", "custom_all_reduce", "flashinfer_all_reduce",
            "flashinfer_pcie_ipc_all_reduce", "quick_all_reduce", "symm_mem",
        )
    },
}  # fmt: skip


def groups_of_vllm() -> Any:
    """The module of vLLM's groups, on a platform of CPUs whose communicator is ours for CUDA."""
    import vllm.platforms
    from vllm.platforms.interface import Platform, PlatformEnum

    class PlatformOfCPUs(Platform):
        _enum = PlatformEnum.CPU
        device_name = device_type = "cpu"
        dispatch_key, dist_backend = "CPU", "gloo"

        @classmethod
        def get_device_communicator_cls(cls) -> str:
            return "pyshmem.interop.vllm.communicator.Communicator"

    vllm.platforms.current_platform = PlatformOfCPUs()
    from vllm.distributed import parallel_state

    return parallel_state


def check(parallel_state: Any, batch_invariant: bool) -> None:
    from vllm.distributed.device_communicators.cuda_communicator import CudaCommunicator

    from pyshmem.interop.vllm.communicator import Communicator

    group = parallel_state.get_tp_group()
    ours = group.device_communicator
    assert isinstance(ours, Communicator)
    assert isinstance(ours, CudaCommunicator)  # vLLM captures graphs of no others
    assert ours.batch_invariant == batch_invariant
    assert (pyshmem.my_pe(), pyshmem.n_pes()) == (rank, size)
    total = size * (size + 1) / 2
    with mock.patch.object(CudaCommunicator, "all_reduce", side_effect=AssertionError):
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.full((3, 8), rank + 1.0, dtype=dtype)
            assert torch.equal(group.all_reduce(x), torch.full((3, 8), total, dtype=dtype))
            assert torch.equal(x, torch.full((3, 8), rank + 1.0, dtype=dtype))
    large = torch.ones((8 << 20) // 4 + 4)
    with mock.patch.object(CudaCommunicator, "all_reduce", return_value=None) as theirs:
        group.all_reduce(torch.ones(3, dtype=torch.int64))
        group.device_communicator.all_reduce(large)
    assert (
        theirs.call_count == 2 - batch_invariant
    )  # of large ones ours, where bits must not differ
    whole = group.all_reduce(torch.ones(3, dtype=torch.int64))  # by vLLM's own code
    assert torch.equal(whole, torch.full((3,), size))


def main() -> None:
    sys.meta_path.insert(0, Stubs(STUBS))
    os.environ["VLLM_ALLREDUCE_USE_FLASHINFER"] = "0"
    parallel_state = groups_of_vllm()
    parallel_state.set_custom_all_reduce(False)
    parallel_state.init_distributed_environment(
        size, rank, f"file://{sys.argv[1]}", rank, backend="gloo"
    )
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=size)
    check(parallel_state, os.environ.get("VLLM_BATCH_INVARIANT") == "1")
    parallel_state.destroy_model_parallel()
    assert not pyshmem.initialized()
    parallel_state.destroy_distributed_environment()
    print("ok", flush=True)


if __name__ == "__main__":
    main()
