# SPDX-License-Identifier: BSD-3-Clause
"""Which CPUs and how many threads a PE gets, on machines that are files in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pyshmem.launcher import binding
from pyshmem.launcher.binding import Share, shares
from pyshmem.launcher.spec import LaunchError

Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """``machine(nodes, gpus, allowed)``: nodes as CPU lists, GPUs as numbers of their nodes."""

    def make(
        nodes: Sequence[str], gpus: Sequence[int] = (), allowed: Sequence[int] | None = None
    ) -> None:
        def write(name: str, text: str) -> None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text + "\n")

        for number, cpus in enumerate(nodes):
            write(f"devices/system/node/node{number}/cpulist", cpus)
        monkeypatch.setattr(binding, "_SYSTEM", tmp_path)
        every = sorted(set().union(*binding.numa_nodes(range(64))))
        for cpu in every:  # the two threads of a core have neighbouring numbers
            first = cpu - cpu % 2
            write(
                f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{first}-{first + 1}"
            )
        for number, node in enumerate(gpus):
            write(f"bus/pci/devices/0000:{number:02x}:00.0/local_cpulist", nodes[node])
        monkeypatch.setattr(
            binding, "_gpu_addresses", lambda: [f"0000:{n:02x}:00.0" for n in range(len(gpus))]
        )
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(allowed or every))

    return make


def cpus_of(found: Sequence[Share]) -> list[list[int] | None]:
    return [None if share.cpus is None else sorted(share.cpus) for share in found]


def test_the_default_spreads_over_nodes_and_no_finer(machine: Machine) -> None:
    machine(["0-3", "4-7"])
    found = shares(4, None, "none")
    assert cpus_of(found) == [[0, 1, 2, 3]] * 2 + [[4, 5, 6, 7]] * 2
    assert [share.threads for share in found] == [2] * 4


def test_the_default_follows_the_gpus(machine: Machine) -> None:
    machine(["0-3", "4-7"], gpus=[1, 0])
    assert cpus_of(shares(3, None, "cuda")) == [[4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]
    machine(["0-3", "4-7"], gpus=[])
    assert cpus_of(shares(1, None, "cuda")) == [None]


def test_a_narrow_or_crowded_launcher_binds_nobody(machine: Machine) -> None:
    machine(["0-3", "4-7"], allowed=[0, 1, 2])
    assert shares(2, None, "none") == [Share(None, 1)] * 2
    machine(["0-3", "4-7"])
    assert shares(9, None, "none") == [Share(None, 1)] * 9
    assert shares(2, "none", "none") == [Share(None, 4)] * 2


def test_cores_are_whole_and_not_shared(machine: Machine) -> None:
    machine(["0-3", "4-7"], allowed=[0, 1, 2, 4, 5, 6])
    assert cpus_of(shares(2, "core", "none")) == [[0, 1, 2], [4, 5, 6]]
    assert cpus_of(shares(3, "core", "none")) == [[0, 1], [2], [4, 5]]
    with pytest.raises(LaunchError, match=r"5 PEs, but 4 core"):
        shares(5, "core", "none")


def test_gpus_that_are_not_there_are_told(machine: Machine) -> None:
    machine(["0-3"])
    with pytest.raises(LaunchError, match="no GPU is visible"):
        shares(1, "gpu", "cuda")
    machine(["0-3", "4-7"], gpus=[1])
    assert cpus_of(shares(1, "gpu", "cuda")) == [[4, 5, 6, 7]]


def test_numbers_of_threads_leave_the_users_alone() -> None:
    share = Share(None, 3)
    assert share.variables({"OMP_NUM_THREADS": "8"}) == {}
    found = share.variables({"MKL_NUM_THREADS": "2"})
    assert found["OMP_NUM_THREADS"] == found["NUMBA_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in found


def test_what_is_started_inside_is_bound_and_the_launcher_as_before() -> None:
    before = os.sched_getaffinity(0)
    one = frozenset([min(before)])
    with binding.bound(Share(one, 1)):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before
