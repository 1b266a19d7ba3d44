# SPDX-License-Identifier: BSD-3-Clause
"""Tracebacks of PEs that fail together: whole, and once where they are alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

FAILS_DEEP = """
import logging
import pyshmem

def deep(n):
    if n:
        return deep(n - 1)
    raise RuntimeError({what})

with pyshmem.init() as job:
    pyshmem.barrier_all()
    try:
        deep(5)
    except RuntimeError:
        if {fails}:
            raise
        logging.exception("told")
"""


def blocks_of(text: str) -> list[list[str]]:
    """The tracebacks; that none begins inside another is what is tested."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("Traceback"):
            assert not inside, text
            found.append([])
            inside = True
        if inside:
            found[-1].append(line)
            inside = line.startswith(("Traceback", " "))
    return found


def test_tracebacks_of_pes_that_fail_together_are_not_mixed(run_pes: Callable) -> None:
    for _ in range(3):
        done = run_pes(4, FAILS_DEEP.format(what="'x' * (1 + job.my_pe)", fails=True))
        blocks = blocks_of(done.stderr)
        ends = [block[-1] for block in blocks if block[-1].startswith("RuntimeError")]
        assert len(set(ends)) == len(ends) >= 1
        assert all(len(block) >= 8 for block in blocks)


def test_tracebacks_that_are_alike_are_shown_once(run_pes: Callable) -> None:
    program = FAILS_DEEP.format(what="f'of PE {job.my_pe}'", fails=False)
    done = run_pes(4, program, check=True)
    assert done.stderr.count("RuntimeError: of PE ") == 1, done.stderr
    assert "the same traceback as PE " in done.stderr


def test_each_pe_has_its_own_traceback_in_its_file(run_pes: Callable, tmp_path: Path) -> None:
    program = FAILS_DEEP.format(what="f'of PE {job.my_pe}'", fails=False)
    run_pes(2, program, options=["--output-dir", str(tmp_path / "out")], check=True)
    for pe in range(2):
        text = (tmp_path / "out" / f"pe-{pe}.txt").read_text()
        assert text.count(f"RuntimeError: of PE {pe}") == 1


def test_tags_stay_on_lines_of_tracebacks(run_pes: Callable) -> None:
    program = FAILS_DEEP.format(what="'x' * (1 + job.my_pe)", fails=False)
    done = run_pes(2, program, options=["--tag"], check=True)
    for pe in range(2):
        own = [line for line in done.stderr.splitlines() if line.startswith(f"[{pe}] ")]
        assert own[1] == f"[{pe}] Traceback (most recent call last):"
        assert own[-1] == f"[{pe}] RuntimeError: {'x' * (1 + pe)}"
    assert all(line.startswith("[") for line in done.stderr.splitlines())
