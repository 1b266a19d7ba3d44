# SPDX-License-Identifier: BSD-3-Clause
"""Chooses the bodies of the leaf primitives: Numba intrinsics, or C functions for the simulator.

Everything above the leaves is written once and imports them from here. ``device_function`` makes a
plain Python function callable from kernels of either kind.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ..._foreign import environment  # meets numba-cuda while it is imported

try:
    from numba.cuda.core import config
except ImportError as error:
    raise ImportError(
        "pyshmem.device needs numba and numba-cuda: "
        "pip install 'pyshmem-openshmem[sim]' without a GPU, 'pyshmem-openshmem[cuda]' with one"
    ) from error

SIM = bool(config.ENABLE_CUDASIM)
#: Kernels without a GPU are compiled, not interpreted.
CPU = SIM and environment.compiles_for_cpu()

_F = TypeVar("_F", bound=Callable[..., Any])

if SIM and not CPU:
    from .sim.elements import *  # noqa: F403
    from .sim.packets import *  # noqa: F403
    from .sim.stages import *  # noqa: F403
    from .sim.threads import *  # noqa: F403
    from .sim.threads import public_routine

    def device_function(function: _F) -> _F:
        """The simulator runs kernels as Python."""
        return function

    public_function = public_routine

else:
    from .compiled.arrays import *  # noqa: F403
    from .compiled.combine import *  # noqa: F403
    from .compiled.elements import *  # noqa: F403
    from .compiled.llvm import checked_routine, register_jitable
    from .compiled.messages import *  # noqa: F403

    if CPU:
        from .cpu.copies import *  # noqa: F403
        from .cpu.elements import *  # noqa: F403
        from .cpu.stages import *  # noqa: F403
        from .cpu.threads import *  # noqa: F403
    else:
        from .cuda.copies import *  # noqa: F403
        from .cuda.elements import *  # noqa: F403
        from .cuda.stages import *  # noqa: F403
        from .cuda.threads import *  # noqa: F403

    def device_function(function: _F) -> _F:
        """Callable from kernels; compiled, and inlined, for the types of each call."""
        jitted: _F = register_jitable(function)
        return jitted

    public_function = checked_routine
