# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.cutover`` for ``import``: the module is ``pyshmem.host.tuning.cutover`` itself."""

import sys

from .host.tuning import cutover
from .host.tuning.cutover import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = cutover
