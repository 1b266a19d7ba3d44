# SPDX-License-Identifier: BSD-3-Clause
"""The names of Triton-distributed: ``import pyshmem.interop.triton_dist as triton_dist``.

The modules are where its users look for them: ``language`` (``dl``), ``language.extra.libshmem_device``,
``language.extra.language_extra``, ``utils``, ``profiler_utils``, ``test.utils`` and
``kernels.nvidia.common_ops``. Kernels take no context
argument, so they are compiled for the running job: see ``pyshmem.triton.dist``, on which this stands.

A program is the only caller that there is, whatever scope a name has: the whole program does it once.
"""

from triton import jit

from ..._core.other_names import leave_out
from . import kernels, language, utils

_OPERATIONS = "pyshmem.fused has the operations; layers and models are a program's own"

leave_out(__name__, "triton_dist", {
    "layers": _OPERATIONS, "models": _OPERATIONS, "mega_triton_kernel": _OPERATIONS,
    "autotuner": "triton.autotune chooses for kernels, python -m pyshmem tune for pyshmem's own",
    "tools": "Triton's own cache has what it compiles",
    "amd_utils": "GPUs are NVIDIA's",
})  # fmt: skip

__all__ = ["jit", "kernels", "language", "utils"]
