# SPDX-License-Identifier: BSD-3-Clause
"""The tree is the architecture: who imports whom, and what importing pyshmem does."""

from __future__ import annotations

import ast
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import pyshmem

PACKAGE = Path(pyshmem.__file__).parent

LAYERS = (
    ("_types", "_settings", "_errors", "_compat"),
    ("_lib",),
    (
        *("_dtypes", "_arrays", "_cupy", "_communicator"),
        *("heap", "teams", "contexts", "runtime", "query", "_calls"),
        *("requests", "_collective"),
    ),
    (
        *("rma", "strided", "atomics", "atomics_nbi", "signals", "sync", "wait_sets"),
        *("ordering", "collectives", "collectives_nb", "locks", "cutover", "proxy"),
    ),
    ("device", "profiling"),
    ("__init__",),
    ("interop", "launch", "cli", "bench", "__main__"),
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
OPERATIONS = LAYERS[3]
#: Run when the package is built, not part of it.
BUILD_ONLY = {"_ffi_build", "_native", "_fast"}
HEAVY = {"numba", "cupy", "torch", "mpi4py", "ml_dtypes", "greenlet", "matplotlib"}

FILES = [path for path in PACKAGE.rglob("*.py") if path.stem not in BUILD_ONLY]


def unit_of(path: Path) -> str:
    """The file, or the sub-package, that ``LAYERS`` lists."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path) -> set[str]:
    """What of pyshmem the file imports, anywhere in it: units of ``LAYERS``."""
    parents = path.relative_to(PACKAGE).parts[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["pyshmem", *parents][: len(parents) + 2 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            parts = module.split(".")
            if parts[0] == "pyshmem":
                unit = parts[1] if len(parts) > 1 else "__init__"
                found.add(unit if unit in LAYER or unit in BUILD_ONLY else "__init__")
    return found - {unit_of(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    unit = unit_of(path)
    assert unit in LAYER, f"{unit} has no layer yet: add it to LAYERS"
    for imported in imports_of(path) - BUILD_ONLY:
        assert LAYER[imported] <= LAYER[unit], f"{unit} imports {imported}, which is above it"
        sideways = unit in OPERATIONS and imported in OPERATIONS
        assert not sideways, f"{unit} imports {imported}: operation modules are independent"


def test_only_lib_imports_the_extension() -> None:
    assert {unit_of(path) for path in FILES if "_native" in imports_of(path)} == {"_lib"}
    assert {unit_of(path) for path in FILES if "_fast" in imports_of(path)} == {"_calls"}


def test_the_build_reads_tables_without_the_package() -> None:
    standard = set(sys.stdlib_module_names)
    for name in ("_types", "_settings"):
        tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= standard
            if isinstance(node, ast.ImportFrom):
                assert not node.level
                assert str(node.module).split(".")[0] in standard


def run_python(code: str, **environment: str) -> str:
    """What ``code`` prints in a fresh interpreter."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return result.stdout.strip()


def test_import_loads_nothing_heavy_and_starts_nothing() -> None:
    code = """
import os, sys, threading
before = set(os.listdir("/proc/self/fd"))
import pyshmem
heavy = {name.partition(".")[0] for name in sys.modules} & %r
print(sorted(heavy), threading.active_count(), pyshmem.initialized(),
      any("nvidia" in line for line in open("/proc/self/maps")))
""" % (HEAVY | {"click", "rich"})
    assert run_python(code) == "[] 1 False False"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PYSHMEM_DEVICE": "sim"}, "1"),
        ({"PYSHMEM_DEVICE": "none"}, "None"),
        ({"PYSHMEM_DEVICE": "cuda"}, "None"),
        ({"PYSHMEM_DEVICE": "sim", "NUMBA_ENABLE_CUDASIM": "0"}, "0"),
    ],
    ids=["sim", "none", "cuda", "user"],
)
def test_import_arranges_the_simulator(environment: dict[str, str], expected: str) -> None:
    code = "import os, pyshmem; print(os.environ.get('NUMBA_ENABLE_CUDASIM'))"
    assert run_python(code, **environment) == expected


def test_public_names_are_there_and_documented() -> None:
    assert len(set(pyshmem.__all__)) == len(pyshmem.__all__)
    for name in pyshmem.__all__:
        value = getattr(pyshmem, name)
        if callable(value):
            assert value.__doc__, f"pyshmem.{name} has no docstring"


def code_lines(path: Path) -> int:
    """Lines that are not blank, comments or docstrings."""
    apart: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            apart |= set(range(node.lineno, node.end_lineno + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    with path.open("rb") as file:
        rows = [t for t in tokenize.tokenize(file.readline) if t.string and t.type not in blank]
    lines = {n for t in rows[1:] for n in range(t.start[0], t.end[0] + 1)}
    return len(lines - apart)


def test_the_device_library_stays_small() -> None:
    """Under 3,000 lines for all scopes and dtypes; the simulator is an accelerator of its own."""
    files = [path for path in (PACKAGE / "device").rglob("*.py") if "simulator" not in path.parts]
    assert sum(map(code_lines, files)) < 3000


def test_both_accelerators_have_the_same_leaves() -> None:
    def listed(path: Path) -> set[str]:
        text = path.read_text()
        start = text.index("__all__ = [") + len("__all__ = ")
        return set(ast.literal_eval(text[start : text.index("]", start) + 1]))

    device = PACKAGE / "device"
    cuda = set().union(*map(listed, device.glob("_leaf_cuda*.py")))
    assert cuda == set().union(*map(listed, (device / "simulator").glob("leaves*.py")))
