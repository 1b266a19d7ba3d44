# SPDX-License-Identifier: BSD-3-Clause
"""What the fused operations have in common: see README.md."""
