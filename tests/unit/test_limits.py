# SPDX-License-Identifier: BSD-3-Clause
"""How much a function takes and a folder holds. Lines of files and functions: ``test_readmes.py``.

A limit is a warning light, not a knife: what is over one has its name here, and whoever brings it under
the limit strikes it. Nothing may be added.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pyshmem"
MOST_PARAMETERS, MOST_OF_KERNELS, MOST_FILES = 12, 16, 15

#: By file: functions with more than 12 parameters, kernels with more than 16.
MANY_PARAMETERS = {
    "stream_kernels/small_messages.py": {"move"},
}
MANY_FILES: set[str] = set()

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters_of(function: Function) -> int:
    """How many there are, but for the object and the class of a method."""
    given = function.args
    named = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    return len([each for each in named if each.arg not in ("self", "cls")])


def is_kernel(function: Function) -> bool:
    """Kernels of Triton and Numba, and their functions: nothing else can give them what they need."""
    decorators = [ast.unparse(each) for each in function.decorator_list]
    return any("jit" in each or each == "device_function" for each in decorators)


def over_the_limit(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            most = MOST_OF_KERNELS if is_kernel(node) else MOST_PARAMETERS
            if parameters_of(node) > most:
                yield node.name


def test_the_walk_counts_parameters() -> None:
    many = ", ".join(f"a{n}" for n in range(13))
    assert list(over_the_limit(f"def f({many}): ...")) == ["f"]
    assert list(over_the_limit(f"class C:\n def f(self, /, *, {many[4:]}): ...")) == []
    assert list(over_the_limit(f"@triton.jit\ndef f({many}): ...")) == []
    assert list(over_the_limit(f"@device_function\ndef f({many}): ...")) == []
    assert list(over_the_limit(f"@triton.jit\ndef f({many}, b, c, d, e): ...")) == ["f"]


def test_functions_take_few_parameters() -> None:
    """Those that take more are listed, and no others: what has come under the limit is struck."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if names := set(over_the_limit(path.read_text(encoding="utf-8"))):
            found[str(path.relative_to(PACKAGE))] = names
    assert found == MANY_PARAMETERS


def test_folders_hold_few_files() -> None:
    """A folder that is over the limit is listed, and no other: one that is not any more is struck."""
    files = [path for path in PACKAGE.rglob("*.py") if path.stem != "__init__"]
    for tree in (ROOT / "native", ROOT / "host_proxy"):
        files += tree.rglob("*.c")
    counted = Counter(str(path.parent.relative_to(ROOT)) for path in files)
    assert {folder for folder, many in counted.items() if many > MOST_FILES} == MANY_FILES
