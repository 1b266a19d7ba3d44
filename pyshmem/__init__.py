# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM for Python: symmetric arrays, one-sided operations, on the host and in kernels.

    import pyshmem

    with pyshmem.init() as job:
        box = pyshmem.zeros(1, dtype=int)
        pyshmem.p(box, job.my_pe, (job.my_pe + 1) % job.n_pes)
        pyshmem.barrier_all()
        print(box[0])

``python -m pyshmem run -n 4 script.py`` starts it; ``pyshmem.launch`` calls a function on new PEs. The
same operations for Numba kernels are in ``pyshmem.device``, which is imported separately. Importing
pyshmem starts nothing and touches no GPU; without one, Numba takes its simulator when it is imported
later (``_foreign/environment.py``).
"""

import sys as _sys

# `python -m pyshmem` looks into the current folder first, which is the program's and not the launcher's:
# a signal.py there would be taken for Python's own module, and run.
if _sys.argv[:1] == ["-m"] and not _sys.flags.safe_path:
    _words = [*_sys.orig_argv, ""]
    _option = next((n for n, w in enumerate(_words) if w[:1] == "-" and w[-1:] == "m"), -1)
    if _words[_option + 1] == "pyshmem":
        del _sys.path[0]
    del _words, _option

import contextlib as _contextlib
import importlib as _importlib

_is_openshmem = True  # a package of the same name lacks it: _core looks for it

from ._core import other_project as _other_project

_other_project.tell_hidden()  # before numpy is imported
__getattr__ = _other_project.not_there_yet

from ._core import library
from ._core import moved as _moved  # noqa: F401  (finds modules under their old names)
from ._core.arrays.checks import SymmetricArray
from ._core.errors import (
    Failure,
    HeapExhausted,
    KernelFault,
    LaunchError,
    MismatchError,
    NotInitialized,
    PeerDied,
    ShmemError,
    ShmemTimeout,
    UnsupportedError,
)
from ._core.library import ThreadLevel, __version__
from ._core.values import (
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    SIGNAL_ADD,
    SIGNAL_SET,
    Cmp,
    SignalOp,
)
from ._foreign import environment
from .host import fast_calls as _fast_calls
from .host import streams
from .host.atomics import (
    atomic_add,
    atomic_and,
    atomic_compare_swap,
    atomic_compare_swap_nbi,
    atomic_fetch,
    atomic_fetch_add,
    atomic_fetch_add_nbi,
    atomic_fetch_and,
    atomic_fetch_and_nbi,
    atomic_fetch_inc,
    atomic_fetch_inc_nbi,
    atomic_fetch_nbi,
    atomic_fetch_or,
    atomic_fetch_or_nbi,
    atomic_fetch_xor,
    atomic_fetch_xor_nbi,
    atomic_inc,
    atomic_or,
    atomic_set,
    atomic_swap,
    atomic_swap_nbi,
    atomic_xor,
)
from .host.collectives.data_movement import (
    alltoall,
    alltoalls,
    broadcast,
    collect,
    fcollect,
)
from .host.collectives.nonblocking import (
    alltoall_nb,
    alltoalls_nb,
    barrier_nb,
    broadcast_nb,
    collect_nb,
    fcollect_nb,
    sync_nb,
)
from .host.collectives.reductions import (
    and_reduce,
    and_reduce_nb,
    and_reduce_scatter,
    and_reduce_scatter_nb,
    max_reduce,
    max_reduce_nb,
    max_reduce_scatter,
    max_reduce_scatter_nb,
    min_reduce,
    min_reduce_nb,
    min_reduce_scatter,
    min_reduce_scatter_nb,
    or_reduce,
    or_reduce_nb,
    or_reduce_scatter,
    or_reduce_scatter_nb,
    prod_reduce,
    prod_reduce_nb,
    prod_reduce_scatter,
    prod_reduce_scatter_nb,
    sum_reduce,
    sum_reduce_nb,
    sum_reduce_scatter,
    sum_reduce_scatter_nb,
    xor_reduce,
    xor_reduce_nb,
    xor_reduce_scatter,
    xor_reduce_scatter_nb,
)
from .host.collectives.requests import Request
from .host.collectives.scans import sum_exscan, sum_exscan_nb, sum_inscan, sum_inscan_nb
from .host.job import runtime as _runtime
from .host.job.runtime import (
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
from .host.kernels import provider as _provider
from .host.locks import Lock, clear_lock, set_lock, test_lock
from .host.memory.creation import (
    MALLOC_ATOMICS_REMOTE,
    MALLOC_SIGNAL_REMOTE,
    Hint,
    arange,
    array,
    empty,
    empty_like,
    full,
    full_like,
    new_signal,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .host.memory.heap import drain, free, heap_sites, heap_trim, realloc, to_numpy
from .host.memory.registered import Registration, register, unregister
from .host.memory.sites import HeapSite
from .host.messages import Handler, ProxyStats, proxy_stats, register_handler, unregister_handler
from .host.observe import profiling
from .host.observe.profiling import pcontrol
from .host.ordering import fence, pe_quiet, quiet
from .host.query import (
    MAJOR_VERSION,
    MINOR_VERSION,
    THREAD_FUNNELED,
    THREAD_MULTIPLE,
    THREAD_SERIALIZED,
    THREAD_SINGLE,
    HeapInfo,
    addr_accessible,
    heap_info,
    info_get_name,
    info_get_version,
    pe_accessible,
    ptr,
    query_thread,
)
from .host.rma import g, get, get_nbi, p, put, put_nbi
from .host.signals import (
    put_signal,
    put_signal_nbi,
    signal_add,
    signal_fetch,
    signal_op,
    signal_set,
    signal_wait_until,
)
from .host.strided import ibget, ibput, iget, iput
from .host.sync import barrier_all, sync_all
from .host.teams.arguments import TeamConfig
from .host.teams.contexts import (
    CTX_DEFAULT,
    CTX_NOSTORE,
    CTX_PRIVATE,
    CTX_SERIALIZED,
    CTX_SESSION_BATCH,
    CTX_SESSION_SAME_AMO,
    Context,
    CtxOption,
)
from .host.teams.team import TEAM_NODE, TEAM_SHARED, TEAM_WORLD, Channel, Team
from .host.tuning import cutover
from .host.wait_sets import (
    test_all,
    test_all_vector,
    test_any,
    test_any_vector,
    test_some,
    test_some_vector,
    wait_until_all,
    wait_until_all_vector,
    wait_until_any,
    wait_until_any_vector,
    wait_until_some,
    wait_until_some_vector,
)
from .host.waits import test, wait_until
from .launcher.call.launch import launch
from .stream_kernels import provider as _stream_kernels

__all__ = [
    "CMP_EQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT", "CMP_NE", "CTX_DEFAULT", "CTX_NOSTORE",
    "CTX_PRIVATE", "CTX_SERIALIZED", "CTX_SESSION_BATCH", "CTX_SESSION_SAME_AMO",
    "MAJOR_VERSION", "MALLOC_ATOMICS_REMOTE", "MALLOC_SIGNAL_REMOTE", "MINOR_VERSION",
    "SIGNAL_ADD", "SIGNAL_SET", "TEAM_NODE", "TEAM_SHARED", "TEAM_WORLD", "THREAD_FUNNELED",
    "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE", "Channel", "Cmp", "Context",
    "CtxOption", "Failure", "Handler", "HeapExhausted", "HeapInfo", "HeapSite", "Hint", "Job",
    "KernelFault", "LaunchError", "Lock", "MismatchError", "NotInitialized", "PeerDied", "ProxyStats",
    "Registration", "Request", "ShmemError", "ShmemTimeout", "SignalOp", "SymmetricArray", "Team",
    "TeamConfig",
    "ThreadLevel", "UnsupportedError", "__version__", "abort", "addr_accessible", "alltoall",
    "alltoall_nb",
    "alltoalls", "alltoalls_nb", "and_reduce", "and_reduce_nb", "and_reduce_scatter",
    "and_reduce_scatter_nb", "arange", "array", "atomic_add", "atomic_and",
    "atomic_compare_swap", "atomic_compare_swap_nbi", "atomic_fetch", "atomic_fetch_add",
    "atomic_fetch_add_nbi", "atomic_fetch_and", "atomic_fetch_and_nbi", "atomic_fetch_inc",
    "atomic_fetch_inc_nbi", "atomic_fetch_nbi", "atomic_fetch_or", "atomic_fetch_or_nbi",
    "atomic_fetch_xor", "atomic_fetch_xor_nbi", "atomic_inc", "atomic_or", "atomic_set",
    "atomic_swap", "atomic_swap_nbi", "atomic_xor", "barrier_all", "barrier_nb", "broadcast",
    "broadcast_nb", "choose_device", "clear_lock", "collect", "collect_nb", "cutover", "drain",
    "empty", "empty_like", "fcollect", "fcollect_nb", "fence", "finalize", "free", "full",
    "full_like", "g", "get", "get_nbi", "global_exit", "heap_info", "heap_sites", "heap_trim", "ibget",
    "ibput", "iget", "info_get_name", "info_get_version", "init", "initialized", "iput", "launch",
    "max_reduce",
    "max_reduce_nb", "max_reduce_scatter", "max_reduce_scatter_nb", "min_reduce",
    "min_reduce_nb", "min_reduce_scatter", "min_reduce_scatter_nb", "my_pe", "n_pes",
    "new_signal", "ones", "ones_like", "or_reduce", "or_reduce_nb", "or_reduce_scatter",
    "or_reduce_scatter_nb", "p", "pcontrol", "pe_accessible", "pe_quiet", "prod_reduce",
    "prod_reduce_nb", "prod_reduce_scatter", "prod_reduce_scatter_nb", "profiling",
    "proxy_stats", "ptr", "put", "put_nbi", "put_signal", "put_signal_nbi", "query_thread",
    "quiet", "realloc", "register", "register_handler", "set_lock", "signal_add", "signal_fetch",
    "signal_op", "signal_set", "signal_wait_until", "streams", "sum_exscan", "sum_exscan_nb",
    "sum_inscan",    "sum_inscan_nb", "sum_reduce", "sum_reduce_nb", "sum_reduce_scatter",
    "sum_reduce_scatter_nb", "sync_all", "sync_nb", "test", "test_all", "test_all_vector",
    "test_any", "test_any_vector", "test_lock", "test_some", "test_some_vector", "to_numpy",
    "unregister", "unregister_handler", "wait_until", "wait_until_all", "wait_until_all_vector",
    "wait_until_any", "wait_until_any_vector", "wait_until_some", "wait_until_some_vector",
    "xor_reduce", "xor_reduce_nb", "xor_reduce_scatter", "xor_reduce_scatter_nb", "zeros",
    "zeros_like",
]  # fmt: skip

_provider.compiler, _provider.simulate = _stream_kernels.compiler, _stream_kernels.simulate

with _contextlib.suppress(ValueError):  # what is no text is told by init, with the variable
    environment.arrange_simulator(library.setting("DEVICE")[0].lower())
_other_project.warn_of_leftovers(__path__[0])
_runtime.install_excepthook()

if library.checks_order():
    from .check import record as _record

    _record.install(
        lambda: _importlib.import_module(".device", __name__),
        lambda: _importlib.import_module(".interop.torch", __name__),
    )


def _as_on_a_gpu() -> None:
    """Without a GPU kernels have what GPUs have, and no more, also of who imports Numba alone."""
    if "numba.cuda.simulator" in _sys.modules and _runtime.device_name() in ("sim", "cpu"):
        _importlib.import_module(".device", __name__)


_runtime.on_init(_as_on_a_gpu)

del __getattr__
_fast_calls.tell_missing(_sys.modules[__name__])
