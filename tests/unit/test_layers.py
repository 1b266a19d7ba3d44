# SPDX-License-Identifier: BSD-3-Clause
"""The tree is the architecture: who imports whom, and what importing pyshmem does."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyshmem

PACKAGE = Path(pyshmem.__file__).parent

#: Folders and files of the package, lowest first; an entry may import its own layer and those below.
LAYERS = (
    ("_foreign",),
    ("_core",),
    ("host.job",),
    ("host.kernels",),
    ("host.teams",),
    ("host.memory",),
    ("host.tuning",),
    ("host",),
    ("host.collectives",),
    ("host.observe",),
    ("check",),
    ("device", "triton.runtime", "launcher"),
    ("triton.interpreter",),
    ("triton.primitives",),
    ("triton",),
    ("__init__", "typing", "gluon", "stream_kernels", "streams", "profiling", "cutover"),
    ("_torch",),
    (
        "interop.torch",
    ),  # the backend of torch.distributed; importing pyshmem.fused registers it too
    ("fused._shared",),
    ("fused.formats",),
    ("fused.exchange", "fused.matmul", "fused.all_reduce_norm"),
    ("fused.moe", "fused.flash_decode"),
    ("fused.grouped_matmul",),
    ("fused", "interop"),
    ("cli", "bench", "__main__"),
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
#: Routines of the host by chapter of the specification: they are independent of each other.
OPERATIONS = {
    f"host.{name}"
    for name in (
        *("rma", "strided", "atomics", "signals", "sync", "waits", "ordering"),
        *(
            "locks",
            "tuning.cutover",
            "messages",
            "collectives.data_movement",
            "collectives.nonblocking",
            "collectives.reductions",
        ),
    )
}
#: Run when the package is built, not part of it.
BUILD_ONLY = {"_core.ffi_build", "_core._native", "_core._fast"}
HEAVY = {"numba", "cupy", "torch", "triton", "mpi4py", "ml_dtypes", "greenlet", "matplotlib"}

FILES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
    if path.stem != "ffi_build"
}


def unit_of(module: str) -> str:
    """The longest folder, or the file at the top, that ``LAYERS`` lists."""
    parts = module.split(".")
    heads = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((head for head in heads if head in LAYER), parts[0])


def module_of(name: str) -> str | None:
    """The file behind a dotted name below ``pyshmem``: the module that the name is, or is in."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        for candidate in (".".join(parts[:end]), ".".join([*parts[:end], "__init__"])):
            if candidate in FILES or candidate in BUILD_ONLY:
                return candidate
    return "__init__"


def statements_of(tree: ast.AST) -> Iterator[ast.AST]:
    """All of the tree but what only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from statements_of(node)


def string_of(node: ast.AST) -> str | None:
    """The name that a call of ``import_module`` or ``__import__`` is given as a constant."""
    if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
        return None
    imports = ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
    return str(node.args[0].value) if imports else None


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def strings_of(module: str) -> set[str]:
    """What of pyshmem the file imports by a string."""
    names = filter(None, map(string_of, statements_of(tree_of(module))))
    return {module_of(name.partition(".")[2]) for name in names if name.split(".")[0] == "pyshmem"}


def imports_of(module: str) -> set[str]:
    """What of pyshmem the file imports by statements, anywhere in it, as keys of ``FILES``."""
    parents = module.split(".")[:-1]
    found: set[str] = set()
    for node in statements_of(tree_of(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["pyshmem", *parents][: len(parents) + 2 - node.level] if node.level else []
            base_name = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{base_name}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {
            module_of(name.partition(".")[2]) for name in names if name.split(".")[0] == "pyshmem"
        }
    return found - {module, None}


@pytest.mark.parametrize("module", FILES)
def test_imports_go_down_only(module: str) -> None:
    unit = unit_of(module)
    assert unit in LAYER, f"{unit} has no layer yet: add it to LAYERS"
    for imported in imports_of(module) - BUILD_ONLY:
        other = unit_of(imported)
        assert LAYER[other] <= LAYER[unit], f"{module} imports {imported}, which is above it"
        sideways = module in OPERATIONS and imported in OPERATIONS
        assert not sideways, f"{module} imports {imported}: operation modules are independent"


def test_strings_go_down_only() -> None:
    """A module that is imported by a string is imported."""
    edges = {(module, other) for module in FILES for other in strings_of(module)}
    assert not {(a, b) for a, b in edges if LAYER[unit_of(b)] > LAYER[unit_of(a)]}


def test_the_walk_sees_imports_by_string() -> None:
    found = map(string_of, ast.walk(ast.parse("importlib.import_module('pyshmem.host', x)")))
    assert "pyshmem.host" in found


def test_no_files_import_each_other_in_a_circle() -> None:
    below = {module: (imports_of(module) | strings_of(module)) & FILES.keys() for module in FILES}
    order = graphlib.TopologicalSorter(below)
    order.prepare()  # raises CycleError with the circle


def test_only_lib_imports_the_extension() -> None:
    def importers(extension: str) -> set[str]:
        return {module for module in FILES if f"_core.{extension}" in imports_of(module)}

    assert importers("_native") == {"_core.library"}
    # Arrays are checked below the routines: their look at tensors cannot come by way of these.
    assert importers("_fast") == {"host.fast_calls", "_core.arrays.tensors"}


def test_the_build_reads_tables_without_the_package() -> None:
    standard = set(sys.stdlib_module_names)
    for name in ("type_table", "settings"):
        tree = ast.parse((PACKAGE / "_core" / f"{name}.py").read_text(encoding="utf-8"))
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
        ({"PYSHMEM_DEVICE": "sim"}, "True"),
        ({"PYSHMEM_DEVICE": "none"}, "False"),
        ({"PYSHMEM_DEVICE": "cuda"}, "False"),
        ({"PYSHMEM_DEVICE": "sim", "NUMBA_ENABLE_CUDASIM": "0"}, "False"),
        ({"PYSHMEM_DEVICE": "cuda", "NUMBA_ENABLE_CUDASIM": "1"}, "True"),
    ],
    ids=["sim", "none", "cuda", "user-off", "user-on"],
)
@pytest.mark.parametrize("before", ["", "import numba", "import pyshmem, numba.core.config"])
def test_import_arranges_the_simulator(
    environment: dict[str, str], expected: str, before: str
) -> None:
    code = f"""
{before}
import pyshmem
from numba import cuda
print(hasattr(cuda, "simulator") and "simulator" in cuda.jit.__module__)
"""
    assert run_python(code, **environment) == expected


def test_the_simulator_stays_when_numba_reads_its_variables_again() -> None:
    code = """
