# SPDX-License-Identifier: BSD-3-Clause
"""The cutover table: shapes, files, and which source of an entry counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyshmem import cutover
from pyshmem._core.library import text_of_file

NEVER = cutover.NEVER


def table(gpu: str = "simulator", n_pes: int = 1, size: int | None = 4096) -> dict:
    rows = [[size] * len(cutover.BLOCKS) for _ in cutover.THREADS]
    return {"gpu": gpu, "n_pes": n_pes, "put": rows, "get": rows, "reduce": size}


def file_of(*tables: dict) -> str:
    return json.dumps({"format": 1, "tables": tables})


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch):
    for name in ("CUTOVER_PUT", "CUTOVER_GET", "CUTOVER_REDUCE", "TUNE_FILE"):
        monkeypatch.delenv(f"PYSHMEM_{name}", raising=False)
    cutover.reset()
    yield
    monkeypatch.undo()
    cutover.reset()


def test_without_anything_no_call_leaves_its_stores() -> None:
    assert cutover.get("put") == cutover.get("get", 1, 1) == cutover.get("reduce") == NEVER
    assert cutover.origin("put") == "never"


def test_a_shape_belongs_to_the_bucket_that_holds_it() -> None:
    cutover.set("put", "64K", threads=100, blocks=3)
    assert cutover.get("put", 128, 8) == cutover.get("put", 33, 2) == 65536
    assert cutover.get("put", 32, 8) == cutover.get("put", 128, 9) == NEVER
    cutover.set("get", 0, threads=1024)
    assert cutover.get("get", 512, 4000) == 0


def test_reset_forgets_what_was_set() -> None:
    cutover.set("put", 100)
    cutover.set("get", 100)
    cutover.reset("put")
    assert (cutover.get("put"), cutover.get("get")) == (NEVER, 100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64k", {(1, 1): 65536, (1024, 132): 65536}),
        ("never", {(1, 1): NEVER}),
        ("1024:1=256K, 32:1=never", {(1024, 1): 262144, (32, 1): NEVER, (1, 1): 7}),
    ],
)
def test_the_environment_beats_the_program(
    text: str, expected: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSHMEM_CUTOVER_PUT", text)
    cutover.set("put", 7)
    assert {shape: cutover.get("put", *shape) for shape in expected} == expected


def test_an_entry_tells_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSHMEM_CUTOVER_PUT", "1:1=8")
    cutover.set("put", 7, threads=32)
    origins = [cutover.origin("put", threads, 1) for threads in (1, 32, 128)]
    assert origins == ["PYSHMEM_CUTOVER_PUT", "set", "never"]


@pytest.mark.parametrize("text", ["much", "1024=64K", "a:b=64K", "0:1=64K", "1:1=", "1:2:3=4"])
def test_a_bad_override_names_its_variable(text: str) -> None:
    with pytest.raises(ValueError, match="PYSHMEM_CUTOVER_GET: "):
        cutover.parse_override("get", text)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cutover.set("swap", 1), "op is 'swap'; the operations are put, get, reduce"),
        (lambda: cutover.set("put", -1), "-1"),
        (lambda: cutover.set("put", "lots"), "'lots' is not a size"),
        (lambda: cutover.set("reduce", 1, threads=1), "one size for all shapes"),
        (lambda: cutover.get("put", 0, 1), "threads is 0"),
        (lambda: cutover.reset("swap"), "op is 'swap'"),
    ],
)
def test_mistakes_are_told(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


PROGRAM = """
import pyshmem
from pyshmem import cutover
from pyshmem._core.library import device_state, lib

def words():
    state = device_state()
    first = lib.ISHMEMX_STATE_CUTOVER_PUT
    return [state[lib.ISHMEMX_STATE_CUTOVER_PUT_MIN], *state[first:first + 16]]

