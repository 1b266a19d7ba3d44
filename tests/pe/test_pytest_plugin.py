# SPDX-License-Identifier: BSD-3-Clause
"""``@pytest.mark.pes``: tests that run on PEs; one file whose tests end in every way they can."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

PROGRAM = """
import os, pytest, pyshmem

@pytest.fixture
def box():
    return pyshmem.zeros(1, dtype=int)

@pytest.mark.pes([2])
@pytest.mark.parametrize("x", [3])
def test_ring(box, x):
    me, n = pyshmem.my_pe(), pyshmem.n_pes()
    pyshmem.p(box, x + me, (me + 1) % n)
    pyshmem.barrier_all()
    assert box[0] == x + (me - 1) % n

@pytest.mark.pes(2)
def test_fails_on_one(box):
    print("I am", pyshmem.my_pe())
    assert pyshmem.my_pe() * 3 != 3
    pyshmem.barrier_all()

@pytest.mark.pes(2)
@pytest.mark.skip(reason="why not")
def test_skipped():
    pass

@pytest.mark.pes(3)
def test_dies():
    if pyshmem.my_pe() == 2:
        os.abort()
    pyshmem.barrier_all()

def test_plain():
    assert "PYSHMEM_PE" not in os.environ
"""


def test_outcomes_are_those_of_the_pes(tmp_path: Path, run_command: Callable) -> None:
    (tmp_path / "test_it.py").write_text(PROGRAM)
    options = [
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "-rA",
        str(tmp_path),
    ]
    done = run_command([sys.executable, "-m", *options], 120, PYSHMEM_DEVICE="none")
    found = re.findall(r"^(\w+) \S*test_it\.py::(\S+)", done.stdout, re.MULTILINE)
    assert {name: outcome for outcome, name in found} == {
        "test_ring[pes=2-3]": "PASSED",
        "test_fails_on_one[pes=2]": "FAILED",
        "test_dies[pes=3]": "FAILED",
        "test_plain": "PASSED",
    }, done.stdout
    assert "1 skipped" in done.stdout
    assert "assert (1 * 3) != 3" in done.stdout
    assert "Captured stdout call (PE 1 of 2)" in done.stdout
    assert "PE 2 of 3 was killed by SIGABRT" in done.stdout
    # In a job the tests for its number of PEs run as they are, and the others do not.
    job = [sys.executable, "-m", "pyshmem", "run", "-n", "1", "-m", *options, "-k", "ring"]
    assert "for 2 PEs; the job has 1" in run_command(job, 120, PYSHMEM_DEVICE="none").stdout


KEPT = """
import pytest

@pytest.fixture(scope="module")
def kept():
    yield
    raise RuntimeError("ended with its file")

def test_keeps(kept):
    pass

@pytest.mark.pes(1)
def test_last_of_its_file():
    pass
"""


def test_fixtures_of_a_file_end_with_its_last_test_on_pes(
    tmp_path: Path, run_command: Callable
) -> None:
    (tmp_path / "test_a.py").write_text(KEPT)
    (tmp_path / "test_b.py").write_text("def test_next(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = run_command(command, 120, PYSHMEM_DEVICE="none")
    assert "ERROR at teardown of test_last_of_its_file[pes=1]" in done.stdout, done.stdout
    assert re.search(r"3 passed,.* 1 error", done.stdout), done.stdout
