# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM inside Numba-CUDA kernels.

Call these functions from ``@cuda.jit`` kernels, on arrays made with ``heap="device"``. The names are
the specification's without ``shmem_``; ``_warp`` and ``_work_group`` forms share the work of one call
among the threads of a warp or a block, all of which make the same call. The same kernels run in
Numba's simulator when there is no GPU.
"""

# ruff: noqa: F403
from types import FunctionType as _FunctionType
from types import ModuleType as _ModuleType

from . import (
    _backend,
    _modules,  # noqa: F401  (fills the state block of kernels as they load)
)
from .arguments import *
from .atomics import *
from .collectives import *
from .locks import *
from .messages import *
from .ordering import *
from .reductions import *
from .rma import *
from .signals import *
from .strided import *
from .sync import *
from .team_collectives import *
from .teams import *
from .wait_sets import *

# What the modules' own lists brought, and not the modules.
__all__ = [
    name
    for name, value in vars().items()
    if not (name.startswith("_") or isinstance(value, _ModuleType))
]

if _backend.SIM:
    from .simulator.leaves import with_plain_integers as _with_plain_integers

    for _name in __all__:  # NumPy would not add an int32 of a kernel to an address
        if isinstance(globals()[_name], _FunctionType):
            globals()[_name] = _with_plain_integers(globals()[_name])
