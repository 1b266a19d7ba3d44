# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that the host launches: grids whose blocks meet the peers' same blocks, not each other."""
