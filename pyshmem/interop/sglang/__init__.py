# SPDX-License-Identifier: BSD-3-Clause
"""SGLang's tensor parallel all-reduce by pyshmem, as a plug-in of SGLang, on NVIDIA GPUs of one host.

    pip install pyshmem-openshmem[cuda,torch,triton]     # beside SGLang
    SGLANG_PLUGINS=pyshmem python -m sglang.launch_server --model-path MODEL --tp 2

The plug-in answers where SGLang chooses the class of its custom all-reduce: ``AllReduce`` for the tensor
parallel group, for others what SGLang would take. A plug-in that ``SGLANG_PLUGINS`` does not name does
nothing; it is a list, and SGLang loads no others then.

SGLang itself is imported by ``register`` alone.

Extension.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pyshmem.interop.sglang needs PyTorch and Triton: pip install 'pyshmem-openshmem[torch,triton]'"
    ) from _error

from .custom_all_reduce import AllReduce, dispatch, register

__all__ = ["AllReduce", "dispatch", "register"]
