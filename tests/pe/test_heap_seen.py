# SPDX-License-Identifier: BSD-3-Clause
"""How full heaps are: of running jobs from outside, by lines of the program, and at the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from environment import clean_environment

from pyshmem._core.library import ffi, lib
from pyshmem.launcher import heaps

CHECKED = {"PYSHMEM_CHECK": "1"}

PROGRAM = """
import subprocess, sys
import numpy as np
import pyshmem

job = pyshmem.init(heap_size="16M", device_heap_size="8M")
first = pyshmem.zeros(1000)
def more():
    return [pyshmem.ones(10, np.float32) for _ in range(3)]
kept = more()
if job.device == "sim":
    there = pyshmem.zeros(300, heap="device")
"""


def look(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyshmem", "info", "--heap", *arguments]
    env = clean_environment() | {"COLUMNS": "150"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def rows_of(text: str) -> list[list[str]]:
    """The cells of the tables' rows."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


LOOKS = """
pyshmem.free(first)
pyshmem.barrier_all()
if job.my_pe == 0:
    import os
    command = [sys.executable, "-m", "pyshmem", "info", "--heap", str(os.getppid())]
    print(subprocess.run(command, env={**os.environ, "COLUMNS": "150"}, stdout=-1, text=True).stdout)
pyshmem.barrier_all()
del kept, there
"""


def test_a_running_job_shows_its_heaps_and_whose_lines_hold_what(run_pes: Callable) -> None:
    """By the number of the launcher's process, whose job it is."""
    done = run_pes(2, PROGRAM + LOOKS, device="sim", check=True, env=CHECKED)
    rows = rows_of(done.stdout)
    assert [row[:1] + row[2:] for row in rows if len(row) == 7] == [
        ["0", "host", "192 B", "16 MiB", "16 MiB", "3"],
        ["0", "device", "2.4 KiB", "8 MiB", "8 MiB", "1"],
        ["1", "host", "192 B", "16 MiB", "16 MiB", "3"],
        ["1", "device", "2.4 KiB", "8 MiB", "8 MiB", "1"],
    ]
    lines = [row for row in rows if len(row) == 3]
    assert [[*row[:2], re.sub(r", .*program", ", program", row[2])] for row in lines] == [
        ["0", "host", "120 B in 3 blocks, program.py:9"],
        ["0", "device", "2.3 KiB in 1 block, program.py:12"],
        ["1", "host", "120 B in 3 blocks, program.py:9"],
        ["1", "device", "2.3 KiB in 1 block, program.py:12"],
    ]


def test_no_job_and_no_pe_are_told() -> None:
    done = look(str(os.getpid()))
    assert done.returncode == 1
    assert "has started no PE and is none" in done.stderr
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    done = look(str(ended.pid))
    assert done.returncode == 1
    assert f"there is no process {ended.pid} on this host" in done.stderr


def test_a_process_of_another_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen by a user who is not its own, and is not root."""
    monkeypatch.setattr(os, "geteuid", lambda: os.stat("/proc/self").st_uid + 1)
    told = heaps.why_none(os.getpid())
    assert "whom alone its PEs show their heaps" in told
    assert f"is user {os.stat('/proc/self').st_uid}'s" in told


def test_a_killed_pe_is_not_shown() -> None:
    """Its memory has gone with it, and nothing of it is left to be found."""
    program = PROGRAM + "print('up', flush=True)\nimport time; time.sleep(60)"
    env = clean_environment() | {"PYSHMEM_DEVICE": "none"}
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=-1) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"up\n"
        assert len(rows_of(look(str(job.pid)).stdout)) == 1
        job.kill()
        job.wait()
    end = time.monotonic() + 20
    while look(str(job.pid)).returncode == 0:
        assert time.monotonic() < end


SITES = """
found = [(site.line, site.nbytes, site.allocations) for site in pyshmem.heap_sites()]
assert found == [(7, 8000, 1), (9, 120, 3)], found
first = pyshmem.realloc(first, 2000)
found = [(site.line, site.nbytes, site.allocations) for site in pyshmem.heap_sites()]
assert found == [(16, 16000, 1), (9, 120, 3)], found
try:
    pyshmem.heap_sites("attic")
except ValueError as error:
    print("ok")
"""


def test_lines_of_the_program(run_pes: Callable) -> None:
    done = run_pes(
        2, PROGRAM.lstrip("\n").join(["\n", SITES]), device="none", check=True, env=CHECKED
    )
    assert done.stdout.split() == ["ok"] * 2


@pytest.fixture(scope="module")
def told_at_the_end() -> Callable[..., list[tuple[str, str]]]:
    """The warnings of a program of one PE, with what its last lines are."""

    def run(end: str, **env: str) -> list[tuple[str, str]]:
        command = [sys.executable, "-c", PROGRAM + end]
        given = clean_environment() | {"PYSHMEM_DEVICE": "none"} | env
        done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) == ("no checks" in done.stderr)
        return re.findall(r"(\d+): RuntimeWarning: (.*)", done.stderr)

    return run


def test_what_is_left_at_the_end_is_told(told_at_the_end: Callable) -> None:
    assert told_at_the_end("pyshmem.free(first)", **CHECKED) == [
        ("9", "3 arrays of 120 B on the host heap still allocated at finalize")
    ]


def test_and_nothing_where_there_is_nothing_to_tell(told_at_the_end: Callable) -> None:
    """All freed or dropped, a job that fails, and no checking mode, where lines are refused."""
    assert told_at_the_end("del kept; pyshmem.free(first)", **CHECKED) == []
    assert told_at_the_end("raise ValueError('no checks')", **CHECKED) == []
    refused = "try:\n    pyshmem.heap_sites()\nexcept pyshmem.UnsupportedError:\n    print(1)"
    assert told_at_the_end(refused) == []


def test_what_shows_no_heaps_is_refused() -> None:
    seen = ffi.new("ishmemx_heaps_seen_t *")
    with open("/dev/null") as file:
        assert lib.ishmemx_heaps_seen(file.fileno(), seen) == lib.ISHMEMX_ERR_MISMATCH
    assert lib.ishmemx_heaps_seen(-1, seen) == lib.ISHMEMX_ERR_ARGUMENT
