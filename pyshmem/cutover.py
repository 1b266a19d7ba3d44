# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.cutover`` for ``import``: the module is ``pyshmem.host.cutover`` itself."""

import sys

from .host import cutover
from .host.cutover import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = cutover
