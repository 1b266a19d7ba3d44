# SPDX-License-Identifier: BSD-3-Clause
"""From an array of any library to address, dtype and size: see README.md."""

from .. import moved

__getattr__ = moved.contents_of(__name__, "checks")
