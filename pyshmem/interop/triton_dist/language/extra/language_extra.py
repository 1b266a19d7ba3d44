# SPDX-License-Identifier: BSD-3-Clause
"""What Triton-distributed has of single threads, as far as a program, which is the caller, can use it.

``tid`` may be compared with 0 alone: ``if tid(0) == 0:`` is what the program does, once. Words have 32
or 64 bits; ``scope`` is "gpu" or "sys", ``semantic`` "relaxed", "acquire", "release" or "acq_rel".
"""

import triton.language as tl
from triton.language import core

from .....triton.primitives.backend import (
    INTERPRETED,
    device_function,
    fetch,
    program_barrier,
    threads,
)
from .....triton.tile import before_release, like

__all__ = [
    "__syncthreads", "atomic_add", "atomic_cas", "ld", "ld_acquire", "num_threads", "num_warps", "st",
    "threads_per_warp", "tid",
]  # fmt: skip

_GPU, _RELAXED = tl.constexpr("gpu"), tl.constexpr("relaxed")


class _Thread:
    """The number of the thread that stands for the program."""

    def __repr__(self) -> str:
        return "tid, to be compared with 0 where it is called,"

    def _refuse(self, *_others):
        raise TypeError(
            "tid is 0 for the whole program and may be compared with 0 alone: what each thread does for "
            "itself is done by the lanes of tl.arange"
        )

    def __eq__(self, other):
        return True if type(other) is int and other == 0 else self._refuse()

    def __ne__(self, other):
        return not self == other

    def __add__(self, other):
        return self if isinstance(other, _Thread) else self._refuse()

    __hash__ = object.__hash__
    __lt__ = __le__ = __gt__ = __ge__ = __sub__ = __rsub__ = __radd__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __or__ = __index__ = _refuse


_THREAD = _Thread()

if INTERPRETED:

    def tid(axis):
        """The thread that stands for the program: it equals 0."""
        return _THREAD
else:

    @core.builtin
    def tid(axis, _semantic=None):
        """The thread that stands for the program: it equals 0."""
        return core.constexpr(_THREAD)


@device_function
def __syncthreads():
    """The program's threads meet."""
    program_barrier()


@device_function
def num_threads():
    """Threads of the program."""
    return threads()


@device_function
def threads_per_warp():
    """32."""
    return 32


@device_function
def num_warps():
    """Warps of the program."""
    return threads() // 32


@device_function
def ld(ptr, scope: tl.constexpr = _GPU, semantic: tl.constexpr = _RELAXED):
    """The word at a scalar pointer; an acquire for the system, whatever is asked for."""
    valid: tl.constexpr = semantic == "relaxed" or semantic == "acquire"
    tl.static_assert(valid, 'semantic of ld is "relaxed" or "acquire"')
    return fetch(ptr)


@device_function
def ld_acquire(ptr, scope: tl.constexpr = _GPU):
    """``ld`` with acquire."""
    return fetch(ptr)


@device_function
def st(ptr, val, scope: tl.constexpr = _GPU, semantic: tl.constexpr = _RELAXED):
    """Store a word at a scalar pointer, once; "release" is behind all that the program has stored."""
    valid: tl.constexpr = semantic == "relaxed" or semantic == "release"
    tl.static_assert(valid, 'semantic of st is "relaxed" or "release"')
    before_release(semantic)
    tl.atomic_xchg(ptr, tl.cast(val, ptr.dtype.element_ty), sem=semantic, scope=scope)


@device_function
def atomic_add(ptr, val, scope: tl.constexpr, semantic: tl.constexpr):
    """Add to the word at a scalar pointer, once; what it was."""
    before_release(semantic)
    return tl.atomic_add(ptr, tl.cast(val, ptr.dtype.element_ty), sem=semantic, scope=scope)


@device_function
def atomic_cas(ptr, cmp_val, target_val, scope: tl.constexpr, semantic: tl.constexpr):
    """Replace the word at a scalar pointer if it equals ``cmp_val``, once; what it was."""
    before_release(semantic)
    return tl.atomic_cas(ptr, like(ptr, cmp_val), like(ptr, target_val), sem=semantic, scope=scope)
