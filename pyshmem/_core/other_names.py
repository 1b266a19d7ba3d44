# SPDX-License-Identifier: BSD-3-Clause
"""Names of other libraries, MPI, NCCL and torch.distributed, and what does the same here.

Without it Python guesses by letters: it takes ``allreduce`` for ``and_reduce``, bitwise and.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from opcode import opmap
from typing import NoReturn

from .errors import UnsupportedError

_RANKS = (
    "rank",
    "Get_rank",
    "get_rank",
    "local_rank",
    "my_rank",
    "Comm_rank",
    "comm_rank",
    "rank_id",
    "me",
    "mype",
    "pe",
)
_SIZES = (
    "size",
    "Get_size",
    "get_size",
    "world_size",
    "get_world_size",
    "npes",
    "num_pes",
    "nranks",
    "num_ranks",
    "n_ranks",
    "nprocs",
    "Comm_size",
    "comm_size",
)
_DEVICE = "it is imported by itself: from pyshmem import "

#: What does the same, and the names that others have for it.
_INSTEAD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the sum over all PEs is pyshmem.sum_reduce(dest, source); there are max_, min_ and others too",
     ("allreduce", "Allreduce", "all_reduce", "AllReduce", "reduce", "Reduce", "sum", "sum_to_all",
      "allreduce_sum", "sum_all", "SUM")),
    ("pyshmem.max_reduce(dest, source)", ("max", "MAX", "maximum", "allreduce_max", "max_all")),
    ("pyshmem.min_reduce(dest, source)", ("min", "MIN", "minimum", "allreduce_min", "min_all")),
    ("pyshmem.prod_reduce(dest, source)", ("prod", "PROD", "product", "allreduce_prod")),
    ("pyshmem.sum_reduce_scatter(dest, source); there are max_, min_ and others too",
     ("reduce_scatter", "Reduce_scatter", "ReduceScatter")),
    ("pyshmem.broadcast(dest, source, root)", ("bcast", "Bcast", "broadcast64")),
    ("pyshmem.barrier_all(), or team.sync() for a team", ("barrier", "Barrier")),
    ("pyshmem.sync_all(), or team.sync() for a team", ("sync",)),
    ("one side is enough: pyshmem.put(dest, source, pe), or put_signal, for which the other waits",
     ("send", "Send", "isend", "Isend", "putmem", "Sendrecv", "sendrecv")),
    ("pyshmem.put_nbi(dest, source, pe), which pyshmem.quiet() completes",
     ("put_nb", "put_async", "nb_put", "Rput")),
    ("pyshmem.get_nbi(dest, source, pe), which pyshmem.quiet() completes",
     ("get_nb", "get_async", "nb_get", "Rget")),
    ("pyshmem.put_signal_nbi(dest, source, sig_addr, signal, pyshmem.SIGNAL_SET, pe)",
     ("put_signal_nb", "put_signal_async")),
    ("strided copies are complete on return: pyshmem.iput(dest, source, pe, dst=2), iget",
     ("iput_nbi", "iget_nbi", "iput_nb", "iget_nb", "strided_put", "strided_get")),
    ("one side is enough: pyshmem.get(dest, source, pe), or signal_wait_until after a put_signal",
     ("recv", "Recv", "irecv", "Irecv", "getmem")),
    ("pyshmem.fcollect(dest, source), or collect where PEs give different numbers of elements",
     ("allgather", "Allgather", "all_gather", "AllGather", "gather", "Gather")),
    ("pyshmem.alltoall(dest, source), or alltoalls for elements at a distance",
     ("Alltoall", "all_to_all", "AllToAll")),
    ("each PE gets its part: pyshmem.get(part, whole[me * n : (me + 1) * n], root), of n elements each, "
     "after a barrier_all",
     ("scatter", "Scatter")),
    ("pyshmem.sum_inscan(dest, source), with this PE's part, and sum_exscan, without it",
     ("scan", "Scan", "exscan", "Exscan", "prefix_sum")),
    ("pyshmem.atomic_fetch_add(dest, value, pe), and its like",
     ("fetch_add", "fadd", "atomic_fadd", "accumulate", "Accumulate", "fetch_and_op")),
    ("pyshmem.atomic_compare_swap(dest, cond, value, pe)",
     ("cas", "cswap", "compare_swap", "atomic_cas", "atomic_cswap", "compare_and_swap")),
    ("pyshmem.atomic_add(dest, -value, pe)", ("atomic_sub", "atomic_fetch_sub", "atomic_dec")),
    ("pyshmem.atomic_swap(dest, value, pe)",
     ("swap", "exchange", "exch", "atomic_exch", "atomic_exchange", "atomic_xchg")),
    ("pyshmem.atomic_compare_swap(dest, cond, value, pe), again until it has found cond",
     ("atomic_max", "atomic_min", "atomic_fetch_max", "atomic_fetch_min")),
    ("pyshmem.signal_wait_until(sig_addr, pyshmem.CMP_GE, value)",
     ("signal_wait", "wait_signal", "signal_wait_any", "wait_until_signal")),
    ("pyshmem.put_signal(dest, source, sig_addr, signal, pyshmem.SIGNAL_SET, pe)",
     ("notify", "signal", "put_with_signal", "putmem_signal")),
    ("pyshmem.CMP_EQ", ("EQ", "CMP_EQUAL")),
    ("pyshmem.CMP_NE", ("NE", "CMP_NEQ", "CMP_NOT_EQ", "CMP_NOT_EQUAL")),
    ("pyshmem.CMP_GT", ("GT", "CMP_GREATER")),
    ("pyshmem.CMP_GE", ("GE", "CMP_GEQ", "CMP_GTE", "CMP_GREATER_EQUAL")),
    ("pyshmem.CMP_LT", ("LT", "CMP_LESS")),
    ("pyshmem.CMP_LE", ("LE", "CMP_LEQ", "CMP_LTE", "CMP_LESS_EQUAL")),
    ("pyshmem.SIGNAL_ADD", ("SIGNAL_SUM", "SIGNAL_INC", "SIG_ADD")),
    ("pyshmem.SIGNAL_SET", ("SIGNAL_WRITE", "SIGNAL_STORE", "SIG_SET")),
    ("pyshmem.CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT and CMP_LE", ("ComparisonType", "CMP", "cmp")),
    ("an array of NumPy's becomes symmetric by pyshmem.array(np.linspace(0, 1, 4))",
     ("asarray", "ascontiguousarray", "linspace", "eye", "identity", "rand", "randn", "random",
      "concatenate", "stack", "copy", "from_numpy", "tensor", "symmetric_array")),
    ("a dtype is NumPy's, np.float32, or its name, as \"bfloat16\"",
     ("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
      "uint16", "uint32", "uint64", "complex64", "complex128")),
    ("the time is Python's: time.perf_counter()", ("Wtime", "wtime", "perf_counter")),
    ("pyshmem.Context() makes one, of a team team.create_ctx()",
     ("create_context", "create_ctx", "ctx_create", "ctx", "context")),
    ("a team is asked: team.my_pe() and team.n_pes(), as pyshmem.TEAM_NODE.my_pe()",
     ("team_my_pe", "team_n_pes", "team_rank", "team_size")),
    ("pyshmem.to_numpy(array) copies an array to the host", ("asnumpy", "copy_to_host", "to_host")),
    ("pyshmem.streams.Stream() makes a stream; stream= takes one of CuPy, torch and Numba too",
     ("Stream", "stream", "NvshmemStream")),
    ("python -m pyshmem run -n 4 program.py, or pyshmem.launch(function, 4) from Python",
     ("run", "spawn", "start", "mpirun")),
    ("pyshmem.TEAM_WORLD.split(color, key), split_strided or split_2d",
     ("split", "Split", "comm_split", "team_split", "team_split_strided", "team_split_2d")),
    ("pyshmem.Team.from_pes([0, 2])", ("new_group", "group", "Group")),
    ("memory that others reach is an array of pyshmem.zeros, empty, array and the like",
     ("malloc", "alloc", "Win", "window", "symmetric", "buffer", "bytetensor", "calloc", "align",
      "win_allocate", "Win_allocate", "symmetric_zeros", "symm_mem", "device_array")),
    ("pyshmem.ptr(array, pe) is a peer's array, where loads and stores reach it",
     ("get_peer_array", "get_peer_tensor", "get_peer_buffer", "peer")),
    ("pyshmem.free(array)", ("free_array", "free_tensor", "del_array")),
    ("pyshmem.Lock() makes a lock, pyshmem.new_signal() a signal",
     ("new_lock", "del_lock", "new_signals", "del_signal")),
    ("calls need no group: begin with *_nbi routines and complete them all by pyshmem.quiet()",
     ("group_start", "group_end", "GroupStart", "GroupEnd")),
    ("PEs find each other: python -m pyshmem run -n 4 program.py, then pyshmem.init()",
     ("get_unique_id", "get_uniqueid", "UniqueID", "GetUniqueId", "Communicator", "CommInitRank",
      "init_attr", "NcclCommunicator", "create_communicator")),
    ("pyshmem.init(thread_level=pyshmem.THREAD_MULTIPLE)", ("init_thread", "Init_thread")),
    ("the package has its routines itself: import pyshmem as shmem",
     ("shmem", "core", "nvshmem", "rma")),
    ("a request of a collective has wait() and test(); pyshmem.quiet() waits for puts and gets",
     ("wait", "Wait", "waitall", "Waitall", "synchronize")),
    ("pyshmem.quiet()", ("flush", "Flush", "flush_all", "Flush_all", "flush_local")),
    ("pyshmem.TEAM_WORLD", ("COMM_WORLD", "comm_world", "world", "WORLD", "Teams")),
    ("pyshmem.init()", ("Init", "initialize", "init_process_group")),
    ("pyshmem.finalize()", ("Finalize", "finalise", "destroy_process_group")),
    ("pyshmem.initialized()", ("is_initialized", "Is_initialized", "init_status", "is_finalized")),
    ("pyshmem.abort(code, message)", ("Abort", "exit")),
)  # fmt: skip

#: What C's and NVSHMEM's names have before and behind the routine's: library, type, size.
_LIBRARY = re.compile(r"^(?:n?v?i?shmemx?_|roc_?shmem_|MPI_|MPIX_|nccl(?=[A-Z]))")
_CONSTANT = re.compile(r"^(?:[A-Z]*SHMEM[IX]?_|NVSHMEMI_AMO_)(?:AMO_)?")
_TYPE = re.compile(
    r"^(?:char|schar|short|int|long|longlong|uchar|ushort|uint|ulong|ulonglong|float|double|longdouble|half"
    r"|bfloat16|complexf|complexd|ptrdiff|size|u?int(?:8|16|32|64))_"
)
_SIZE = re.compile(r"(?<=put|get)_?(?:mem|8|16|32|64|128)(?=$|_)|(?<=[a-z])mem$")

#: Of the job that ``init`` returns: routines are the package's.
OF_JOB = {
    name: f"it is a routine of the package: {text}" for text, names in _INSTEAD for name in names
}
for _name in ("barrier_all", "sync_all", "put", "get", "zeros", "abort", "broadcast", "sum_reduce"):
    OF_JOB[_name] = f"it is a routine of the package: pyshmem.{_name}"
OF_JOB |= dict.fromkeys(_RANKS, "the number of this PE is job.my_pe")
OF_JOB |= dict.fromkeys(_SIZES, "the number of PEs is job.n_pes")

#: Of ``pyshmem``.
OF_PACKAGE = {name: text for text, names in _INSTEAD for name in names}
OF_PACKAGE |= dict.fromkeys(_RANKS, "the number of this PE is pyshmem.my_pe(), or job.my_pe")
OF_PACKAGE |= dict.fromkeys(_SIZES, "the number of PEs is pyshmem.n_pes(), or job.n_pes")
for _name in ("device", "triton", "gluon", "fused", "typing", "interop"):
    OF_PACKAGE[_name] = _DEVICE + _name


#: Of a team: collectives are the package's.
OF_TEAM = {
    name: f"it is a routine of the package, with team=: {text}"
    for text, names in _INSTEAD
    for name in names
}
for _name in (
    "broadcast",
    "sum_reduce",
    "max_reduce",
    "min_reduce",
    "fcollect",
    "collect",
    "alltoall",
):
    OF_TEAM[_name] = (
        f"it is a routine of the package: pyshmem.{_name}(dest, source, ..., team=team)"
    )
OF_TEAM |= dict.fromkeys(_RANKS, "the number of this PE in it is team.my_pe()")
OF_TEAM |= dict.fromkeys(_SIZES, "the number of its PEs is team.n_pes()")
OF_TEAM |= dict.fromkeys(("barrier", "Barrier", "barrier_all", "sync_all"), "team.sync()")
OF_TEAM |= dict.fromkeys(("free", "Free", "close"), "team.destroy()")

#: Of an array on a symmetric heap, which is NumPy's else: routines are the package's.
OF_ARRAY = {
    name: text if text.startswith("one side") else f"routines are the package's: {text}"
    for text, names in _INSTEAD
    for name in names
}
OF_ARRAY |= dict.fromkeys(
    ("put_nbi", "put_signal", "iput"), "it is a routine of the package: pyshmem.put, get, ..."
)
OF_ARRAY["get"] = (
    "from another PE it is pyshmem.get(dest, source, pe), to the host pyshmem.to_numpy(array)"
)
OF_ARRAY |= dict.fromkeys(
    ("asnumpy", "copy_to_host", "to_host"), "pyshmem.to_numpy(array) copies it to the host"
)
OF_ARRAY |= dict.fromkeys(
    ("append", "extend", "insert", "pop", "remove"),
    "an array keeps its size; pyshmem.realloc(array, shape) makes one of another",
)
OF_ARRAY |= dict.fromkeys(("free", "destroy", "close"), "pyshmem.free(array)")
OF_ARRAY |= dict.fromkeys(
    ("cuda", "cpu", "numpy", "to"),
    'it is NumPy\'s; pyshmem.to_numpy(array) copies, heap="device" makes arrays for GPUs, '
    "torch.from_numpy(array) is a tensor of the same memory",
)

_TORCHS = (
    "torch.distributed does it, in a group of pyshmem.interop.torch.init_process_group(); in graphs "
    "torch.ops.pyshmem.all_reduce_(tensor, op) and the like"
)


def _by_name(*rows: tuple[str, str]) -> dict[str, str]:
    """What does the same, by the names that others have for it."""
    return {name: told for told, names in rows for name in names.split()}


#: Of ``pyshmem.fused``: whole operations, by the names of other libraries'.
OF_FUSED = _by_name(
    (_TORCHS, "allreduce all_reduce sum_reduce reduce_scatter allgather all_gather broadcast barrier"),
    ("it is pyshmem.fused.all_reduce_rmsnorm",
     "rmsnorm rms_norm allreduce_rmsnorm fused_add_rms_norm allreduce_fusion trtllm_allreduce_fusion"),
    ("it is pyshmem.fused.all_gather_matmul",
     "allgather_gemm all_gather_gemm ag_gemm fused_all_gather_matmul allgather_matmul"),
    ("it is pyshmem.fused.matmul_reduce_scatter",
     "gemm_reduce_scatter gemm_rs fused_matmul_reduce_scatter matmul_reducescatter"),
    ("it is pyshmem.fused.matmul_all_reduce",
     "gemm_allreduce gemm_all_reduce gemm_ar matmul_allreduce"),
    ("it is pyshmem.fused.expert_dispatch, with expert_combine",
     "dispatch low_latency_dispatch expert_parallel ep_dispatch"),
    ("it is pyshmem.fused.expert_combine", "combine low_latency_combine ep_combine"),
    ("it is pyshmem.fused.all_to_all", "alltoall all_to_all_single all_to_all_vdev"),
    ("it is pyshmem.fused.flash_decode",
     "attention flash_attention flash_attn flash_decoding paged_attention decode"),
    ("it is pyshmem.fused.ulysses_to_heads, and ulysses_to_sequence", "sequence_parallel"),
    ("it is pyshmem.fused.group_matmul, for experts", "gemm grouped_gemm group_gemm"),
)  # fmt: skip

#: Of ``pyshmem.interop.torch``.
OF_TORCH = _by_name(
    (_TORCHS,
     "allreduce all_reduce allgather all_gather reduce_scatter broadcast barrier send recv get_rank "
     "get_world_size rank world_size new_group all_to_all alltoall"),
    ("a tensor on the device heap is pyshmem.interop.torch.empty(shape, dtype)",
     "symmetric_empty alloc malloc bytetensor create_tensor"),
    ("it is pyshmem.interop.torch.init_process_group()",
     "init initialize init_nvshmem_by_torch_process_group"),
    ("it is torch.distributed.destroy_process_group()", "finalize destroy destroy_process_group"),
    ("it is a routine of the package, which takes tensors: import pyshmem",
     "put get put_signal quiet fence"),
    ("it is of torch.distributed._symmetric_memory, whose memory is of pyshmem's heap after "
     "pyshmem.interop.torch.use_symmetric_memory()",
     "rendezvous symm_mem enable_symm_mem_for_group is_symm_mem_enabled_for_group "
     "set_backend get_symm_mem_workspace"),
    ("pyshmem.interop.torch.pool() makes torch's own tensors symmetric",
     "get_mem_pool mem_pool MemPool use_mem_pool"),
)  # fmt: skip

_GROUPS_OF_GRIDS = (
    "routines of a whole grid are the collectives, sum_reduce_grid and its like; a barrier of all PEs' "
    "grids is team_sync_grid(TEAM_WORLD), behind a quiet() of who has put"
)
_HOSTS = "arrays are made on the host, by pyshmem.zeros, and given to the kernel"
_WAITS = "signal_wait_until(sig_addr, CMP_GE, value{}) waits for a signal, quiet({}) for own puts"
_ON_TRITON = "the compiler's are in triton and triton.language: @triton.jit, tl.arange"

#: Of the packages for kernels, before what they have of ``OF_PACKAGE``.
OF_KERNELS = {
    "pyshmem.device": _by_name(
        (_GROUPS_OF_GRIDS, "barrier_all_grid sync_all_grid barrier_grid sync_grid quiet_grid "
         "put_grid get_grid put_signal_grid fence_grid"),
        ("numba.cuda has it: from numba import cuda, then cuda.syncthreads()",
         "syncthreads syncwarp threadfence threadIdx blockIdx blockDim gridDim grid gridsize shared"),
        (_WAITS.format("", ""), "wait Wait wait_all"),
        ("signal_set(sig_addr, value, pe) and signal_add tell a PE alone, put_signal with data",
         "notify signal set_signal"),
        (_HOSTS, "zeros empty ones full array zeros_like new_signal"),
    ),
    "pyshmem.triton": _by_name(
        (_WAITS.format(", ctx", "ctx"), "wait Wait wait_all wait_signal consume_token"),
        ("signal_op(sig_addr, value, SIGNAL_SET, pe, ctx) tells a PE alone, put_signal with data",
         "notify signal set_signal signal_set signal_add"),
        ("ptr(pointer, pe, ctx) is the same place on a peer", "remote_ptr symm_at remote translate"),
        (_ON_TRITON, "jit autotune arange program_id constexpr zeros full where dot"),
        ("Triton-distributed's are in pyshmem.interop.triton_dist.language", "dl dist_language"),
        (_HOSTS, "empty ones array zeros_like new_signal"),
    ),
}  # fmt: skip

#: Of what stands for something of the library, by its class.
OF_HANDLES = {
    "lock": _by_name(
        ("`with lock:` holds it; set() waits for it, clear() gives it back",
         "acquire lock hold set_lock"),
        ("lock.clear(), or the end of `with lock:`", "release unlock clear_lock"),
        ("lock.test() takes it if nobody has it", "try_lock tryLock locked test_lock try_acquire"),
    ),
    "context": _by_name(
        ("context.quiet()", "flush wait synchronize sync complete"),
        ("context.destroy(), or the end of `with context:`", "close free delete"),
    ),
    "request": _by_name(
        ("request.wait()", "Wait result get join synchronize wait_all quiet"),
        ("request.test()", "Test done ready is_completed completed query poll"),
        ("for request in requests: request.wait()",
         "waitall Waitall wait_any waitany Waitany waitsome Waitsome Wait_all"),
        ("all(request.test() for request in requests)",
         "testall Testall test_all testany Testany testsome Testsome"),
    ),
    "stream": _by_name(
        ("stream.synchronize()", "wait sync quiet finish synchronise"),
        ("its cudaStream_t is stream.__cuda_stream__()[1]; CuPy and torch take the stream itself",
         "ptr cuda_stream handle raw"),
        ("`with stream.capture() as graph:`", "begin_capture end_capture graph"),
        ("an event of CuPy or torch, or a signal that another stream waits for",
         "record record_event wait_event wait_stream"),
    ),
    "graph": _by_name(
        ("graph.replay(stream)", "launch run play exec execute instantiate upload"),
        ("`with stream.capture() as graph:` makes one",
         "capture begin_capture capture_begin end_capture"),
    ),
}  # fmt: skip

_SCOPES = {"block": "work_group", "warp": "warp", "wave": "warp", "wg": "work_group"}


def not_in_package(name: str) -> NoReturn:
    """Raises the error of a name that ``pyshmem`` does not have."""
    raise no_attribute("module pyshmem", name, OF_PACKAGE | _as_in_c(name, "pyshmem"))


def not_in_handle(kind: str, name: str) -> AttributeError:
    """The error of a name that an object of the library, a lock or a context, does not have."""
    table = OF_HANDLES.get(kind, {})
    package = sys.modules["pyshmem"]
    if kind == "context" and name not in table and name in package.__all__:
        table = {name: f"routines are the package's, with ctx=: pyshmem.{name}(..., ctx=context)"}
    return no_attribute(f"the {kind}", name, table)


def not_in_class(kind: str, name: str) -> AttributeError:
    """The same of a name that its class does not have: of objects, or of several of them."""
    return no_attribute(f"class {kind}", name, OF_HANDLES.get(kind.lower(), {}))


def not_in_kernels(package: str) -> Callable[[str], NoReturn]:
    """A ``__getattr__`` for a package of routines for kernels: the name may be one of NVSHMEM."""

    def __getattr__(name: str) -> NoReturn:
        there = sys.modules[package].__all__
        told = OF_KERNELS.get(package, {})
        if name in told:
            raise no_attribute(f"module {package}", name, told)
        meant = [*_device_names(name, there), _routine_in(OF_PACKAGE.get(_bare(name), ""))]
        meant += [one for one in there if _letters(one) == _letters(name)]
        found = next((one for one in meant if one in there), "")
        raise no_attribute(
            f"module {package}", name, {name: f"it is {package}.{found}"} if found else {}
        )

    return __getattr__


def not_in_operations(package: str, table: dict[str, str]) -> Callable[[str], NoReturn]:
    """A ``__getattr__`` for a package of operations on tensors: the name may be another library's."""

    def __getattr__(name: str) -> NoReturn:
        there = {_letters(one): one for one in sys.modules[package].__all__}
        same = there.get(_letters(name))
        raise no_attribute(
            f"module {package}", name, {name: f"it is {package}.{same}"} if same else table
        )

    return __getattr__


