# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.launch``: a function on new PEs. See README.md."""

from ..._core import moved

__getattr__ = moved.contents_of(__name__, "launch")
