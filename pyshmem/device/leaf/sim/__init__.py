# SPDX-License-Identifier: BSD-3-Clause
"""Kernels without a GPU: Numba's simulator under a scheduler of ours, and the leaves in C."""
