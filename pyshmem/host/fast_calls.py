# SPDX-License-Identifier: BSD-3-Clause
"""The short way into the library for the routines that programs call most.

``@fast(family)`` puts a ``Call`` of the extension ``_fast`` before a Python function: with arguments as
they mostly are (arrays from ``pyshmem``, plain numbers) it calls the library at once; everything else,
mistakes included, goes to the Python function, which stays in ``__wrapped__``. The families, and what
they take, are in ``native/python``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from .._core import _fast, other_names
from .._core.arrays import cupy_arrays, tensors
from .._core.arrays.checks import SymmetricArray
from .._core.dtypes import Kind, kind_of
from .._core.library import fail
from .._core.values import Choice, Cmp, SignalOp
from .job import runtime
from .teams.contexts import CTX_DEFAULT, Context
from .teams.team import Team

_F = TypeVar("_F", bound=Callable[..., Any])

#: What stands for a routine that has a short way.
Call: type = _fast.Call

_fast.setup(
    SymmetricArray, np.ndarray, Kind, Context, Team, CTX_DEFAULT, fail,
    np.integer, np.float32, np.float64, Choice, Cmp, SignalOp,
)  # fmt: skip


def _know_gpu_arrays() -> None:
    """Device heaps of GPUs hold CuPy arrays: their class, which is imported by now."""
    if cupy_arrays.on_gpu:
        _fast.know_gpu_arrays(cupy_arrays.array_class(), kind_of)


runtime.on_init(_know_gpu_arrays)
# In checking mode contexts watch sources that are complete, too.
runtime.on_init(lambda: _fast.know_job(runtime.current().checks))


#: A kernel that another library has loaded, with its arguments but the first ones.
LoadedKernel = _fast.Launch
#: What launches depend on of tensors: see ``native/python/tensors.c``.
know_tensors, look = tensors.know, _fast.look
#: The class of streams, with a slot ``handle``: others are asked for theirs by a call.
know_streams = _fast.know_streams


def tell_missing(package: ModuleType) -> None:
    """Who asks ``package`` for a name of another library is told what does the same here.

    A module with ``__getattr__`` would be slower to find what it has: see ``package.c``.
    """
    _fast.tell_missing(package, other_names.not_in_package)


def fast(family: str, op: int = 0) -> Callable[[_F], _F]:
    """Give a routine of ``family`` the short way; ``op`` is its number among those of the family."""

    def decorate(function: _F) -> _F:
        return functools.update_wrapper(Call(function, family, op), function)  # type: ignore[return-value]

    return decorate
