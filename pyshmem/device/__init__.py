# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM inside Numba-CUDA kernels.

Call these functions from ``@cuda.jit`` kernels, on arrays made with ``heap="device"``. The names are
the specification's without ``shmem_``; ``_warp`` and ``_work_group`` forms share the work of one call
among the threads of a warp or a block, all of which make the same call. The same kernels run in
Numba's simulator when there is no GPU.
"""

from .._core.values import CMP_EQ, CMP_GE, CMP_GT, CMP_LE, CMP_LT, CMP_NE, SIGNAL_ADD, SIGNAL_SET
from . import api as api
from .api.rma import ptr
from .api.stages import stage_begin, stage_end
from .api.wait_sets import NO_INDEX
from .jit import modules as modules
from .jit.arguments import as_argument
from .jit.modules import not_in_device, prepare
from .routine import ROUTINES as _ROUTINES
from .team.rows import TEAM_NODE, TEAM_SHARED, TEAM_WORLD

__all__ = [
    "CMP_EQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT", "CMP_NE", "NO_INDEX", "SIGNAL_ADD",
    "SIGNAL_SET", "TEAM_NODE", "TEAM_SHARED", "TEAM_WORLD", "as_argument", "prepare", "ptr",
    "stage_begin", "stage_end",
]  # fmt: skip
#: The routines, at all their scopes: ``__init__.pyi`` lists them.
globals().update(_ROUTINES, __getattr__=not_in_device)
__all__ += sorted(_ROUTINES.keys() - set(__all__))
