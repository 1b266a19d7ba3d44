# SPDX-License-Identifier: BSD-3-Clause
"""numba-cuda's own tests of kernels without a GPU.

    python tests/pe/numba_cuda_tests.py [--device cpu] [MODULE ...]

Each module of ``numba.cuda.tests.cudapy`` runs in a process of its own, where ``pyshmem.device`` is
imported first; a line for each test that failed, with the last of its error, and a line of sums. Tests
that numba-cuda skips in its simulator stay skipped. Needs filecheck beside what tests need here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from typing import Any

TESTS = "numba.cuda.tests.cudapy"
#: About PTX, the driver, other processes and what the compiler for GPUs leaves in files.
OF_GPUS = frozenset(
    f"test_{name}"
    for name in (
        "analysis", "bfloat16_bindings", "byteflow", "caching", "cffi", "debuginfo",
        "debuginfo_types", "fp8_bindings", "inspect", "ipc", "ir", "ir_utils", "lineinfo",
        "multigpu", "tracing",
    )
)  # fmt: skip


class _Outcome(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, str, str]] = []

    def _note(self, test: Any, what: str, why: str = "") -> None:
        self.rows.append((test.id().removeprefix(f"{TESTS}."), what, why))

    def addSuccess(self, test: Any) -> None:
        self._note(test, "passed")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._note(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:
        self._note(test, "skipped", reason)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note(test, "failed", "it was expected to")

    def addFailure(self, test: Any, err: Any) -> None:
        self._note(test, "failed", f"{err[0].__name__}: {err[1]}")

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note(subtest, "failed", f"{err[0].__name__}: {err[1]}")


def run_here(module: str, file: str) -> None:
    """One module in this process, its rows as JSON in a file."""
    importlib.import_module("pyshmem.device")
    outcome = _Outcome()
    found = importlib.import_module(f"{TESTS}.{module}")
    unittest.defaultTestLoader.loadTestsFromModule(found).run(outcome)
    with open(file, "w") as out:
        json.dump(outcome.rows, out)


def run(module: str, device: str, seconds: float) -> list[list[str]]:
    environment = dict(os.environ, PYSHMEM_DEVICE=device, NUMBA_ENABLE_CUDASIM="1")
    with tempfile.NamedTemporaryFile("r") as file:
        command = [sys.executable, __file__, "--here", file.name, module]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return [[module, "failed", f"it did not end in {seconds:g} s"]]
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            return [[module, "failed", said[-1]]]
        rows: list[list[str]] = json.load(file)
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--device", choices=["cpu", "sim"], default="cpu")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a module")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_here(options.modules[0], options.here)
        return
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    package = importlib.import_module(TESTS)
    names = [one.name for one in pkgutil.iter_modules(package.__path__)]
    wanted = options.modules or [
        name for name in names if name.startswith("test_") and name not in OF_GPUS
    ]
    sums: Counter[str] = Counter()
    for module in wanted:
        rows = run(module, options.device, options.timeout)
        sums.update(what for _, what, _ in rows)
        for test, what, why in rows:
            if what == "failed":
                print(f"{test}: {' '.join(why.split())[:200]}", flush=True)
    print(dict(sums))


if __name__ == "__main__":
    main()
