# SPDX-License-Identifier: BSD-3-Clause
"""What ``triton.language`` is to the functions of ``pyshmem.triton``, for kernels of Gluon.

Gluon's own names, and what it has not. Tensors of ours have one element a thread.
"""

from typing import Any

import triton.language as _tl
from triton.experimental.gluon import jit as jit
from triton.experimental.gluon import language as _gl
from triton.experimental.gluon.language import *  # noqa: F403

from .._foreign.gluon import builtin

core = _tl.core
constexpr = _gl.constexpr
broadcast_to = builtin(_tl.core.broadcast_to)
if not hasattr(_gl, "cumsum"):  # before Triton 3.8
    cumsum = jit(_tl.standard.cumsum.fn)


@builtin
def debug_barrier(_semantic: Any = None) -> Any:
    """The barrier of the warps that run the partition."""
    return _semantic.debug_barrier()


@builtin
def arange(
    start: Any, end: Any, layout: Any = None, _semantic: Any = None, _generator: Any = None
) -> Any:
    """``gl.arange`` with one element a thread, of the warps that run the partition."""
    if layout is None:
        warps = _semantic.num_warps(_generator)
        layout = _gl.BlockedLayout([1], [32], [getattr(warps, "value", warps)], [0])
    return _gl.arange(start, end, layout, _semantic=_semantic)


def _atomic(name: str) -> Any:
    """Triton's, of a scalar for all elements too, which Gluon before Triton 3.8 refuses."""
    plain = getattr(_tl.core, name)

    def atomic(
        pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None,
        _semantic: Any = None,
    ) -> Any:  # fmt: skip
        val = _semantic.to_tensor(val)
        if pointer.type.is_block() and not val.type.is_block():
            val = _semantic.cast(val, pointer.type.scalar.element_ty)
            val = _semantic.splat(val, pointer.type.shape, pointer.type.layout)
        return plain(pointer, val, mask=mask, sem=sem, scope=scope, _semantic=_semantic)

    atomic.__name__ = name
    return builtin(atomic)


(
    atomic_add, atomic_and, atomic_or, atomic_xor, atomic_min, atomic_max, atomic_xchg,
) = map(_atomic, ("atomic_add", "atomic_and", "atomic_or", "atomic_xor", "atomic_min", "atomic_max",
                  "atomic_xchg"))  # fmt: skip
