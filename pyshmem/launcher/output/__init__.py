# SPDX-License-Identifier: BSD-3-Clause
"""What PEs print and what the launcher says: see README.md."""
