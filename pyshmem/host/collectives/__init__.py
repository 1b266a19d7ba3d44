# SPDX-License-Identifier: BSD-3-Clause
"""Collectives called from the host: blocking, non-blocking, and the requests of those."""
