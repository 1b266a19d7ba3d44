# SPDX-License-Identifier: BSD-3-Clause
"""Tokens to experts and back: see README.md."""
