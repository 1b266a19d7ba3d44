# SPDX-License-Identifier: BSD-3-Clause
"""numba-cuda's own tests of kernels without a GPU.

    python tests/pe/numba_cuda_tests.py [--device cpu] [--more] [MODULE ...]

Each module of ``numba.cuda.tests.cudapy`` runs in a process of its own (of ``MODULE@I/N`` every N-th
test, from the I-th), where ``pyshmem.device`` is imported first; a line for each test that failed, with
the last of its error or why it does, and a line of sums; the exit status is 1 when one failed that
``REASONS`` does not name. Tests that numba-cuda skips in its simulator stay skipped; with ``--more``
those run that are not about compilers for GPUs, and are counted apart. Of the tests that compile each
function of libdevice to PTX the PTX stays out: the function is compiled for the device, and what it was
to be searched for is said to be there. Needs filecheck beside what tests need here.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

TESTS = "numba.cuda.tests.cudapy"
#: The mark of a test that numba-cuda's simulator skips.
MORE = "_pyshmem_more"
#: About PTX, the driver, other processes and what the compiler for GPUs leaves in files.
OF_GPUS = frozenset(
    f"test_{name}"
    for name in (
        "analysis", "bfloat16_bindings", "byteflow", "caching", "cffi", "debuginfo",
        "debuginfo_types", "fp8_bindings", "inspect", "ipc", "ir", "ir_utils", "lineinfo",
        "multigpu", "tracing",
    )
)  # fmt: skip
#: In the reason of a skipped test: it is about PTX, NVVM, the driver, or calls that no kernel makes.
OF_COMPILERS_FOR_GPUS = (
    "caching", "carveout", "code generation", "compilation", "debug",
    "device pointers", "dumps", "emission", "external", "fp8", "inspect", "ipc",
    "launch bounds", "lineinfo", "link", "lto", "nvjitlink", "optimize", "performance", "ptx",
    "pickling", "windows",
)  # fmt: skip
#: Tests of which it is known why they fail, by device. Names of tests begin with these.
_REFUSED_THERE = "it expects what only numba-cuda's simulator refuses: here the alignment is kept"
REASONS = {
    ("sim", "test_array_alignment.TestCudasimUnsupportedAlignment"): _REFUSED_THERE,
    ("cpu", "test_array_alignment.TestCudasimUnsupportedAlignment"): _REFUSED_THERE,
    ("cpu", "test_array_methods.TestCudaArrayMethods.test_array_copy"): (
        "kernels on CPUs allocate nothing"
    ),
    ("cpu", "test_exception.TestException.test_zero_division_error_in_debug"): (
        "as on a GPU the error is a ZeroDivisionError, the simulator's is another"
    ),
    ("cpu", "test_stream_api.TestStreamAPI.test_external_stream_simulator_unavailable"): (
        "it expects what only numba-cuda's simulator refuses"
    ),
}


def reason_of(device: str, test: str) -> str:
    """Why this test fails, if it is known; else empty."""
    found = (why for (where, name), why in REASONS.items() if where == device and name in test)
    return next(found, "")


class _Outcome(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, str, str]] = []

    def _note(self, test: Any, what: str, why: str = "") -> None:
        case = getattr(test, "test_case", test)  # of a part of it
        method = getattr(case, getattr(case, "_testMethodName", ""), None)
        if getattr(method, MORE, False) or getattr(type(case), MORE, False):
            what = f"more {what}"
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


def take_more() -> None:
    """Have the tests run that are skipped for what an interpreter lacks, marked with ``MORE``."""
    testing = importlib.import_module("numba.cuda.testing")
    plain = testing.skip_on_cudasim

    def skip(reason: str) -> Callable[[Any], Any]:
        if any(word in reason.lower() for word in OF_COMPILERS_FOR_GPUS):
            found: Callable[[Any], Any] = plain(reason)
            return found

        def mark(test: Any) -> Any:
            setattr(test, MORE, True)
            return test

        return mark

    vars(testing)["skip_on_cudasim"] = skip
    support = vars(importlib.import_module("numba.cuda.tests.support"))
    for mixin in ("MemoryLeakMixin", "EnableNRTStatsMixin"):  # what leaks of a GPU's memory
        for method in ("setUp", "tearDown"):
            delattr(support[mixin], method)


def compile_libdevice(module: Any) -> None:
    """Have its tests compile for the CPU, where numba-cuda's compile to PTX."""
    if not hasattr(module, "TestLibdeviceCompilation"):
        return
    target = importlib.import_module("pyshmem.device.leaf.cpu.target")

    def compile_ptx(function: Any, kinds: Any) -> tuple[str, Any]:
        made = target.compiled(function)
        made.compile(kinds)
        assert made.overloads, function
        return "ld.param st.global", made.nopython_signatures[0].return_type

    module.compile_ptx = compile_ptx
    case = module.TestLibdeviceCompilation
    case.__unittest_skip__ = False
    setattr(case, MORE, True)


