# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.language.extra``: the functions of SHMEM, and of threads as far as there are any."""

from . import cuda, language_extra, libshmem_device

__all__ = ["cuda", "language_extra", "libshmem_device"]
