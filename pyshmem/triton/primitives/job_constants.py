# SPDX-License-Identifier: BSD-3-Clause
"""By which path tiles go: what is known of the job when a kernel is compiled.

Constants of kernels, so that a job whose peers are near has no branch for peers that are not, nor one
for checks that are off. Triton hashes them into the key of a cached kernel.
"""

import triton
import triton.language as tl

from ..._core.values import Choice
from ..runtime import context as job
from .backend import INTERPRETED, device_function

_ALL_P2P, _CHECKS, _STAGED = tl.constexpr(True), tl.constexpr(False), tl.constexpr(False)
#: Address of the running job's state block, for kernels that take no context.
_CONTEXT = tl.constexpr(0)


def _bind(address: int) -> None:
    global _ALL_P2P, _CHECKS, _STAGED, _CONTEXT
    all_p2p, checks, staged = job.settings()
    known = all_p2p, checks or INTERPRETED, staged, address
    _ALL_P2P, _CHECKS, _STAGED, _CONTEXT = map(tl.constexpr, known)


job.on_address(_bind)


@triton.constexpr_function
def all_p2p():
    """Are the device heaps of all PEs reached by loads and stores?"""
    return _ALL_P2P.value


@triton.constexpr_function
def checks():
    """Are the places of tiles checked? In the checking mode (PYSHMEM_CHECK), and by the interpreter."""
    return _CHECKS.value


@triton.constexpr_function
def staged():
    """Is a timeline with kernels being made?"""
    return _STAGED.value


@triton.constexpr_function
def bytes_of(dtype):
    """What an element takes in memory: a truth value a byte."""
    return max(1, dtype.primitive_bitwidth // 8)


@triton.constexpr_function
def is_pointer(pointer):
    """Refuses what is none: arguments that are swapped."""
    dtype = getattr(pointer, "dtype", None)
    if dtype is None or not dtype.is_ptr():
        what = type(pointer).__name__ if dtype is None else dtype
        raise TypeError(f"a pointer, or a tensor of pointers, comes here, not {what}")
    return True


@triton.constexpr_function
def is_whole(pe):
    """Refuses a PE that is a float, as ``/`` makes one, or a signal operation."""
    if isinstance(pe, Choice):
        pe.refuse_as("pe")
    dtype = getattr(pe, "dtype", None)
    if isinstance(pe, float) or (dtype is not None and dtype.is_floating()):
        raise TypeError(
            "pe is a float: divide by //, as / makes one; or it is in the place of what is stored"
        )
    return True


@triton.constexpr_function
def is_mask(mask):
    """Refuses what is none, as by NVSHMEM's order, where a number of elements comes before the PE."""
    dtype = getattr(mask, "dtype", None)
    if not (mask is None or isinstance(mask, bool) or (dtype is not None and dtype.is_int1())):
        raise TypeError(
            f"mask is {type(mask).__name__ if dtype is None else dtype}, not of booleans: behind pe "
            "come ctx and then mask. A tile has as many elements as its pointers, so no number of them "
            "is given: put(dest + offs, source + offs, pe, ctx, mask=offs < n)"
        )
    return True


@triton.constexpr_function
def is_context(ctx):
    """Refuses a number in the place of the context: the PE, where elements were counted before it."""
    dtype = getattr(ctx, "dtype", None)
    number = ctx is None or (isinstance(ctx, int) and ctx < 1 << 16)
    if number or (dtype is not None and not dtype.is_ptr() and dtype.primitive_bitwidth != 64):
        raise TypeError(
            "ctx is not what shmem.context() gave the kernel, but "
            f"{ctx if dtype is None else dtype}: it is the argument behind pe, and no number of "
            "elements is given: put(dest + offs, source + offs, pe, ctx)"
        )
    return True


@triton.constexpr_function
def has_bits(dtype, name):
    """Refuses bitwise operations on floats. Triton compiles some, of their bits, and interprets none."""
    if name in ("and", "or", "xor") and dtype.is_floating():
        raise TypeError(f"atomic_{name} is of integers, not of {dtype}")
    return True


@device_function
def running_job():
    """The context of the running job, for kernels that do not take it."""
    tl.static_assert(_CONTEXT != 0, "no job runs: call pyshmem.init() before the first launch")
    return tl.cast(_CONTEXT, tl.int64)