#: Raises the error of a name that ``pyshmem.device`` does not have.
not_in_device = not_in_kernels("pyshmem.device")


def _routine_in(text: str) -> str:
    """The first routine of ``pyshmem`` that a text names."""
    found = re.search(r"pyshmem\.([A-Za-z_]\w*)", text)
    return found[1] if found else ""


def _bare(name: str) -> str:
    """A name of C's without library, type and size: ``put`` of ``shmem_int_put``, ``putmem``."""
    return _SIZE.sub("", _TYPE.sub("", _LIBRARY.sub("", name)))


def _letters(name: str) -> str:
    """What names in other styles share: ``barrierAll``, ``BARRIER_ALL`` and ``barrier_all``."""
    return name.replace("_", "").casefold()


def _as_in_c(name: str, module: str) -> dict[str, str]:
    """What there is of the name of a C routine, of another library's too."""
    bare = _CONSTANT.sub("", name) if name.isupper() else _bare(name)
    if name.isupper() and bare in sys.modules[module].__all__ and bare != name:
        return {name: f"it is {module}.{bare}"}
    if bare == name:
        there = {_letters(one): one for one in sys.modules[module].__all__}
        same = there.get(_letters(name), name)
        return {} if same == name or name in OF_PACKAGE else {name: f"it is {module}.{same}"}
    if bare in sys.modules[module].__all__:
        return {name: f"it is {module}.{bare}; the arrays' dtype is the type"}
    return {name: OF_PACKAGE[bare]} if bare in OF_PACKAGE else {}


