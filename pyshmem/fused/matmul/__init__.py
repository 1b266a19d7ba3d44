# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products with an all-gather, a reduce-scatter or an all-reduce: see README.md."""

from ..._core import moved

__getattr__ = moved.contents_of(__name__, "api")
