# SPDX-License-Identifier: BSD-3-Clause
"""The symmetric heaps, and arrays on them."""
