# SPDX-License-Identifier: BSD-3-Clause
"""Chooses the bodies of the leaf primitives: Numba intrinsics, or C functions for the simulator.

Everything above the leaves is written once and imports them from here. ``device_function`` makes a
plain Python function callable from kernels of either kind.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from .. import _compat  # noqa: F401  (patches NumPy before numba-cuda compiles anything)

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
    from .simulator.leaves import *  # noqa: F403
    from .simulator.leaves_element import *  # noqa: F403

    def device_function(function: _F) -> _F:
        """The simulator runs kernels as Python."""
        return function

else:
    from numba.cuda.extending import register_jitable

    from ._leaf_cuda import *  # noqa: F403
    from ._leaf_cuda_combine import *  # noqa: F403
    from ._leaf_cuda_copy import *  # noqa: F403
    from ._leaf_cuda_element import *  # noqa: F403
    from ._leaf_cuda_message import *  # noqa: F403

    def device_function(function: _F) -> _F:
        """Callable from kernels; compiled, and inlined, for the types of each call."""
        jitted: _F = register_jitable(function)
        return jitted


def scopes(make: Callable[..., Any], grid: bool = False) -> tuple[Callable[..., Any], ...]:
    """``make`` instantiated for a thread, a warp, a block and, if asked, a grid: its public names.

    ``make(scope)`` returns the body; the names are that of the body, with ``_warp``,
    ``_work_group`` and ``_grid`` appended.
    """
    from ._groups import GRID, SCOPES

    functions = []
    for scope in (*SCOPES, GRID) if grid else SCOPES:
        body = make(scope)
        base = body.__name__
        body.__name__ = body.__qualname__ = base + scope.suffix
        body.__module__ = "pyshmem.device"
        if body.__doc__:
            body.__doc__ = body.__doc__.rstrip() + f"\n\n    Scope: {scope.help}\n    "
        functions.append(device_function(body))
    return tuple(functions)


def named(body: Callable[..., Any], name: str, **words: str) -> Callable[..., Any]:
    """``body`` as ``name``, with ``{name}`` and other words filled into its docstring."""
    body.__name__ = name
    body.__doc__ = (body.__doc__ or "").format(name=name, **words)
    return body


def check_simulator_choice(device: str) -> None:
    """Raises when numba was imported for the other accelerator than the job runs on."""
    if device == "sim" and not SIM:
        raise ImportError(
            "the job runs on the simulator, but numba was imported without it: import pyshmem "
            "before numba, start the script with 'python -m pyshmem run --device sim', or set "
            "NUMBA_ENABLE_CUDASIM=1"
        )
    if device == "cuda" and SIM:
        raise ImportError(
            "the job runs on a GPU, but numba was imported with its simulator: "
            "unset NUMBA_ENABLE_CUDASIM"
        )
