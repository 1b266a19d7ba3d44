# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives that Numba compiles in one way for GPUs and for the CPU."""
