# SPDX-License-Identifier: BSD-3-Clause
"""Tracebacks of several PEs on their way through the launcher: in one piece each, and told once."""

from __future__ import annotations

import pytest

from pyshmem.launcher.output.tracebacks import Alike, Gathered

TRACEBACK = b"""Traceback (most recent call last):
  File "/x/a.py", line 9, in <module>
    main()
ValueError: no
"""
CHAINED = TRACEBACK + b"\nThe above exception was the direct cause of ...:\n\n" + TRACEBACK
GROUP = b"""  + Exception Group Traceback (most recent call last):
  |   File "/x/a.py", line 1, in <module>
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: no
    +------------------------------------
"""
NOTES = TRACEBACK + b"with a second line\nand a note\n"
CRASH = b"Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n"
#: Lines above a traceback that does not end the program.
ABOVE = {
    "thread": b"Exception in thread Thread-1 (work):\n",
    "dropped": b"Exception ignored in: <function A.__del__ at 0x7f0>\n",
    "child": b"Process ForkProcess-1:\n",
    "task": b"Task exception was never retrieved\n",
    "log": b"--- Logging error ---\n",
}
OF_RANK = b"".join(b"[rank1]: " + line for line in TRACEBACK.splitlines(keepends=True))
BLOCKS = {
    "rank": OF_RANK,
    "plain": TRACEBACK,
    "chained": CHAINED,
    "group": GROUP,
    "notes": NOTES,
    "crash": CRASH,
}
BLOCKS |= {name: line + TRACEBACK for name, line in ABOVE.items()}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_traceback_that_comes_in_lines_passes_in_one_piece(block: bytes) -> None:
    gathered = Gathered()
    now = 0.0
    assert gathered.feed(b"before\n", now) == b"before\n"
    for line in block.splitlines(keepends=True):
        now += 0.01
        assert gathered.feed(line, now) == b""
        assert gathered.due(now) == b""
        assert gathered
    assert gathered.due(now + 0.2) == block
    assert not gathered
    assert gathered.feed(b"behind\n", now) == b"behind\n"


def test_what_stands_before_a_traceback_passes_at_once() -> None:
    gathered = Gathered()
    assert gathered.feed(b"a line\n" + TRACEBACK, 0.0) == b"a line\n"
    assert gathered.take() == TRACEBACK


def test_one_without_its_exception_waits_longer_and_not_for_good() -> None:
    gathered = Gathered()
    gathered.feed(TRACEBACK[:-15], 0.0)
    assert gathered.due(1.0) == b""
    gathered.give(10.0)  # in which the launcher stood still
    assert gathered.due(11.0) == b""
    assert gathered.due(12.5) == TRACEBACK[:-15]


@pytest.mark.parametrize("line", ABOVE.values(), ids=ABOVE)
def test_a_line_above_a_traceback_waits_for_it(line: bytes) -> None:
    gathered = Gathered()
    assert gathered.feed(b"before\n" + line, 0.0) == b"before\n"
    assert gathered.due(1.0) == b""
    assert gathered.due(2.5) == line  # and not for good


def test_a_pe_that_writes_on_and_on_is_not_kept() -> None:
    gathered = Gathered()
    now, passed = 0.0, gathered.feed(TRACEBACK, 0.0)
    while not passed:
        now += 0.05
        passed = gathered.feed(b"a line of the log\n", now) or gathered.due(now)
    assert now < 1.0
    assert passed.startswith(TRACEBACK + b"a line")
    assert gathered.feed(TRACEBACK, now) == b""
    assert len(gathered.feed(b"x" * 100_000 + b"\n", now)) > 100_000


def test_the_same_traceback_of_other_pes_is_told_in_a_line() -> None:
    alike = Alike()
    blocks = [TRACEBACK.replace(b"no", b"PE %d (pid %d)" % (pe, 4 * pe)) for pe in range(5)]
    assert [alike.is_shown(pe, blocks[pe], 0.0) for pe in (2, 0, 1, 4)] == [False, True, True, True]
    assert not alike.is_shown(3, CHAINED, 0.1)
    assert alike.waits
    assert alike.told(0.1) == []
    assert alike.told(1.0) == ["PEs 0, 1, 4 write the same traceback as PE 2"]
    assert not alike.waits
    assert alike.told() == []


def test_a_pe_that_writes_it_again_and_one_that_is_late_are_shown() -> None:
    alike = Alike()
    assert [alike.is_shown(0, TRACEBACK, now) for now in (0.0, 1.0, 2.0)] == [False] * 3
    assert alike.is_shown(1, TRACEBACK, 3.0)
    assert alike.told() == ["PE 1 writes the same traceback as PE 0"]
    assert not alike.is_shown(1, TRACEBACK, 60.0)
    assert not alike.is_shown(1, TRACEBACK.replace(b"line 9", b"line 8"), 60.0)


SYNTAX = b"""  File "p.py", line 1
    def f(:
          ^
SyntaxError: invalid syntax
"""


def test_a_syntax_error_is_gathered_though_it_has_no_header() -> None:
    gathered = Gathered()
    first, rest = SYNTAX[:30], SYNTAX[30:]
    assert gathered.feed(b"before\n" + first, 0.0) == b"before\n"
    assert gathered.feed(rest, 0.01) == b""
    assert gathered.due(1.0) == SYNTAX
    crash = b"Fatal Python error: x\n"
    assert Gathered().feed(b'  File "p.py", line 8 in f\n', 0.0)  # of Python's fault handler
    assert not Gathered().feed(crash, 0.0)


def test_tracebacks_of_ranks_that_differ_in_its_number_alone_are_told_once() -> None:
    alike = Alike()
    assert not alike.is_shown(1, OF_RANK, 0.0)
    assert alike.is_shown(0, OF_RANK.replace(b"[rank1]", b"[rank0]"), 0.1)
