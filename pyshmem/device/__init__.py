# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM inside Numba-CUDA kernels.

Call these functions from ``@cuda.jit`` kernels, on arrays made with ``heap="device"``. The names are
the specification's without ``shmem_``; ``_warp`` and ``_work_group`` forms share the work of one call
among the threads of a warp or a block, all of which make the same call. The same kernels run in
Numba's simulator when there is no GPU.
"""

# ruff: noqa: F403
from types import ModuleType as _ModuleType

from .api.arguments import *
from .api.atomics import *
from .api.collectives import *
from .api.locks import *
from .api.messages import *
from .api.ordering import *
from .api.reduce_scatter import *
from .api.reductions import *
from .api.rma import *
from .api.signals import *
from .api.stages import *
from .api.strided import *
from .api.sync import *
from .api.teams import *
from .api.wait_sets import *
from .api.waits import *
from .jit import modules as modules
from .jit.modules import *

# What the modules' own lists brought, and not the modules.
__all__ = [
    name
    for name, value in vars().items()
    if not (name.startswith("_") or isinstance(value, _ModuleType))
]
