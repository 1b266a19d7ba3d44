# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.kernels``. Its operators (AG + GEMM and so on) are ``pyshmem.fused``'s."""

from . import nvidia

__all__ = ["nvidia"]
