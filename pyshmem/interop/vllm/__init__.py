# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's tensor parallel all-reduce by pyshmem, as a plug-in of vLLM, on NVIDIA GPUs of one host.

    pip install pyshmem-openshmem[cuda,torch,triton]     # beside vLLM
    VLLM_PLUGINS=pyshmem vllm serve MODEL --tensor-parallel-size 2

The plug-in is a platform: vLLM's own for CUDA, whose device communicator sums tensors of the tensor
parallel group here, up to half of its staging memory (8 MiB), and all else as before. A plug-in that
``VLLM_PLUGINS`` does not name does nothing; it is a list, and vLLM loads no others then.

vLLM itself is imported by ``platform`` and ``communicator`` alone.

Extension.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pyshmem.interop.vllm needs PyTorch and Triton: pip install 'pyshmem-openshmem[torch,triton]'"
    ) from _error

from .sums import TensorParallelSums

__all__ = ["TensorParallelSums"]
