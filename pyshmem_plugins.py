# SPDX-License-Identifier: BSD-3-Clause
"""Entry points of vLLM and SGLang, which both look up and import in all their processes.

Neither function does anything, nor imports pyshmem, unless the engine's own list of plug-ins names
``pyshmem``.
"""

from __future__ import annotations

NAME = "pyshmem"


def vllm_platform() -> str | None:
    """Of ``vllm.platform_plugins``: the class of the platform; None: vLLM's own.

    Raises: RuntimeError (named by ``VLLM_PLUGINS`` where vLLM finds no GPU of CUDA; vLLM logs it).
    """
    from vllm import envs

    if NAME not in (envs.VLLM_PLUGINS or ()):
        return None
    from vllm.platforms import cuda_platform_plugin

    if cuda_platform_plugin() is None:
        raise RuntimeError("the plug-in pyshmem is for GPUs of CUDA, and vLLM finds none")
    return "pyshmem.interop.vllm.platform.Platform"


def sglang() -> None:
    """Of ``sglang.srt.plugins``."""
    from sglang.srt.environ import envs

    if NAME in [name.strip() for name in (envs.SGLANG_PLUGINS.get() or "").split(",")]:
        from pyshmem.interop.sglang import register

        register()
