# SPDX-License-Identifier: BSD-3-Clause
"""Attention of one new token over a cache that PEs share."""

from ..._core import moved

__getattr__ = moved.contents_of(__name__, "api")
