# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.streams`` for ``import``: the module is ``pyshmem.host.streams`` itself."""

import sys

from .host import streams
from .host.streams import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = streams
