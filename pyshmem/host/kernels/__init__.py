# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of calls on streams, as the host sees them: who makes them."""
