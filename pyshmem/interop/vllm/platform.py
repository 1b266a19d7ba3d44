# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's platform for CUDA with another device communicator. It imports vLLM."""

from __future__ import annotations

from vllm.platforms.cuda import CudaPlatform


class Platform(CudaPlatform):  # type: ignore[misc, unused-ignore]
    """What ``vllm.platform_plugins`` names: all of it is vLLM's but for the communicator."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """The class of communicators, by name, for they ask which platform there is."""
        return "pyshmem.interop.vllm.communicator.Communicator"
