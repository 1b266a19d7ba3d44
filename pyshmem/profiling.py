# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.profiling`` for ``import``: the module is ``pyshmem.host.profiling`` itself."""

import sys

from .host import profiling
from .host.profiling import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = profiling
