# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM for Python: symmetric arrays, one-sided operations, on the host and in kernels.

    import pyshmem

    with pyshmem.init() as job:
        box = pyshmem.zeros(1, dtype=int)
        pyshmem.p(box, job.my_pe, (job.my_pe + 1) % job.n_pes)
        pyshmem.barrier_all()
        print(box[0])

``python -m pyshmem run -n 4 script.py`` starts it. The same operations for Numba kernels are in
``pyshmem.device``, which is imported separately. Importing pyshmem starts nothing and touches no
GPU; it may set ``NUMBA_ENABLE_CUDASIM``, see ``_compat.arrange_simulator``.
"""

from . import _compat, _lib
from ._arrays import SymmetricArray
from ._errors import (
    HeapExhausted,
    KernelFault,
    MismatchError,
    NotInitialized,
    PeerDied,
    ShmemError,
    ShmemTimeout,
    UnsupportedError,
)
from ._lib import Cmp, SignalOp, __version__
from .atomics import (
    atomic_add,
    atomic_and,
    atomic_compare_swap,
    atomic_fetch,
    atomic_fetch_add,
    atomic_fetch_and,
    atomic_fetch_inc,
    atomic_fetch_or,
    atomic_fetch_xor,
    atomic_inc,
    atomic_or,
    atomic_set,
    atomic_swap,
    atomic_xor,
)
from .collectives import (
    and_reduce,
    broadcast,
    fcollect,
    max_reduce,
    min_reduce,
    or_reduce,
    prod_reduce,
    sum_reduce,
    xor_reduce,
)
from .contexts import CTX_DEFAULT, Context
from .heap import (
    HeapInfo,
    arange,
    array,
    drain,
    empty,
    empty_like,
    free,
    full,
    full_like,
    heap_info,
    new_signal,
    ones,
    ones_like,
    ptr,
    to_numpy,
    zeros,
    zeros_like,
)
from .ordering import fence, quiet
from .rma import g, get, get_nbi, p, put, put_nbi
from .runtime import (
    Job,
    abort,
    choose_device,
    finalize,
    global_exit,
    init,
    initialized,
    my_pe,
    n_pes,
)
from .signals import (
    SIGNAL_ADD,
    SIGNAL_SET,
    put_signal,
    put_signal_nbi,
    signal_add,
    signal_fetch,
    signal_op,
    signal_set,
    signal_wait_until,
)
from .sync import (
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    barrier_all,
    sync_all,
    test,
    wait_until,
)
from .teams import TEAM_WORLD, Team

__all__ = [
    "CMP_EQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT", "CMP_NE", "CTX_DEFAULT", "SIGNAL_ADD",
    "SIGNAL_SET", "TEAM_WORLD", "Cmp", "Context", "HeapExhausted", "HeapInfo", "Job",
    "KernelFault", "MismatchError", "NotInitialized", "PeerDied", "ShmemError", "ShmemTimeout",
    "SignalOp", "SymmetricArray", "Team", "UnsupportedError", "__version__", "abort",
    "and_reduce", "arange", "array", "atomic_add", "atomic_and", "atomic_compare_swap",
    "atomic_fetch", "atomic_fetch_add", "atomic_fetch_and", "atomic_fetch_inc",
    "atomic_fetch_or", "atomic_fetch_xor", "atomic_inc", "atomic_or", "atomic_set",
    "atomic_swap", "atomic_xor", "barrier_all", "broadcast", "choose_device", "drain", "empty",
    "empty_like", "fcollect", "fence", "finalize", "free", "full", "full_like", "g", "get",
    "get_nbi", "global_exit", "heap_info", "init", "initialized", "max_reduce", "min_reduce",
    "my_pe", "n_pes", "new_signal", "ones", "ones_like", "or_reduce", "p", "prod_reduce", "ptr",
    "put", "put_nbi", "put_signal", "put_signal_nbi", "quiet", "signal_add", "signal_fetch",
    "signal_op", "signal_set", "signal_wait_until", "sum_reduce", "sync_all", "test",
    "to_numpy", "wait_until", "xor_reduce", "zeros", "zeros_like",
]  # fmt: skip

_compat.arrange_simulator(_lib.setting("DEVICE")[0])
