# SPDX-License-Identifier: BSD-3-Clause
"""Settings: what cannot be one is told as such, with the variable; what is misspelt is told once."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pyshmem
from pyshmem._core.settings import SETTINGS, misspelt
from pyshmem.host.job import communicator
from pyshmem.launcher.settings import check_settings

TEXTS = [row.name for row in SETTINGS if row.kind == "string" and row.name != "JOB"]
EVER = [[None] * 4] * 4
TABLE = {"gpu": "simulator", "n_pes": 1, "put": EVER, "get": EVER}


def refused(variable: str) -> None:
    """Both who starts PEs and a PE raise ValueError with the variable."""
    with pytest.raises(ValueError, match=variable):
        check_settings()
    with pytest.raises(ValueError, match=variable), pyshmem.init(device="sim", heap_size="1M"):
        pass
    assert not pyshmem.initialized()


@pytest.mark.parametrize("name", [*TEXTS, "DEVICE", "HEAP_SIZE", "CONDUIT"])
def test_a_value_that_is_no_text_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"PYSHMEM_{name}", os.fsdecode(b"\xff"))
    refused(f"PYSHMEM_{name}")


def test_such_a_value_lets_the_package_be_imported_and_shown() -> None:
    environment = dict(os.environb) | {b"PYSHMEM_DEVICE": b"\xff", b"PYSHMEM_TRACE": b"\xff"}
    for command in (["-c", "import pyshmem"], ["-m", "pyshmem", "info"]):
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


FILES: dict[str, bytes] = {
    "binary": b"\xff\xfe\x00",
    "empty": b"",
    "a number": b"3",
    "tables as an object": b'{"format": 1, "tables": {"a": 1}}',
    "tables as texts": b'{"format": 1, "tables": ["a"]}',
    "deep": b"[" * 200_000,
    "short rows": b'{"format": 1, "tables": [{"gpu": "simulator", "n_pes": 1, "put": [], "get": []}]}',
    "a long number": json.dumps({"format": 1, "tables": [TABLE | {"reduce": 10**30}]}).encode(),
    "many PEs": json.dumps({"format": 1, "tables": [TABLE | {"n_pes": 10**30}]}).encode(),
    "a number for a GPU": json.dumps({"format": 1, "tables": [TABLE | {"gpu": 7}]}).encode(),
    "streams as a number": json.dumps({"format": 1, "tables": [TABLE | {"streams": 7}]}).encode(),
    "long rows of streams": json.dumps(
        {"format": 1, "tables": [TABLE | {"streams": {"reduce": [[None, "ll", 1e999, 1]]}}]}
    ).encode(),
}


@pytest.mark.parametrize("what", FILES)
def test_a_tune_file_of_anything_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "table"
    path.write_bytes(FILES[what])
    monkeypatch.setenv("PYSHMEM_TUNE_FILE", str(path))
    refused("PYSHMEM_TUNE_FILE")


@pytest.mark.parametrize("path", ["/not/there", "/", "x" * 5000, "/dev/null/x"])
def test_a_tune_file_that_cannot_be_read_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("PYSHMEM_TUNE_FILE", path)
    refused("PYSHMEM_TUNE_FILE")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CUTOVER_PUT", "1:99999999999999999999=5"),
        ("CUTOVER_GET", "64Q"),
        ("CUTOVER_REDUCE", "1:1=64K"),
        ("CUTOVER_LL", "-1"),
        ("CUTOVER_STREAMS", "reduce:64K=ll:99999999999999999999x64"),
        ("CUTOVER_STREAMS", "reduce"),
        ("FUSED", "yes"),
        ("FUSED", "all_gather_matmul=copy_engine,=unfused"),
        ("CACHE_DIR", __file__),
        ("CACHE_DIR", f"{__file__}/kernels"),
    ],
)
def test_a_text_that_cannot_be_parsed_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(f"PYSHMEM_{name}", text)
    refused(f"PYSHMEM_{name}")


def test_a_cache_folder_that_can_be_made_is_left_to_who_needs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSHMEM_CACHE_DIR", str(tmp_path / "a" / "b"))
    monkeypatch.setenv(
        "PYSHMEM_FUSED", " all_gather_matmul = copy_engine, matmul_all_reduce:1M=push,"
    )
    check_settings()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["/not/there/t.json", "/", "x" * 5000])
def test_a_timeline_that_cannot_be_written_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("PYSHMEM_TRACE", path)
    with pytest.raises(ValueError, match="PYSHMEM_TRACE"), pyshmem.init(device="none"):
        pass


# ---- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PYSHMEM_TIMOUT", "PYSHMEM_TIMEOUT"),
        ("PYSHMEM_HEAPSIZE", "PYSHMEM_HEAP_SIZE"),
        ("PYSHMEM_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE"),
        ("PYSHMEM_CHEK", "PYSHMEM_CHECK"),
        ("SHMEM_SYMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE"),
        ("SHMEM_DEBUGG", "SHMEM_DEBUG"),
    ],
)
def test_a_misspelt_variable_is_told_with_what_is_meant(name: str, meant: str) -> None:
    (line,) = misspelt([name, "HOME", *(f"PYSHMEM_{row.name}" for row in SETTINGS)])
    assert line == f"{name} is set, but is no setting: is {meant} meant?"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("PYSHMEM_DEBUG", "PYSHMEM_CHECK=1"),
        ("PYSHMEM_NPES", "run -n 4"),
        ("PYSHMEM_RANK", "pyshmem run"),
        ("NVSHMEM_DEBUG", "PYSHMEM_CHECK"),
    ],
)
def test_what_is_meant_by_a_variable_for_something_else_is_told(name: str, way: str) -> None:
    (line,) = misspelt([name, "HOME"])
    assert line.startswith(f"{name} is set, but is not read here: ")
    assert way in line


@pytest.mark.parametrize(
    "name",
    ["pyshmem_device", "PYSHMEM_device", "Pyshmem_Device", "shmem_debug", "PYSHMEM_Heap_Size"],
)
def test_a_variable_in_small_letters_is_told(name: str) -> None:
    (line,) = misspelt([name, "HOME", "shmem_qzx", "Shmem_Debugg"])
    assert line == f"{name} is set, but nobody reads it: settings are in capitals, {name.upper()}"
    assert misspelt(["pyshmem_timout"]) == [
        "pyshmem_timout is set, but is no setting: is PYSHMEM_TIMEOUT meant?"
    ]


def test_a_variable_like_none_of_ours_is_told_where_it_has_our_prefix() -> None:
    told = misspelt(["PYSHMEM_QZX", "SHMEM_QZX", "XPYSHMEM_TIMEOUT", "PYSHMEM_TEST_JOBS"])
    assert told == ["PYSHMEM_QZX is set, but is no setting: python -m pyshmem info shows them"]
    assert not misspelt(row.alias for row in SETTINGS)
    assert not misspelt(["SHMEM_VERSION", "SHMEM_INFO", "SHMEM_SYMMETRIC_HEAP_SIZE"])


PROGRAM = "import pyshmem\nwith pyshmem.init(device='none'):\n    pass\n"


@pytest.mark.parametrize("launcher", [[], ["-m", "pyshmem", "run", "-n", "2", sys.executable]])
def test_a_job_tells_a_misspelt_variable_once(launcher: list[str]) -> None:
    environment = os.environ | {"PYSHMEM_TIMOUT": "5"}
    command = [sys.executable, *launcher, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("PYSHMEM_TIMOUT is set, but is no setting") == 1
    assert "PYSHMEM_TIMOUT" not in done.stdout


# ---- communicators under the launcher --------------------------------------------------------------


def comm(rank: int, size: int) -> Any:
    return SimpleNamespace(
        Get_rank=lambda: rank,
        Get_size=lambda: size,
        bcast=lambda value: value,
        allgather=lambda value: [value] * size,
    )


@pytest.mark.parametrize(("size", "n_pes"), [(1, 2), (2, 4), (4, 2)])
def test_a_communicator_of_another_size_than_the_launchers_job_is_refused(
    size: int, n_pes: int
) -> None:
    config = SimpleNamespace(pe=0, n_pes=n_pes, local_pe=0, control_fd=7, job=None)
    with pytest.raises(ValueError, match=f"comm has {size} process.*started {n_pes} PEs"):
        communicator.place_in(comm(0, size), config)
    config.control_fd = -1  # another launcher's communicator may be a part of its processes
    assert communicator.place_in(comm(0, size), config)
    assert config.n_pes == size


@pytest.mark.parametrize(
    ("name", "member", "where"),
    [
        ("streams", "Stream", "host.streams"),
        ("profiling", "start", "host.observe.profiling"),
        ("cutover", "get", "host.tuning.cutover"),
    ],
)
def test_modules_that_the_documentation_names_can_be_imported(
    name: str, member: str, where: str
) -> None:
    module = importlib.import_module(f"pyshmem.{name}")
    assert module is getattr(pyshmem, name)
    assert module is importlib.import_module(f"pyshmem.{where}")
    code = f"from pyshmem.{name} import {member}; import pyshmem.{name} as m"
    code += f"; assert m.{member} is {member}"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
