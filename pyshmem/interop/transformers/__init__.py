# SPDX-License-Identifier: BSD-3-Clause
"""Models of Hugging Face's transformers in tensor parallel, with fused sums and norms, by one line.

    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval().to(device)
    pyshmem.interop.transformers.use(model)        # on all PEs, with the same weights
    model.generate(**inputs)                       # on all PEs, with the same inputs

transformers itself is not imported.

Extension.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "pyshmem.interop.transformers needs PyTorch: pip install 'pyshmem-openshmem[torch]'"
    ) from _error

from .model import use

__all__ = ["use"]