import os, pyshmem
from numba.cuda.core import config
os.environ["NUMBA_CAPTURED_ERRORS"] = "new_style"
config.reload_config()
print(config.ENABLE_CUDASIM)
"""
    assert run_python(code, PYSHMEM_DEVICE="sim") == "1"


def test_children_of_a_program_do_not_inherit_the_simulator() -> None:
    code = """
import os, subprocess, sys
before = dict(os.environ)
import pyshmem
from numba import cuda
child = "from numba.cuda.core import config; print(config.ENABLE_CUDASIM)"
subprocess.run([sys.executable, "-c", child])
print(os.environ == before)
"""
    assert run_python(code, PYSHMEM_DEVICE="sim").split() == ["0", "True"]


@pytest.mark.parametrize("first", ["import pyshmem", "from numba import cuda"])
def test_numpy_without_row_stack_stays_without(first: str) -> None:
    """NumPy 2.5 has dropped the name, which numba-cuda asks for as it compiles its first kernel."""
    code = f"""
import numpy as np
vars(np).pop("row_stack", None)
{first}
import pyshmem
from numba import cuda, types
cuda.compile_ptx(lambda a: None, (types.int64,), cc=(9, 0))
import sys
print("numba.cuda.np.arrayobj" in sys.modules, hasattr(np, "row_stack"))
"""
    assert run_python(code, PYSHMEM_DEVICE="cuda") == "True False"


def test_the_simulator_needs_no_library_of_cuda() -> None:
    """numba-cuda asks libcudart for its version as it is imported; laptops have none."""
    code = """
from cuda.bindings import runtime
def missing():
    raise RuntimeError("no libcudart.so.13")
runtime.getLocalRuntimeVersion = missing
import pyshmem
from numba import cuda
print(cuda.__name__, runtime.getLocalRuntimeVersion is missing)
"""
    assert run_python(code, PYSHMEM_DEVICE="sim") == "numba.cuda True"


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
    """Under 3,500 lines for all scopes and dtypes, without kernels on CPUs and what is done to Numba."""
    others = {"sim", "cpu", "jit"}
    files = [p for p in (PACKAGE / "device").rglob("*.py") if not others & set(p.parts)]
    assert sum(map(code_lines, files)) < 3500


def test_all_accelerators_have_the_same_leaves() -> None:
    def listed(path: Path) -> set[str]:
        text = path.read_text()
        if "__all__ = [" not in text:
            return set()
        start = text.index("__all__ = [") + len("__all__ = ")
        return set(ast.literal_eval(text[start : text.index("]", start) + 1]))

    leaf = PACKAGE / "device" / "leaf"

    def all_of(*folders: str) -> set[str]:
        files = [path for folder in folders for path in (leaf / folder).glob("[!_]*.py")]
        return set().union(*map(listed, files))

    simulated = [
        leaf / "sim" / f"{name}.py" for name in ("threads", "elements", "stages", "packets")
    ]
    assert all_of("cuda", "compiled") == set().union(*map(listed, simulated))
    assert all_of("cpu", "compiled") == all_of("cuda", "compiled")


def test_one_place_makes_every_device_routine() -> None:
    code = """
import pyshmem
from pyshmem import device
from pyshmem.device.routine import ROUTINES
public = {name for name in device.__all__ if name.islower()}
print(sorted(public - set(ROUTINES)), sorted(set(ROUTINES) - public))
"""
    # Of the host's side, and the one that gives kernels an array, which only an intrinsic can.
    assert run_python(code, PYSHMEM_DEVICE="sim") == "['as_argument', 'prepare', 'ptr'] []"


def test_type_checkers_see_every_device_routine(tmp_path: Path) -> None:
    """The stub is made without Numba, from stand-ins: it has what the package has."""
    tool, stub = Path(__file__).parents[2] / "tools" / "device_stub.py", tmp_path / "device.pyi"
    subprocess.run([sys.executable, "-I", "-S", str(tool), str(stub)], check=True)
    code = f"""
import inspect
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
import pyshmem
from pyshmem import device

def parameters(function):
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]

loader = SourceFileLoader("stub", {str(stub)!r})
module = module_from_spec(spec_from_loader("stub", loader))
loader.exec_module(module)
stub = {{**vars(module), **module.__annotations__}}
others = "Any", "Cmp", "SignalOp"
public = {{name for name in stub if name not in others and not name.startswith("__")}}
print(sorted(public ^ set(device.__all__)))
for name in sorted(public & set(device.__all__)):
    value, shown = getattr(device, name), stub[name]
    if not (parameters(value) == parameters(shown) if callable(value) else type(value) is shown):
        print(name)
"""
    assert run_python(code, PYSHMEM_DEVICE="sim") == "[]"
