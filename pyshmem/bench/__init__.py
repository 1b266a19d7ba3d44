# SPDX-License-Identifier: BSD-3-Clause
"""Figures of this machine, timed inside the kernels: ``python -m pyshmem bench`` and ``tune``."""
