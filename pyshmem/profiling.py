# SPDX-License-Identifier: BSD-3-Clause
"""``pyshmem.profiling`` for ``import``: the module is ``pyshmem.host.observe.profiling`` itself."""

import sys

from .host.observe import profiling
from .host.observe.profiling import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = profiling
