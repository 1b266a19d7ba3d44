# SPDX-License-Identifier: BSD-3-Clause
"""What the functions for kernels are made of: see README.md."""
