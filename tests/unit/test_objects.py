# SPDX-License-Identifier: BSD-3-Clause
"""Collectives as machine code: called as they are defined, within the registers of their kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """What ``objects.py`` says of each kernel, and the files that it has left."""
    folder = tmp_path_factory.mktemp("objects")
    variables = {"NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda"}
    variables |= {"PYSHMEM_KERNEL_STORE": "objects", "PYSHMEM_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("objects.py"))],
        env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), sorted(path.name for path in (folder / "routines").iterdir())


def test_collectives_of_threads_blocks_and_grids_are_called_and_those_of_warps_inlined(
    rows,
) -> None:
    called = [(row["kernel"], row["called"]) for row in rows[0]]
    assert called[4:] == [
        ("several", ["barrier_all_work_group", "sum_reduce_work_group"]),
        ("of_a_warp", []),
        ("of_a_grid", ["broadcast_grid"]),
        ("by_threads", ["broadcast"]),
        ("helped", ["barrier_all_work_group"]),
    ]
    assert all(one == ("sums", ["sum_reduce_work_group"]) for one in called[:4])


def test_a_kernel_declares_a_routine_as_its_object_defines_it(rows) -> None:
    """The linker joins two that differ without an error, arguments shifted by one."""
    seen = 0
    for row in rows[0]:
        for declared, defined in row["abi"]:
            assert declared == defined, row["kernel"]
            assert declared[0] == [[".b32", ""]]  # the status that Numba's functions return
            seen += 1
    assert seen == 9


def test_objects_keep_to_the_registers_of_the_kernel_that_calls_them(rows) -> None:
    assert [row["registers"] for row in rows[0][:4]] == [64, 64, 48, 64]
    for row in rows[0]:
        assert 0 < row["most"] <= row["registers"], row["kernel"]


def test_each_kernel_has_the_state_block_and_says_how_much_stack_it_needs(rows) -> None:
    for row in rows[0]:
        assert row["state"], row["kernel"]
        assert 500 < row["stack"] < 4096, row["kernel"]
        assert row["pickled"] > row["size"], row[
            "kernel"
        ]  # Numba can keep it on disk, with its code
        assert row["cooperative"] == (row["kernel"] == "of_a_grid")
        assert not row["bulk"]


def test_there_is_an_object_for_each_limit_and_option(rows) -> None:
    names = [name.split("-", 1) for name in rows[1] if name.endswith(".cubin")]
    assert len(names) == 6
    sums = [how for root, how in names if [root for root, _ in names].count(root) == 3]
    assert sorted(how.partition("-sm90a-")[2] for how in sums) == [
        "r48.cubin",
        "r64-fast.cubin",
        "r64.cubin",
    ]
    assert any(how.endswith("-threads.cubin") for _, how in names)
