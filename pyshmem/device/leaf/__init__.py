# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives: one set of names, bodies for GPUs and for the simulator."""
