# SPDX-License-Identifier: BSD-3-Clause
"""Kernels compiled for the CPU: Numba's own compiler, and fibers for the threads of a block."""
