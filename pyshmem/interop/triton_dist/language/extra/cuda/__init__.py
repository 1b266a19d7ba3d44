# SPDX-License-Identifier: BSD-3-Clause
"""The same modules by the names that they have for NVIDIA's GPUs."""

from .. import language_extra, libshmem_device
from .. import libshmem_device as libnvshmem_device

__all__ = ["language_extra", "libnvshmem_device", "libshmem_device"]