def _device_names(name: str, there: Sequence[str]) -> list[str]:
    """What kernels have for a name: ``put_work_group`` for ``nvshmemx_putmem_block``."""
    bare = _bare(name)
    if name.isupper():
        bare = _CONSTANT.sub("", name)
    first, _, last = bare.rpartition("_")
    scoped = f"{_bare(first)}_{_SCOPES[last]}" if last in _SCOPES else bare
    of_all = f"{_bare(first)}_all_{_SCOPES[last]}" if last in _SCOPES else bare  # barrier_block
    alone = (
        _bare(first) if last in (*_SCOPES, "all", "thread") else bare
    )  # routines of a whole program
    return [one for one in (scoped, of_all, bare, alone) if one in there and one != name][:1]


def no_attribute(of: str, name: str, table: dict[str, str]) -> AttributeError:
    """The error of a name that ``of`` does not have, with what is meant where that is known."""
    if name not in table:
        return AttributeError(f"{of} has no attribute {name!r}")
    # An object of its own keeps Python from adding a guess by letters.
    return AttributeError(f"{of} has no {name}: {table[name]}", name=name, obj=table)


class _AbsentAttribute(UnsupportedError, AttributeError):
    """``hasattr`` is False."""


class _AbsentImport(UnsupportedError, ImportError):
    """``from module import name`` says why, where an AttributeError would become Python's own text."""


def absent(what: str, instead: str) -> UnsupportedError:
    """The error that a ``__getattr__`` raises for a name of another library that pyshmem leaves out."""
    asking = sys._getframe(2)
    importing = asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]
    return (_AbsentImport if importing else _AbsentAttribute)(
        f"{what} is not in pyshmem: {instead}"
    )


class _LeftOut(MetaPathFinder):
    """Is asked behind all other finders, so for modules that are not there."""

    def __init__(self, package: str, called: str, instead: Mapping[str, str]) -> None:
        self.package, self.called, self.instead = package, called, instead

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        package, _, module = name.rpartition(".")
        if package == self.package and module in self.instead:
            raise _AbsentImport(f"{self.called}.{module} is not in pyshmem: {self.instead[module]}")


def leave_out(package: str, called: str, instead: Mapping[str, str]) -> None:
    """Modules of another library's package that pyshmem leaves out: who imports one is told why.

    Args:
        package: of pyshmem, that has the other's names.
        called: what the other library calls it.
        instead: what there is, by the modules' names.
    """
    sys.meta_path.append(_LeftOut(package, called, instead))
