# SPDX-License-Identifier: BSD-3-Clause
"""Teams and contexts: see ../README.md."""

from ..._core import moved

__getattr__ = moved.contents_of(__name__, "team")
