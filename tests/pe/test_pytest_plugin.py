# SPDX-License-Identifier: BSD-3-Clause
"""``@pytest.mark.pes``: tests that run on PEs; one file whose tests end in every way they can."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


def collected(
    folder: Path, mark: str, run_command: Callable, *options: str
) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(
        "import pytest\ndef test_before(): pass\n"
        f"@pytest.mark.pes({mark})\ndef test_marked(): assert 0\n"
    )
    (folder / "test_other.py").write_text("def test_other(): pass\n")
    options = ("-p", "no:cacheprovider", "--continue-on-collection-errors", *options)
    command = [sys.executable, "-m", "pytest", "-q", *options, str(folder)]
    return run_command(command, 120, PYSHMEM_DEVICE="none")


WRONG = {
    "": "0 arguments",
    "1, 2": "2 arguments",
    '"2"': "n is '2' (str), not an integer",
    "2.0": "n is 2.0 (float), not an integer",
    "10**6": "n is 1000000; a job has at most 1023 PEs",
    "True": "n is True (bool)",
    "-1": "n is -1; give 1 or more",
    "0": "n is 0; give 1 or more",
    "[]": "an empty list",
    "[1, 0]": "n is 0",
    "[2, 2]": "[2, 2] has a number twice",
    "1, pes=2": "there is no pes=",
    '1, timeout="5"': "timeout is '5' (str)",
    "1, timeout=0": "timeout is 0",
    '1, timeout=float("nan")': "timeout is nan",
    '1, env="A=1"': "env is a str",
    '1, env={"A": 1}': "env['A'] is 1 (int)",
    '1, env={"PYSHMEM_HEAP_SIZE": "junk"}': "env: PYSHMEM_HEAP_SIZE is 'junk'",
}


def test_wrong_marks_are_told_with_their_test_while_it_is_collected(
    tmp_path: Path, run_command: Callable
) -> None:
    for number, mark in enumerate(WRONG):  # in one session: each has a file of its own
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"test_it_{number}.py").write_text(
            f"import pytest\n@pytest.mark.pes({mark})\ndef test_marked(): assert 0\n"
        )
    done = collected(tmp_path, "1, 2, 3", run_command)
    assert "INTERNALERROR" not in done.stdout
    assert f"{len(WRONG) + 1} errors" in done.stdout
    assert "1 passed" in done.stdout  # what is in another file
    for number, text in enumerate(WRONG.values()):
        assert f"test_it_{number}.py::test_marked: pytest.mark.pes: {text}" in done.stdout


@pytest.mark.parametrize(
    "option", ["pes_timeout=soon", "pes_timeout=-1", "pes_timeout=nan", "pes_arguments='"]
)
def test_a_wrong_setting_of_the_ini_file_is_told_before_anything_runs(
    option: str, tmp_path: Path, run_command: Callable
) -> None:
    done = collected(tmp_path, "1", run_command, "-o", option)
    assert done.returncode == 4
    name, _, value = option.partition("=")
    assert f"ERROR: {name} = {value!r} in the ini file: "[:-2] in done.stderr
    assert "passed" not in done.stdout


STUCK = """
import time, pytest, pyshmem

@pytest.mark.pes(2, timeout=25)
def test_waits():
    sig = pyshmem.new_signal()
    pyshmem.signal_wait_until(sig, pyshmem.CMP_EQ, 7)

@pytest.mark.pes(1, timeout=15)
def test_sleeps():
    time.sleep(1000)

def test_unmarked():
    pyshmem.zeros(3)
"""


def test_what_hangs_and_what_is_unmarked_is_told_in_the_tests_lines(
    tmp_path: Path, run_command: Callable
) -> None:
    (tmp_path / "test_it.py").write_text(STUCK)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = run_command(command, 200, PYSHMEM_DEVICE="none")
    waits, sleeps, unmarked = re.split(r"^_+ test_\w+(?:\[.*\])? _+$", done.stdout, flags=re.M)[1:]
    assert re.search(r"^>\s+pyshmem\.signal_wait_until\(sig, pyshmem\.CMP_EQ, 7\)$", waits, re.M)
    assert "job still running after 25 s, 2 PEs" in waits, done.stdout
    assert "in signal_wait_until (== 7, seen 0)" in waits, done.stdout
    (place,) = re.findall(r"^  File .*", sleeps, re.M)
    assert place.endswith('test_it.py", line 11 in test_sleeps'), done.stdout
    assert "a test on PEs is marked, and runs in a job then: @pytest.mark.pes(2)" in unmarked
    assert not re.search(r"pyshmem/\w+.*\.py", waits + unmarked), done.stdout
