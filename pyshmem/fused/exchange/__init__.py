# SPDX-License-Identifier: BSD-3-Clause
"""All-to-all and small all-gathers of rows."""

from ..._core import moved

__getattr__ = moved.contents_of(__name__, "launch")
