# SPDX-License-Identifier: BSD-3-Clause
"""Which CPUs a PE may use, and how many threads the libraries in it start.

The default spreads PEs over NUMA nodes, a PE with a GPU to the node of its GPU. ``run`` goes on to cores
of its own for each PE where it has at least two: a PE has threads beside its own (the proxy, a copy
engine's), which spin badly on one core. A launcher that is bound itself goes no finer than nodes; one
that may use one node only, or has fewer CPUs than PEs, leaves its PEs unbound.
(docs/decisions/0017-binding.md)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .._core.errors import LaunchError
from ..host.job import runtime
from ..host.tuning import gpus

BINDINGS = ("core", "numa", "gpu", "none")

#: How libraries learn how many threads to start; the first speaks for the others where it is set.
_THREADS = (
    "OMP_NUM_THREADS",
    *("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"),
)

_SYSTEM = Path("/sys")

#: Cores that a PE has at least where ``run`` binds it without being asked to.
_ENOUGH = 2


class Share(NamedTuple):
    """What a PE has of the machine."""

    cpus: frozenset[int] | None  #: None: those of the launcher
    threads: int  #: what it can use when the others do as much

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The numbers of threads that ``environment`` does not say yet."""
        if _THREADS[0] in environment:
            return {}
        return {name: str(self.threads) for name in _THREADS if name not in environment}


@contextlib.contextmanager
def bound(share: Share | None) -> Iterator[None]:
    """Processes that this thread starts inside ``with`` have the CPUs of ``share``."""
    if share is None or share.cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, share.cpus)
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpus_together(found: Sequence[Share]) -> int:
    """The CPUs of PEs that are bound; 0: they are not."""
    empty: frozenset[int] = frozenset()
    return len(empty.union(*(share.cpus or empty for share in found)))


