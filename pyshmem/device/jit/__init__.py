# SPDX-License-Identifier: BSD-3-Clause
"""Kernels as Numba loads and launches them: the state block, faults, names."""
