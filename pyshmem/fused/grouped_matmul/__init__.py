# SPDX-License-Identifier: BSD-3-Clause
"""Products of experts' tokens, and experts of which each PE has a share: see README.md."""
