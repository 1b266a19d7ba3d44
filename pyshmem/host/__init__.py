# SPDX-License-Identifier: BSD-3-Clause
"""Routines that are called from the host."""
