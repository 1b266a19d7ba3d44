# SPDX-License-Identifier: BSD-3-Clause
"""Kernels for streams: what Numba makes of them for sm_90, and their cache on disk."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyshmem
from pyshmem._core.contract import STREAM_KERNEL, STREAM_KEY
from pyshmem.host.kernels import stream_kernels

WORDS = 32  # PYSH_STREAM_WORDS


@pytest.mark.long
@pytest.mark.parametrize("share", [0, 1])
def test_kernels_for_streams_compile_to_sm_90(
    share: int, run_command: Callable, tmp_path: Path
) -> None:
    pytest.importorskip("cuda.pathfinder", reason="needs the CUDA toolchain")
    script = Path(__file__).with_name("stream_images.py")
    command = [sys.executable, str(script), str(share), "2"]
    store = {"PYSHMEM_KERNEL_STORE": "text", "PYSHMEM_CACHE_DIR": str(tmp_path)}
    done = run_command(command, 280, check=True, NUMBA_ENABLE_CUDASIM="0", **store)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) >= 10
    for row in rows:
        assert row["parameter_bytes"] == 8 * row["words"], row  # as the native library passes them
        assert row["words"] <= WORDS
        assert row["state"], row
        assert 0 < row["stack"] < 4096, row
        assert bool(row["grid_barriers"]) == row["cooperative"], row
        if row["lean"]:
            assert row["before_store"] <= 45, row
        if row["way"] == "ll":  # units of 16 bytes by one access, and nothing to meet
            assert row["units"] > 0, row
            assert row["meetings"] == 0, row
        if row["way"] == "direct":  # blocks meet the peers' same blocks
            assert row["units"] == 0, row
            assert row["meetings"] > 0, row
            assert row["pieces"] >= 4 or "broadcast" in row["kernel"], row
    assert {"ll", "direct"} <= {row["way"] for row in rows}
    assert any(row["cooperative"] for row in rows)


def test_every_kind_of_kernel_has_a_routine() -> None:
    kinds = {number for _, number, _ in STREAM_KERNEL} - {STREAM_KERNEL.COUNT}
    assert {routine.kind for routine in stream_kernels._ROUTINES.values()} == kinds


def test_keys_tell_routine_dtype_and_shape() -> None:
    keys = stream_kernels._keys("max_reduce", "float64")
    shapes = STREAM_KEY.WIDE | STREAM_KEY.LEAN
    assert [key & shapes for key in keys] == [0, STREAM_KEY.WIDE, STREAM_KEY.LEAN]
    assert {stream_kernels.describe(key) for key in keys} == {"max_reduce(stream=) of float64"}
    narrow, *_ = stream_kernels._keys("broadcast", "float64")  # bytes, whatever the dtype
    assert stream_kernels.describe(narrow) == "broadcast(stream=)"
    assert len(stream_kernels._keys("sum_reduce", "complex128")) == 2  # a thread has 8 bytes
    *_, far = stream_kernels._keys("broadcast", None, by_proxy=True)
    assert far == narrow | STREAM_KEY.FAR
    assert stream_kernels.describe(far) == "broadcast(stream=)"
    assert stream_kernels._keys("atomic_add", None) == stream_kernels._keys("put_signal", None)
    assert stream_kernels._keys("alltoalls", "float32") == stream_kernels._keys(
        "alltoalls", "int32"
    )


def test_a_file_of_the_cache_is_an_image_or_is_made_again() -> None:
    code = b"\x7fELF\ncode"
    assert stream_kernels._image(({"entry": "e", "stack": 128}, code)) == (code, "e", 128)
    assert stream_kernels._image(({"entry": "e"}, code)) is None
    assert stream_kernels._image(({"entry": "e", "stack": "128"}, code)) is None


class Driver:
    """What a load asks of the library: what runs, and what a kernel tells that it waits for."""

    def __init__(self) -> None:
        self.now, self.busy_until, self.told = 0.0, 0.0, (0.0, 0.0)

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.01)

    def monotonic(self) -> float:
        return self.now

    def ishmemx_has_far_pes(self) -> int:
        return 0

    def ishmemx_default_stream_busy(self) -> int:
        return self.now < self.busy_until

    def ishmemx_kernel_waits(self, text: Any, _nbytes: int) -> int:
        text[0:5] = b"spin\0"
        return self.told[0] <= self.now < self.told[1]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    for name in ("lib", "time"):
        monkeypatch.setattr(stream_kernels, name, made)
    monkeypatch.setattr(stream_kernels, "_running", [])
    return made


def ended_at(driver: Driver) -> float:
    key = stream_kernels._keys("sum_reduce", "float32")[0]
    stream_kernels._let_kernels_end(key, stream_kernels.OWN)
    return driver.now


def test_a_load_waits_a_moment_for_kernels_that_run(driver: Driver) -> None:
    assert ended_at(driver) == 0
    driver.busy_until = 0.3
    assert 0.3 <= ended_at(driver) < 0.4
    driver.busy_until = 100  # one that computes: the driver waits for it
    assert ended_at(driver) < 2


def test_a_load_waits_for_a_kernel_that_waits_for_a_while(driver: Driver) -> None:
    driver.busy_until, driver.told = 6.0, (0.2, 6.0)  # for another PE, whose kernel comes late
    assert 6 <= ended_at(driver) < 7


def test_a_load_beside_a_kernel_that_polls_says_what_to_prepare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, go_on = stream_kernels._keys("sum_reduce", "float32")[0], threading.Event()
    written = io.StringIO()  # pytest's own loses what a thread writes while it is read
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(stream_kernels, "_PATIENCE", 0.01)
    monkeypatch.setattr(stream_kernels, "_running", [lambda: True])
    monkeypatch.setattr(stream_kernels, "setting_number", lambda name: 0)
    told = threading.Thread(target=lambda: stream_kernels._load_beside(key, go_on.wait))
    told.start()
    while "in a loop of its own" not in (said := written.getvalue()):
        time.sleep(0.001)
    assert "pyshmem: sum_reduce, whose kernel is not loaded, waits for the kernels" in said
    assert "call pyshmem.streams.prepare('sum_reduce', dtype='float32') before" in said
    assert told.is_alive()
    go_on.set()  # the kernel has ended
    told.join()


def test_a_load_beside_a_kernel_that_polls_ends_by_the_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, go_on = stream_kernels._keys("sum_reduce", "float32")[0], threading.Event()
    monkeypatch.setattr(stream_kernels, "setting_number", lambda name: 10**7)
    with pytest.raises(pyshmem.ShmemTimeout, match=r"prepare\('sum_reduce', dtype='float32'\)"):
        stream_kernels._load_beside(key, go_on.wait)
    go_on.set()

    def fails() -> None:
        raise pyshmem.ShmemError("no memory")

    monkeypatch.setattr(stream_kernels, "setting_number", lambda name: 0)
    with pytest.raises(pyshmem.ShmemError, match="no memory"):
        stream_kernels._load_beside(key, fails)


def test_a_load_beside_a_kernel_that_goes_on_waiting_says_what_to_prepare(driver: Driver) -> None:
    stream_kernels.ask_before_loads(lambda: True)
    driver.told = (0.2, 1e9)
    with pytest.raises(pyshmem.ShmemError) as caught:
        ended_at(driver)
    said = str(caught.value)
    assert "one has waited for 10 s (spin)" in said
    assert "pyshmem.streams.prepare('sum_reduce', dtype='float32')" in said
