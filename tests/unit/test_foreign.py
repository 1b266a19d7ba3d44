# SPDX-License-Identifier: BSD-3-Clause
"""Other packages' insides: one folder touches them, and each place is as that folder knows it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyshmem._foreign.hooks import Hook

PACKAGE = Path(__file__).parents[2] / "pyshmem"
FOREIGN = {"numba", "triton", "torch", "cupy", "llvmlite", "cuda"}

#: By file: what must be installed, and the variable under which it is imported.
FILES = {
    "numba_cuda": ("numba", "cuda"),
    "numba_cuda_texts": ("numba", "cuda"),
    "numba_types": ("numba", "cuda"),
    "numba_simulator": ("numba", "sim"),
    "numba_cpu": ("numba", "cpu"),
    "numba_errors": ("numba", "cpu"),
    "numba_extending": ("numba", "cpu"),
    "triton": ("triton", "cuda"),
    "gluon": ("triton", "cuda"),
    "triton_interpreter": ("triton", "sim"),
    "torch": ("torch", "none"),
}


def test_every_file_is_asked() -> None:
    files = {path.stem for path in (PACKAGE / "_foreign").glob("*.py")}
    assert files - {"__init__", "hooks", "environment"} == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_places_in_other_packages_are_as_we_know_them(name: str) -> None:
    """A new version of the package that has changed one is told of here, by its name and parameters."""
    package, device = FILES[name]
    pytest.importorskip(package)
    code = f"""
import pyshmem
from pyshmem._foreign.{name} import HOOKS
assert HOOKS
print([why for hook in HOOKS if (why := hook.complaint())])
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", "PYSHMEM_DEVICE": device},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.stdout.strip(), found.returncode) == ("[]", 0), found.stderr


class Owner:
    value = 1

    def method(self, first: int, second: int = 0) -> int:
        """Of the owner."""
        return first + second


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        (Hook(Owner, "method", "self first"), ""),
        (Hook(Owner, "value"), ""),
        (Hook(Owner, "other"), "Owner.other is not there"),
        (Hook(Owner, "value", "self"), "Owner.value is no function"),
        (Hook(Owner, "method", "self second"), "Owner.method takes (self, first, second), not"),
    ],
    ids=["function", "value", "gone", "no function", "other parameters"],
)
def test_a_hook_says_what_has_changed(hook: Hook, why: str) -> None:
    assert hook.complaint().startswith(why)
    assert bool(hook.complaint()) == bool(why)


def test_a_hook_keeps_the_name_of_what_it_wraps() -> None:
    class Mine(Owner):
        pass

    Hook(Mine, "method").wrap(lambda plain: lambda self, *given: -plain(self, *given))
    assert Mine().method(2, 3) == -5
    assert (Mine.method.__name__, Mine.method.__doc__) == ("method", "Of the owner.")
    assert Owner().method(2, 3) == 5


def names_of(tree: ast.AST) -> dict[str, str]:
    """What other packages' names the file has, by its own names for them."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return {mine: name for mine, name in found.items() if name.partition(".")[0] in FOREIGN}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def root_of(node: ast.AST) -> str:
    """The name that an expression begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def targets_of(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement assigns to."""
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
        yield ast.Attribute(node.args[0], "", ast.Store())


def complaints(text: str) -> list[str]:
    """Assignments into other packages, and uses of their private names."""
    tree = ast.parse(text)
    names = names_of(tree)
    found = [name for name in names.values() if any(map(is_private, name.split(".")))]
    for node in ast.walk(tree):
        found += [
            f"{ast.unparse(target)} = "
            for target in targets_of(node)
            if isinstance(target, ast.Attribute) and root_of(target) in names
        ]
        if isinstance(node, ast.Attribute) and is_private(node.attr) and root_of(node) in names:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize(
    ("text", "many"),
    [
        ("from numba import cuda\ncuda.f = 1", 1),
        ("import numba.cuda as c\nsetattr(c.api, name, 1)", 1),
        ("from triton._utils import x", 1),
        ("import torch\ntorch._C.f()", 1),
        ("import torch\nx = torch.ones(1)\nx.grad = 1\ntorch.__version__", 0),
        ("from .numba import cuda\ncuda.f = cuda._g", 0),
    ],
)
def test_the_walk_sees_what_it_looks_for(text: str, many: int) -> None:
    assert len(complaints(text)) == many


def test_one_folder_reaches_into_other_packages() -> None:
    found = {
        str(path.relative_to(PACKAGE)): wrong
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "_foreign" and (wrong := complaints(path.read_text("utf-8")))
    }
    assert found == {}


ARGUMENTS = """
import re
import pyshmem
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from pyshmem._foreign.triton import loaded


@triton.jit
def kernel(a, n, b, f, one, c, q, u, d, W: tl.constexpr):
    more = n + q + u.to(tl.int64) + one
    tl.store(a + tl.arange(0, W) + more, tl.load(b) + f + d.to(tl.float32) + tl.load(c))


@triton.jit
def narrow(a, n):
    tl.store(a, n)


def made(kernel, constants, **types):
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2})


types = dict(a="*fp32", n="i32", b="*bf16", f="fp32", one="constexpr")
types |= dict(c="*i64", q="i64", u="u32", d="fp64")
found = made(kernel, {"one": 1, "W": 32}, **types)
bits = {"P": "u64", "i": "u32", "I": "u32", "q": "u64", "f": "f32", "d": "f64"}
arguments = re.findall(r"[.]param [.](\\w+)", found.asm["ptx"])
print([bits[kind] for kind in loaded(found).kinds] == arguments)
print(loaded(found).places, loaded(found).threads, loaded(made(narrow, {}, a="*i8", n="i8")))
"""


def test_a_kernel_of_triton_takes_what_we_say_that_it_takes(tmp_path: Path) -> None:
    """Its machine code does: what the signature says, and scratch memory behind it."""
    pytest.importorskip("triton")
    program = tmp_path / "arguments.py"  # Triton reads the source of kernels
    program.write_text(ARGUMENTS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program],
        env={"PATH": "/usr/bin:/bin", "PYSHMEM_DEVICE": "cuda", "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "True\n(0, 1, 2, 3, 5, 6, 7, 8) 64 None\n", done.stderr


COLLECTOR = """
import gc, sys
{before}
import pyshmem
from numba import cuda
import pyshmem.device
print(gc.isenabled(), gc.get_freeze_count() > 50_000)
"""


@pytest.mark.parametrize(
    ("device", "before", "seen"),
    [("sim", "", "True True"), ("cuda", "", "True False"), ("sim", "gc.disable()", "False True")],
)
def test_the_collector_rests_while_numba_is_imported(device: str, before: str, seen: str) -> None:
    """It is as it was afterwards; where kernels run on CPUs it leaves alone what is there then."""
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-c", COLLECTOR.format(before=before)],
        env={"PATH": "/usr/bin:/bin", "PYSHMEM_DEVICE": device},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == f"{seen}\n", done.stderr