def give_bfloat16(module: Any, more: bool) -> None:
    """Have its tests find the functions that they do not import under numba-cuda's simulator.

    There they skip themselves, by what they ask of the device: so they do here but for ``more``.
    """
    if not hasattr(module, "TestBfloat16HighLevelBindings"):
        return
    if not more:
        module.TestBfloat16HighLevelBindings.__unittest_skip__ = True
        return
    names = vars(importlib.import_module("numba.cuda.bf16"))
    vars(module).update({name: value for name, value in names.items() if name[0] != "_"})
    setattr(module.TestBfloat16HighLevelBindings, MORE, True)


def have_programs_import_pyshmem(module: Any) -> None:
    """Have the programs that its tests start run kernels as this process does."""
    case = getattr(module, "TestPrint", None)
    if case is None:
        return
    plain = case.run_code

    def run_code(self: Any, code: str) -> Any:
        return plain(self, f"import pyshmem.device\n{code}")

    case.run_code = run_code


def _tests(suite: Any) -> Iterator[Any]:
    for one in suite:
        yield from _tests(one) if isinstance(one, unittest.TestSuite) else (one,)


def run_here(module: str, file: str, more: bool) -> None:
    """One module in this process, its rows as JSON in a file."""
    importlib.import_module("pyshmem.device")
    if more:
        take_more()
    outcome = _Outcome()
    module, _, part = module.partition("@")
    try:
        found = importlib.import_module(f"{TESTS}.{module}")
    except (unittest.SkipTest, pytest.skip.Exception) as error:  # the whole module
        Path(file).write_text(json.dumps([[module, "skipped", str(error)]]))
        return
    have_programs_import_pyshmem(found)
    if os.environ["PYSHMEM_DEVICE"] == "cpu":
        give_bfloat16(found, more)
        if more:
            compile_libdevice(found)
    tests = list(_tests(unittest.defaultTestLoader.loadTestsFromModule(found)))
    first, _, step = part.partition("/")
    unittest.TestSuite(tests[int(first or 0) :: int(step or 1)]).run(outcome)
    with open(file, "w") as out:
        json.dump(outcome.rows, out)


def run(module: str, device: str, more: bool, seconds: float) -> list[list[str]]:
    environment = dict(os.environ, PYSHMEM_DEVICE=device, NUMBA_ENABLE_CUDASIM="1")
    with tempfile.NamedTemporaryFile("r") as file:
        command = [sys.executable, __file__, "--here", file.name, module, *["--more"] * more]
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
    parser.add_argument(
        "--more", action="store_true", help="run what only an interpreter cannot do, too"
    )
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a module")
    parser.add_argument("--jobs", type=int, default=1, help="modules at a time")
    parser.add_argument("--rows", help="a file for what became of each test, as JSON")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_here(options.modules[0], options.here, options.more)
        return
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    package = importlib.import_module(TESTS)
    names = [one.name for one in pkgutil.iter_modules(package.__path__)]
    wanted = options.modules or [
        name for name in names if name.startswith("test_") and name not in OF_GPUS
    ]
    sums: Counter[str] = Counter()
    kept: list[list[str]] = []

    def one(module: str) -> list[list[str]]:
        return run(module, options.device, options.more, options.timeout)

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(one, module) for module in wanted]):
            rows = done.result()
            kept += rows
            if options.rows:
                Path(options.rows).write_text(json.dumps(kept, indent=0))
            for test, what, why in rows:
                if what.endswith("failed"):
                    known = reason_of(options.device, test)
                    what = f"{what}, known" if known else what
                    print(f"{test}: {known or ' '.join(why.split())[:200]}", flush=True)
                sums[what] += 1
    print(dict(sums))
    sys.exit(any(what.endswith("failed") for what in sums))


if __name__ == "__main__":
    main()
