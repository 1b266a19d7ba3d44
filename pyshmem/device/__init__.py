# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM inside Numba-CUDA kernels.

Call these functions from ``@cuda.jit`` kernels, on arrays made with ``heap="device"``. The names are
the specification's without ``shmem_``; ``_warp`` and ``_work_group`` forms share the work of one call
among the threads of a warp or a block, all of which make the same call. The same kernels run in
Numba's simulator when there is no GPU.
"""

from . import _modules  # noqa: F401  (fills the state block of kernels as they load)
from ._peers import my_pe, n_pes
from ._wait import CMP_EQ, CMP_GE, CMP_GT, CMP_LE, CMP_LT, CMP_NE
from .arguments import as_argument
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
    barrier_all,
    barrier_all_warp,
    barrier_all_work_group,
    sync_all,
    sync_all_warp,
    sync_all_work_group,
)
from .ordering import fence, fence_warp, fence_work_group, quiet, quiet_warp, quiet_work_group
from .rma import (
    g,
    get,
    get_nbi,
    get_nbi_warp,
    get_nbi_work_group,
    get_warp,
    get_work_group,
    p,
    ptr,
    put,
    put_nbi,
    put_nbi_warp,
    put_nbi_work_group,
    put_warp,
    put_work_group,
)
from .signals import (
    SIGNAL_ADD,
    SIGNAL_SET,
    put_signal,
    put_signal_nbi,
    put_signal_nbi_warp,
    put_signal_nbi_work_group,
    put_signal_warp,
    put_signal_work_group,
    signal_add,
    signal_fetch,
    signal_op,
    signal_set,
    signal_wait_until,
    signal_wait_until_warp,
    signal_wait_until_work_group,
)
from .sync import test, wait_until, wait_until_warp, wait_until_work_group

__all__ = [
    "CMP_EQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT", "CMP_NE", "SIGNAL_ADD", "SIGNAL_SET",
    "as_argument",
    "atomic_add", "atomic_and", "atomic_compare_swap", "atomic_fetch", "atomic_fetch_add",
    "atomic_fetch_and", "atomic_fetch_inc", "atomic_fetch_or", "atomic_fetch_xor", "atomic_inc",
    "atomic_or", "atomic_set", "atomic_swap", "atomic_xor", "barrier_all", "barrier_all_warp",
    "barrier_all_work_group", "fence", "fence_warp", "fence_work_group", "g", "get", "get_nbi",
    "get_nbi_warp", "get_nbi_work_group", "get_warp", "get_work_group", "my_pe", "n_pes", "p",
    "ptr", "put", "put_nbi", "put_nbi_warp", "put_nbi_work_group", "put_signal",
    "put_signal_nbi", "put_signal_nbi_warp", "put_signal_nbi_work_group", "put_signal_warp",
    "put_signal_work_group", "put_warp", "put_work_group", "quiet", "quiet_warp",
    "quiet_work_group", "signal_add", "signal_fetch", "signal_op", "signal_set",
    "signal_wait_until", "signal_wait_until_warp", "signal_wait_until_work_group", "sync_all",
    "sync_all_warp", "sync_all_work_group", "test", "wait_until", "wait_until_warp",
    "wait_until_work_group",
]  # fmt: skip
