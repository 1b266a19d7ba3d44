# SPDX-License-Identifier: BSD-3-Clause
"""Names of other libraries, MPI, NCCL and torch.distributed, and what does the same here.

Without it Python guesses by letters: it takes ``allreduce`` for ``and_reduce``, bitwise and.
"""

from __future__ import annotations

from typing import NoReturn

_RANKS = ("rank", "Get_rank", "get_rank", "local_rank", "me", "mype", "pe")
_SIZES = (
    "size",
    "Get_size",
    "get_size",
    "world_size",
    "get_world_size",
    "npes",
    "num_pes",
    "nranks",
)
_DEVICE = "it is imported by itself: from pyshmem import "

#: What does the same, and the names that others have for it.
_INSTEAD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the sum over all PEs is pyshmem.sum_reduce(dest, source); there are max_, min_ and others too",
     ("allreduce", "Allreduce", "all_reduce", "AllReduce", "reduce", "Reduce", "sum", "sum_to_all")),
    ("pyshmem.sum_reduce_scatter(dest, source); there are max_, min_ and others too",
     ("reduce_scatter", "Reduce_scatter", "ReduceScatter")),
    ("pyshmem.broadcast(dest, source, root)", ("bcast", "Bcast", "broadcast64")),
    ("pyshmem.barrier_all(), or team.sync() for a team", ("barrier", "Barrier")),
    ("pyshmem.sync_all(), or team.sync() for a team", ("sync",)),
    ("one side is enough: pyshmem.put(dest, source, pe), or put_signal, for which the other waits",
     ("send", "Send", "isend", "Isend", "putmem")),
    ("one side is enough: pyshmem.get(dest, source, pe), or signal_wait_until after a put_signal",
     ("recv", "Recv", "irecv", "Irecv", "getmem")),
    ("pyshmem.fcollect(dest, source), or collect where PEs give different numbers of elements",
     ("allgather", "Allgather", "all_gather", "AllGather", "gather", "Gather")),
    ("pyshmem.alltoall(dest, source), or alltoalls for elements at a distance",
     ("Alltoall", "all_to_all", "AllToAll")),
    ("each PE gets its part by pyshmem.get(part, whole, root) after a barrier_all",
     ("scatter", "Scatter")),
    ("pyshmem.sum_inscan(dest, source), with this PE's part, and sum_exscan, without it",
     ("scan", "Scan", "exscan", "Exscan", "prefix_sum")),
    ("pyshmem.atomic_fetch_add(dest, value, pe), and its like",
     ("fetch_add", "fadd", "atomic_fadd", "accumulate", "Accumulate", "fetch_and_op")),
    ("pyshmem.TEAM_WORLD.split(color, key), split_strided or split_2d",
     ("split", "Split", "comm_split")),
    ("pyshmem.Team.from_pes([0, 2])", ("new_group", "group", "Group")),
    ("memory that others reach is an array of pyshmem.zeros, empty, array and the like",
     ("malloc", "alloc", "Win", "window", "symmetric")),
    ("a request of a collective has wait() and test(); pyshmem.quiet() waits for puts and gets",
     ("wait", "Wait", "waitall", "Waitall", "synchronize")),
    ("pyshmem.TEAM_WORLD", ("COMM_WORLD", "comm_world", "world", "WORLD")),
    ("pyshmem.init()", ("Init", "initialize", "init_process_group")),
    ("pyshmem.finalize()", ("Finalize", "finalise", "destroy_process_group")),
    ("pyshmem.abort(code, message)", ("Abort",)),
)  # fmt: skip

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


def not_in_package(name: str) -> NoReturn:
    """Raises the error of a name that ``pyshmem`` does not have."""
    raise no_attribute("module pyshmem", name, OF_PACKAGE)


def no_attribute(of: str, name: str, table: dict[str, str]) -> AttributeError:
    """The error of a name that ``of`` does not have, with what is meant where that is known."""
    if name not in table:
        return AttributeError(f"{of} has no attribute {name!r}")
    # An object of its own keeps Python from adding a guess by letters.
    return AttributeError(f"{of} has no {name}: {table[name]}", name=name, obj=table)