def shares(n_pes: int, bind: str | None, device: str, *, finer: bool = False) -> list[Share]:
    """The share of each PE of a job on this host.

    Args:
        n_pes: number of PEs.
        bind: ``"core"`` (its own cores), ``"numa"`` (a NUMA node), ``"gpu"`` (the node of its GPU),
            ``"none"``, or None: the default above.
        device: the accelerator of the job.
        finer: whether the default goes on to cores.

    Raises: LaunchError (not so many cores, no GPU, its node is unknown), ValueError (bind).
    """
    allowed = frozenset(os.sched_getaffinity(0))
    found = _cpus(n_pes, bind, device, allowed)
    if finer and bind is None and n_pes > 1 and allowed == _list_in("devices/system/cpu/online"):
        found = _within(found or [allowed] * n_pes) or found
    if found is None:
        return [Share(None, max(1, len(allowed) // n_pes))] * n_pes
    return [Share(cpus, max(1, len(cpus) // found.count(cpus))) for cpus in found]


def _cpus(
    n_pes: int, bind: str | None, device: str, allowed: frozenset[int]
) -> list[frozenset[int]] | None:
    """The CPUs of each PE; None: nobody is bound."""
    if bind == "none":
        return None
    if bind == "core":
        return _by_core(n_pes, cores(allowed))
    nodes = numa_nodes(allowed)
    if bind == "numa":
        return _spread(n_pes, nodes)
    if bind == "gpu":
        return _by_gpu(n_pes, allowed, strict=True)
    if bind is not None:
        raise ValueError(f"bind is {bind!r}; give {', '.join(map(repr, BINDINGS))} or None")
    if len(nodes) < 2 or n_pes > len(allowed):
        return None
    return _by_gpu(n_pes, allowed, strict=False) if device == "cuda" else _spread(n_pes, nodes)


def _by_core(n_pes: int, found: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    if n_pes > len(found):
        raise LaunchError(
            f"--bind core: {n_pes} PEs, but {len(found)} core(s) to use here; --bind none lets PEs share"
        )
    each = len(found) // n_pes
    empty: frozenset[int] = frozenset()
    return [empty.union(*found[pe * each : (pe + 1) * each]) for pe in range(n_pes)]


def _spread(n_pes: int, nodes: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Neighbouring PEs share a node; each node has as many, give or take one."""
    return [nodes[pe * len(nodes) // n_pes] for pe in range(n_pes)]


def _within(found: Sequence[frozenset[int]]) -> list[frozenset[int]] | None:
    """Cores of its own for each PE, out of those that it shares with others; None: they are too few."""
    taken = dict.fromkeys(found, 0)
    parts = []
    for cpus in found:
        own, each = cores(cpus), len(cores(cpus)) // found.count(cpus)
        if each < _ENOUGH:
            return None
        begin, taken[cpus] = taken[cpus], taken[cpus] + each
        parts.append(frozenset[int]().union(*own[begin : begin + each]))
    return parts


def _by_gpu(n_pes: int, allowed: frozenset[int], *, strict: bool) -> list[frozenset[int]] | None:
    near = [allowed & cpus for cpus in gpu_cpus()]
    if near and all(near):
        return [near[pe % len(near)] for pe in range(n_pes)]
    if strict:
        raise LaunchError(
            "--bind gpu: "
            + (
                "this machine does not tell its GPUs' NUMA nodes"
                if near
                else "no GPU is visible here"
            )
            + "; --bind numa spreads PEs without it"
        )
    return None


# ---- the machine -----------------------------------------------------------------------------


def cores(allowed: Collection[int]) -> list[frozenset[int]]:
    """The cores, each as those of its hardware threads that may be used."""
    found = []
    for cpu in sorted(allowed):
        siblings = _list_in(f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or {cpu}
        found.append(frozenset(siblings & set(allowed)))
    return list(dict.fromkeys(found))


def numa_nodes(allowed: Collection[int]) -> list[frozenset[int]]:
    """The NUMA nodes that have CPUs which may be used, each as those CPUs."""
    folder = _SYSTEM / "devices/system/node"
    numbers = sorted(int(path.name[4:]) for path in folder.glob("node[0-9]*"))
    nodes = [
        frozenset(_list_in(f"devices/system/node/node{n}/cpulist") & set(allowed)) for n in numbers
    ]
    return [node for node in nodes if node] or [frozenset(allowed)]


def gpu_cpus() -> list[set[int]]:
    """For each visible GPU the CPUs near it; empty sets where the machine does not tell."""
    return [_near(address) if address else set() for address in _gpu_addresses()]


def _near(address: str) -> set[int]:
    """The CPUs near a PCI device: those that ``/sys`` lists, else those of its NUMA node."""
    folder = f"bus/pci/devices/{address}"
    if cpus := _list_in(f"{folder}/local_cpulist"):
        return cpus
    node = _list_in(f"{folder}/numa_node")  # "-1", of which no number is made, where there is none
    return _list_in(f"devices/system/node/node{min(node)}/cpulist") if node else set()


def _gpu_addresses() -> list[str]:
    """The PCI addresses of the visible GPUs, as ``/sys`` has them; a MIG slice's is that of its GPU."""
    return [gpus.bus_address(number) for number in range(runtime.gpu_count())]


def described(cpus: frozenset[int] | None) -> str:
    """CPUs and their NUMA nodes for people: ``0-15 (NUMA node 0)``."""
    if cpus is None:
        return "not bound"
    folder = _SYSTEM / "devices/system/node"
    nodes = sorted(
        int(path.name[4:])
        for path in folder.glob("node[0-9]*")
        if cpus & _list_in(f"devices/system/node/{path.name}/cpulist")
    )
    named = f" (NUMA node {', '.join(map(str, nodes))})" if nodes else ""
    return ranges(sorted(cpus)) + named


def ranges(numbers: Sequence[int]) -> str:
    """``0-3, 8`` of 0, 1, 2, 3, 8."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _list_in(name: str) -> set[int]:
    """The numbers of a file of ``/sys`` such as ``0-3,8``; none where there is no such file."""
    try:
        text = (_SYSTEM / name).read_text().strip()
    except OSError:
        return set()
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not first:  # -1
            continue
        found.update(range(int(first), int(last or first) + 1))
    return found
