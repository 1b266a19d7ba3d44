# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own tests of ``torch.distributed``, which come with its wheel, on CPUs.

    python tests/pytorch/pytorchs_own_tests.py [--posing-as gloo|mpi|pyshmem] [PATTERN ...]

Many of them skip backends that they do not know by name; where this one poses as another, calls that
name that get this one. A test runs in processes forked from here, three ranks; a line for each that
failed, with what tells most of its error, and a line of sums. Patterns are of ``fnmatch``, for names of
tests; ``--exclude PATTERN`` leaves some out.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import importlib
import importlib.util
import logging
import os
import re
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

TESTS = "torch.testing._internal.distributed.distributed_test"


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--posing-as", default="pyshmem", choices=("gloo", "mpi", "pyshmem"))
    parser.add_argument("--ranks", default=3, type=int)
    parser.add_argument("--seconds", default=120, type=int, help="for a test")
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("patterns", nargs="*")
    return parser.parse_args()


def _prepare(pose: str, ranks: int, seconds: int) -> None:
    """What the tests read when they are imported."""
    os.environ.update(
        BACKEND=pose, WORLD_SIZE=str(ranks), DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(seconds)
    )
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if importlib.util.find_spec("expecttest") is None:  # only its base class is used here
        module: Any = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase
        sys.modules["expecttest"] = module


def _pose(pose: str) -> None:
    """Where a call of torch.distributed names the backend ``pose``, this one is meant."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    from pyshmem.interop.torch import backend  # registers it

    if pose == "pyshmem":
        return
    backend.NAME = pose  # what the profiler's events begin with

    def renamed(name: str, position: int) -> None:
        plain: Callable[..., Any] = getattr(distributed_c10d, name)

        @functools.wraps(plain)
        def call(*args: Any, **named: Any) -> Any:
            if str(named.get("backend")).lower() == pose:
                named["backend"] = "pyshmem"
            if len(args) > position and str(args[position]).lower() == pose:
                args = (*args[:position], "pyshmem", *args[position + 1 :])
            return plain(*args, **named)

        for module in (distributed_c10d, dist):
            setattr(module, name, call)

    renamed("init_process_group", 0)
    renamed("new_group", 2)
    plain = distributed_c10d.get_backend

    def get_backend(group: Any = None) -> str:
        name = plain(group)
        return pose if name == "pyshmem" else name

    for module in (distributed_c10d, dist):
        module.get_backend = get_backend  # type: ignore[attr-defined]
    dist.is_mpi_available = distributed_c10d.is_mpi_available = lambda: True  # type: ignore[assignment]


class _Outcome(unittest.TextTestResult):
    """Prints what fails as it fails."""

    counts: dict[str, int]

    def startTestRun(self) -> None:
        self.counts = dict.fromkeys(("passed", "failed", "skipped"), 0)

    def _note(self, what: str, test: Any, why: str) -> None:
        self.counts[what] += 1
        if what == "failed" or os.environ.get("VERBOSE"):
            print(f"{what} {test.id().rpartition('.')[2]}: {why}", flush=True)

    def addSuccess(self, test: Any) -> None:
        self._note("passed", test, "")

    def addSkip(self, test: Any, reason: str) -> None:
        self._note("skipped", test, reason)

    def addFailure(self, test: Any, err: Any) -> None:
        self._note("failed", test, last_of(str(err[1])))

    addError = addFailure


def last_of(text: str) -> str:
    """What tells most of an error: the last line that names an exception, and the one behind it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [
        i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception|Timeout)\b.*:", line)
    ]
    at = told[-1] if told else max(len(lines) - 2, 0)
    return " ".join(lines[at : at + 2])[:240]


def _suite(arguments: argparse.Namespace) -> unittest.TestSuite:
    import torch

    tests = importlib.import_module(TESTS)

    class OnRanks(tests.TestDistBackend, tests.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    chosen = unittest.TestSuite()
    for name in unittest.defaultTestLoader.getTestCaseNames(OnRanks):
        wanted = not arguments.patterns or any(
            fnmatch.fnmatch(name, pattern) for pattern in arguments.patterns
        )
        if wanted and not any(fnmatch.fnmatch(name, pattern) for pattern in arguments.exclude):
            chosen.addTest(OnRanks(name))
    return chosen


def main() -> int:
    """Print what failed; 1 where anything did."""
    arguments = _parsed()
    _prepare(arguments.posing_as, arguments.ranks, arguments.seconds)
    _pose(arguments.posing_as)
    logging.disable(logging.CRITICAL)
    with open(os.devnull, "w") as nowhere:
        runner = unittest.TextTestRunner(stream=nowhere, resultclass=_Outcome)
        outcome: Any = runner.run(_suite(arguments))
    print(", ".join(f"{many} {what}" for what, many in outcome.counts.items()))
    return int(outcome.counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
