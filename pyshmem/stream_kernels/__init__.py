# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that the host launches: grids that wait for the peers' same blocks, not each other."""
