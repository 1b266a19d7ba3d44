# SPDX-License-Identifier: BSD-3-Clause
"""Attention of one new token over a cache that PEs share."""
