# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM inside the kernels of stock Triton, on GPUs and in Triton's interpreter.

    import pyshmem
    import pyshmem.triton as shmem
    import triton, triton.language as tl

    @triton.jit
    def shift(dest, source, sig, ctx, BLOCK: tl.constexpr):
        right = (shmem.my_pe(ctx) + 1) % shmem.n_pes(ctx)
        offs = tl.arange(0, BLOCK)
        shmem.put_signal(dest + offs, source + offs, sig, 1, shmem.SIGNAL_SET, right, ctx)
        shmem.signal_wait_until(sig, shmem.CMP_EQ, 1, ctx)

    shift[(1,)](dest, source, sig, shmem.context(), BLOCK=1024)

Arguments are torch tensors, CuPy arrays, or ``wrap(array)``; the context is the last. Scope is a
program: all its threads call. Import pyshmem before Triton: where there is no GPU it turns Triton's
interpreter on.
"""

from __future__ import annotations

import warnings

try:
    import triton as _triton
except ImportError as _error:
    raise ImportError(
        "pyshmem.triton needs Triton: pip install 'pyshmem-openshmem[triton]'"
    ) from _error

TESTED = ((3, 6), (3, 9))  # the first and the last version of Triton that the tests cover

if not TESTED[0] <= tuple(map(int, _triton.__version__.split(".")[:2])) <= TESTED[1]:
    warnings.warn(
        f"pyshmem.triton is tested with Triton {TESTED[0][0]}.{TESTED[0][1]} to "
        f"{TESTED[1][0]}.{TESTED[1][1]}; this is {_triton.__version__}",
        stacklevel=2,
    )

from .._core import moved as _moved  # noqa: E402
from .._core import other_names as _other_names  # noqa: E402
from .collectives import (  # noqa: E402
    all_reduce,
    all_reduce_grid,
    alltoall,
    broadcast,
    fcollect,
)
from .ll_channels import Channel, channel  # noqa: E402
from .ordering import barrier, barrier_grid, fence, quiet, sync, sync_grid  # noqa: E402
from .requests import abort, call, get_chunk, post, print, put_chunk  # noqa: E402
from .runtime.constants import (  # noqa: E402
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    SIGNAL_ADD,
    SIGNAL_SET,
    TEAM_NODE,
    TEAM_SHARED,
    TEAM_WORLD,
)
from .runtime.context import Context, Wrapped, context, team_number, wrap  # noqa: E402
from .signals import (  # noqa: E402
    put_signal,
    put_signal_nbi,
    signal_fetch,
    signal_op,
    signal_wait_until,
    test,
    wait_until,
    wait_until_all,
    wait_until_any,
)
from .stages import stage, stage_begin, stage_end  # noqa: E402
from .swizzle import (  # noqa: E402
    swizzle_by_pe,
    swizzle_by_pe_last,
    swizzle_straddling_first,
)
from .teams import my_pe, n_pes, team_my_pe, team_n_pes, team_translate_pe  # noqa: E402
from .tile import (  # noqa: E402
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xchg,
    atomic_xor,
    copy,
    get,
    load,
    ptr,
    put,
    store,
)

__all__ = [
    "CMP_EQ",
    "CMP_GE",
    "CMP_GT",
    "CMP_LE",
    "CMP_LT",
    "CMP_NE",
    "SIGNAL_ADD",
    "SIGNAL_SET",
    "TEAM_NODE",
    "TEAM_SHARED",
    "TEAM_WORLD",
    "Channel",
    "Context",
    "Wrapped",
    "abort",
    "all_reduce",
    "all_reduce_grid",
    "alltoall",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xchg",
    "atomic_xor",
    "barrier",
    "barrier_grid",
    "broadcast",
    "call",
    "channel",
    "context",
    "copy",
    "fcollect",
    "fence",
    "get",
    "get_chunk",
    "load",
    "my_pe",
    "n_pes",
    "post",
    "print",
    "ptr",
    "put",
    "put_chunk",
    "put_signal",
    "put_signal_nbi",
    "quiet",
    "signal_fetch",
    "signal_op",
    "signal_wait_until",
    "stage",
    "stage_begin",
    "stage_end",
    "store",
    "swizzle_by_pe",
    "swizzle_by_pe_last",
    "swizzle_straddling_first",
    "sync",
    "sync_grid",
    "team_my_pe",
    "team_n_pes",
    "team_number",
    "team_translate_pe",
    "test",
    "wait_until",
    "wait_until_all",
    "wait_until_any",
    "wrap",
]  # fmt: skip

__getattr__ = _moved.attribute_of(__name__, _other_names.not_in_kernels(__name__))