cutover.set("put", 5, threads=32)
with pyshmem.init() as job:
    assert words() == [5, *[4096] * 4, *[5] * 4, *[4096] * 8], words()
    assert cutover.origin("get").endswith("tuned.json"), cutover.origin("get")
    assert device_state()[lib.ISHMEMX_STATE_CUTOVER_COLL] == 4096
    with cutover.forced("put", "never"):
        assert set(words()) == {cutover.NEVER}
        assert cutover.get("put") == 4096  # the table is as it was
        with cutover.forced("get", 3), cutover.forced("put", 7):
            cutover.set("put", 6)
            assert set(words()) == {7}, words()
        assert set(words()) == {cutover.NEVER}  # the outer one again
    assert words()[0] == 6
    cutover.reset()
    assert set(words()) == {4096}
assert cutover.get("put") == cutover.NEVER
"""


def test_a_job_gives_the_table_to_its_kernels(run_pes: Callable, tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(file_of(table()))
    run_pes(2, PROGRAM, device="sim", check=True, env={"PYSHMEM_TUNE_FILE": str(path)})


def test_a_file_that_a_setting_names_has_an_end(tmp_path: Path) -> None:
    """A device and a pipe may have none: they are not read."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(
            ValueError, match=f"PYSHMEM_TUNE_FILE is '{path}', which cannot be read"
        ):
            text_of_file(path, "PYSHMEM_TUNE_FILE")


def test_a_tune_file_that_is_not_there_is_told(run_pes: Callable) -> None:
    program = "import pyshmem\npyshmem.init()\n"
    done = run_pes(1, program, device="sim", env={"PYSHMEM_TUNE_FILE": "/not/there.json"})
    assert done.returncode != 0
    assert (
        "PYSHMEM_TUNE_FILE is '/not/there.json', which cannot be read: No such file" in done.stderr
    )


# ---- collectives on streams -----------------------------------------------------------------------


def test_stream_rows_come_from_the_environment_then_from_set(monkeypatch):
    assert cutover.stream_rows("reduce")[-1][:2] == (cutover.NEVER, "direct")
    cutover.set_stream_rows("reduce", [("64K", "ll", 32, 64), ("never", "direct", 64, 512)])
    assert cutover.stream_rows("reduce") == (
        (65536, "ll", 32, 64), (cutover.NEVER, "direct", 64, 512)
    )  # fmt: skip
    text = "reduce:1K=ll:2x32,reduce:never=direct:4x128"
    monkeypatch.setenv("PYSHMEM_CUTOVER_STREAMS", text)
    assert cutover.stream_rows("reduce")[0] == (1024, "ll", 2, 32)
    monkeypatch.delenv("PYSHMEM_CUTOVER_STREAMS")
    with pytest.warns(DeprecationWarning, match=r"Row\.way is Row\.algorithm now"):
        assert cutover.stream_rows("reduce")[0].way == cutover.stream_rows("reduce")[0].algorithm
    cutover.set_stream_rows("reduce", None)
    assert cutover.stream_rows("reduce") == cutover.stream_rows("alltoall")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1024, "ll", 1, 32)],  # nothing for what is larger
        [("4K", "ll", 1, 32), ("1K", "ll", 1, 32), ("never", "direct", 1, 32)],
        [("never", "ring", 1, 32)],
        [("never", "ll", 129, 32)],
        [("never", "ll", 1, 1024)],
    ],
)
def test_stream_rows_that_cannot_be_are_refused(rows):
    with pytest.raises(ValueError, match="rows of reduce"):
        cutover.set_stream_rows("reduce", rows)
    with pytest.raises(ValueError, match="op is"):
        cutover.stream_rows("collect")


def test_a_broken_variable_for_streams_says_how_it_should_be(monkeypatch):
    monkeypatch.setenv("PYSHMEM_CUTOVER_STREAMS", "reduce=64K:ll")
    with pytest.raises(ValueError, match="reduce:64K=ll:32x64"):
        cutover.stream_rows("reduce")
