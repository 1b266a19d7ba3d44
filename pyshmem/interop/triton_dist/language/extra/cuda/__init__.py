# SPDX-License-Identifier: BSD-3-Clause
"""The same modules by the names that they have for NVIDIA's GPUs."""

import sys

from .. import language_extra, libshmem_device
from .. import libshmem_device as libnvshmem_device

# Programs import them as modules of this package, too.
for _name, _module in (
    ("language_extra", language_extra), ("libnvshmem_device", libnvshmem_device),
    ("libshmem_device", libshmem_device),
):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module

__all__ = ["language_extra", "libnvshmem_device", "libshmem_device"]
