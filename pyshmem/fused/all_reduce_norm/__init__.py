# SPDX-License-Identifier: BSD-3-Clause
"""A sum over PEs, a residual and a norm: see README.md."""
