# SPDX-License-Identifier: BSD-3-Clause
"""Which CPUs and how many threads a PE gets, on machines that are files in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pyshmem.cli import places
from pyshmem.host.tuning import gpus
from pyshmem.launcher import binding
from pyshmem.launcher.binding import Share, shares
from pyshmem.launcher.spec import JobSpec, LaunchError

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
        write("devices/system/cpu/online", ",".join(map(str, every)))
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


def test_run_goes_on_to_cores_where_each_pe_has_two(machine: Machine) -> None:
    machine(["0-7", "8-15"])  # 4 cores of two threads in each
    found = shares(4, None, "none", finer=True)
    assert cpus_of(found) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert [share.threads for share in found] == [4] * 4
    assert binding.cpus_together(found) == 16
    near_gpus = shares(2, None, "sim", finer=True)
    assert cpus_of(near_gpus) == [list(range(8)), list(range(8, 16))]
    machine(["0-7", "8-15"], gpus=[1, 1])
    assert cpus_of(shares(2, None, "cuda", finer=True)) == [[8, 9, 10, 11], [12, 13, 14, 15]]


def test_cores_that_are_left_over_are_nobodys(machine: Machine) -> None:
    machine(["0-15"])
    found = shares(3, None, "none", finer=True)
    assert cpus_of(found) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_run_goes_no_finer_than_nodes_elsewhere(machine: Machine) -> None:
    machine(["0-7", "8-15"])
    nodes = [list(range(8)), list(range(8, 16))]
    assert cpus_of(shares(6, None, "none", finer=True)) == [nodes[0]] * 3 + [nodes[1]] * 3
    assert cpus_of(shares(2, "none", "none", finer=True)) == [None] * 2
    assert cpus_of(shares(2, "numa", "none", finer=True)) == nodes


def test_run_leaves_pes_unbound_on_one_node_without_cores_enough(machine: Machine) -> None:
    machine(["0-7"])
    assert cpus_of(shares(1, None, "none", finer=True)) == [None]
    assert cpus_of(shares(3, None, "none", finer=True)) == [None] * 3
    machine(["0-7"], allowed=[0, 1, 2, 3, 4, 5])  # somebody has bound the launcher
    assert cpus_of(shares(2, None, "none", finer=True)) == [None] * 2


def test_a_bound_pe_knows_how_many_cpus_there_are_for_all(machine: Machine) -> None:
    machine(["0-7"])
    spec = JobSpec(2, ["x"], shares=shares(2, None, "none", finer=True))
    assert spec.environment(1, 9)["PYSHMEM_CORES"] == "8"
    assert JobSpec(2, ["x"]).environment(1, 9)["PYSHMEM_CORES"] == "0"


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


def test_a_gpu_whose_cpus_are_not_listed_is_near_those_of_its_node(
    machine: Machine, tmp_path: Path
) -> None:
    machine(["0-3", "4-7"], gpus=[0, 0, 0])
    for number, node in enumerate(("1", "-1", "0")):
        folder = tmp_path / f"bus/pci/devices/0000:{number:02x}:00.0"
        (folder / "local_cpulist").unlink()
        (folder / "numa_node").write_text(node + "\n")
    assert binding.gpu_cpus() == [{4, 5, 6, 7}, set(), {0, 1, 2, 3}]
    assert cpus_of(shares(2, None, "cuda")) == [None, None]  # one tells nothing
    (tmp_path / "bus/pci/devices/0000:01:00.0/numa_node").write_text("0\n")
    assert cpus_of(shares(2, None, "cuda")) == [[4, 5, 6, 7], [0, 1, 2, 3]]


def card(name: str, link: str) -> gpus.Gpu:
    return gpus.Gpu(name, gpus.kind(name, 90, link))


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``cards(gpu...)``: what the driver shows."""

    def make(*found: gpus.Gpu) -> None:
        monkeypatch.setattr(gpus, "ask", lambda ordinal: found[ordinal])
        monkeypatch.setattr(gpus, "bus_address", lambda ordinal: f"0000:{ordinal:02x}:00.0")
        monkeypatch.setattr(places.runtime, "gpu_count", lambda: len(found))

    return make


def test_doctor_tells_what_each_pe_gets(machine: Machine, cards: Callable[..., None]) -> None:
    machine(["0-7", "8-15"], gpus=[1, 0])
    cards(card("NVIDIA H200", "NVLink 4"), card("NVIDIA Z9", "PCIe"))
    found = list(places.lines(2, "cuda"))
    assert found[0] == (
        *("0", "0: NVIDIA H200 (0000:00:00.0)", "NVLink 4, 450 GB/s"),
        *("8-15 (NUMA node 1)", "measured (shipped)"),
    )
    assert found[1][:4] == (
        *("1", "1: NVIDIA Z9 (0000:01:00.0)", "PCIe, 64 GB/s", "0-7 (NUMA node 0)"),
    )
    assert found[1][4].startswith("by rule from NVIDIA H")


def test_doctor_tells_of_pes_that_share_a_gpu_and_of_slices(
    machine: Machine, cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(["0-7", "8-15"], gpus=[1, 0])
    cards(card("NVIDIA H200", "NVLink 4"), card("NVIDIA H200", "NVLink 4"))
    links = [line[2] for line in places.lines(3, "cuda")]
    shared = "NVLink 4, 450 GB/s; on one GPU with PE "
    assert links == [f"{shared}2", "NVLink 4, 450 GB/s", f"{shared}0"]
    machine(["0-7", "8-15"], gpus=[1])
    cards(card("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "none"))
    links = [line[2] for line in places.lines(2, "cuda")]
    assert links == [
        f"on one GPU with PE {k}; a MIG slice: it reaches no other slice" for k in "10"
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    assert "CUDA_VISIBLE_DEVICES=MIG-1234" in str(places.table(2, "cuda").title)


def test_doctor_tells_of_a_machine_without_gpus(machine: Machine) -> None:
    machine(["0-7"])
    found = list(places.lines(2, "none"))
    assert [line[1] for line in found] == ["none", "none"]
    assert [line[3] for line in found] == ["0-3 (NUMA node 0)", "4-7 (NUMA node 0)"]
    machine(["0-7"], allowed=[0, 1])
    assert next(places.lines(2, "none"))[3] == "not bound"
