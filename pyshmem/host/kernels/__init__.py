# SPDX-License-Identifier: BSD-3-Clause
"""Kernels as the host sees them: who makes those of calls on streams, and what all may not call."""
