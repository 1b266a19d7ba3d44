# SPDX-License-Identifier: BSD-3-Clause
"""Chooses the bodies of the leaf primitives: Numba intrinsics, or C functions for the simulator.

Everything above the leaves is written once and imports them from here. ``device_function`` makes a
plain Python function callable from kernels of either kind.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ..._foreign import environment  # noqa: F401  (meets numba-cuda while it is imported)

try:
    from numba.cuda.core import config
except ImportError as error:
    raise ImportError(
        "pyshmem.device needs numba and numba-cuda: "
        "pip install 'pyshmem-openshmem[sim]' without a GPU, 'pyshmem-openshmem[cuda]' with one"
    ) from error

SIM = bool(config.ENABLE_CUDASIM)

_F = TypeVar("_F", bound=Callable[..., Any])

if SIM:
    from .sim.elements import *  # noqa: F403
    from .sim.stages import *  # noqa: F403
    from .sim.threads import *  # noqa: F403
    from .sim.threads import public_routine
    from .sim.units import *  # noqa: F403

    def device_function(function: _F) -> _F:
        """The simulator runs kernels as Python."""
        return function

    public_function = public_routine

else:
    from numba.cuda.extending import register_jitable

    from .cuda.combine import *  # noqa: F403
    from .cuda.copies import *  # noqa: F403
    from .cuda.elements import *  # noqa: F403
    from .cuda.messages import *  # noqa: F403
    from .cuda.stages import *  # noqa: F403
    from .cuda.threads import *  # noqa: F403

    def device_function(function: _F) -> _F:
        """Callable from kernels; compiled, and inlined, for the types of each call."""
        jitted: _F = register_jitable(function)
        return jitted

    def public_function(function: _F) -> _F:
        """Kernels are compiled for the integers that they have."""
        return function
