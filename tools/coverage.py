# SPDX-License-Identifier: BSD-3-Clause
"""Writes docs/coverage.md: each C function of OpenSHMEM 1.6, its Python name, file and tests.

    python tools/coverage.py          write it
    python tools/coverage.py --check  fail where it is out of date

The functions are those of ``tests/openshmem-functions-1.6.txt``. A family is what remains of a name
without ``ctx_``, TYPENAME and width: ``shmem_ctx_int32_atomic_add`` belongs to ``atomic_add``. Its
Python name is the same, unless ``PYTHON_NAMES`` gives another one.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pyshmem
from pyshmem._core.type_table import TYPENAMES

ROOT = Path(__file__).parent.parent
NAMES = ROOT / "tests" / "openshmem-functions-1.6.txt"
PAGE = ROOT / "docs" / "coverage.md"
TESTS = ROOT / "tests"

#: Families whose Python name is another one.
PYTHON_NAMES = {
    "align": "empty",
    "calloc": "zeros",
    "ctx_create": "Context",
    "ctx_destroy": "Context.destroy",
    "ctx_get_team": "Context.get_team",
    "ctx_session_start": "Context.session_start",
    "ctx_session_stop": "Context.session_stop",
    "init_thread": "init",
    "malloc": "empty",
    "malloc_with_hints": "empty",
    "query_initialized": "initialized",
    "team_create_ctx": "Team.create_ctx",
    "team_destroy": "Team.destroy",
    "team_get_config": "Team.get_config",
    "team_my_pe": "Team.my_pe",
    "team_n_pes": "Team.n_pes",
    "team_ptr": "Team.ptr",
    "team_split_2d": "Team.split_2d",
    "team_split_strided": "Team.split_strided",
    "team_sync": "Team.sync",
    "team_translate_pe": "Team.translate_pe",
}

#: The argument that selects the routine, where several share a Python name.
ARGUMENTS = {"align": "align=", "malloc_with_hints": "hints=", "init_thread": "thread_level="}

_TYPES = "|".join(sorted((t.name for t in TYPENAMES), key=len, reverse=True))


class Family(NamedTuple):
    """A family of C functions, which differ by type, width and context only."""

    name: str
    functions: list[str]
    typenames: list[str]


def family_of(function: str) -> tuple[str, str]:
    """The family of a C function, and the TYPENAME or width in its name."""
    name = function.removeprefix("shmem_")
    own_ctx = {"create", "destroy", "get_team", "session_start", "session_stop"}
    if name.startswith("ctx_") and name.removeprefix("ctx_") not in own_ctx:
        name = name.removeprefix("ctx_")
    if match := re.fullmatch(rf"({_TYPES})_(\w+)", name):
        return match[2], match[1]
    if match := re.fullmatch(r"(i?b?(?:put|get))(\d+|mem)(\w*)", name):
        return match[1] + match[3], match[2]
    if match := re.fullmatch(r"(broadcast|f?collect|alltoalls?)(mem)", name):
        return match[1], match[2]
    return name, ""


def families(names: list[str]) -> list[Family]:
    """All families, by name."""
    found: dict[str, Family] = {}
    for function in names:
        name, typename = family_of(function)
        family = found.setdefault(name, Family(name, [], []))
        family.functions.append(function)
        if typename and typename not in family.typenames:
            family.typenames.append(typename)
    return [found[name] for name in sorted(found)]


def python_name(family: str) -> str:
    """The Python name of a family."""
    return PYTHON_NAMES.get(family, family)


def resolve(name: str) -> Any:
    """The object of a public name, or None."""
    value: Any = pyshmem
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def file_of(name: str) -> str:
    """The file that defines a public name, relative to the repository."""
    value = inspect.unwrap(resolve(name))
    if isinstance(value, property):
        value = value.fget
    source = inspect.getsourcefile(value)
    assert source is not None
    return f"pyshmem/{Path(source).relative_to(Path(pyshmem.__file__).parent)}"


def used_names(path: Path) -> set[str]:
    """What a test file uses: routines, ``.methods``, ``keywords=`` and ``patterns_*``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            of_package = isinstance(node.value, ast.Name) and node.value.id == "pyshmem"
            found.add(node.attr if of_package else f".{node.attr}")
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(f"{node.arg}=")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(re.findall(r"pyshmem\.(\w+)", node.value))  # a program
        elif isinstance(node, ast.JoinedStr):  # getattr(pyshmem, f"{op}_reduce")
            parts = [str(v.value) if isinstance(v, ast.Constant) else "*" for v in node.values]
            if re.fullmatch(r"\w*(\*_reduce|atomic_\*\w*)", "".join(parts)):
                found.add("".join(parts))
    return found


def tests_of() -> dict[str, list[str]]:
    """The test files that use each name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.parent.name not in ("host", "pe"):  # the rest of tests/ looks at spellings only
            continue
        for name in used_names(path):
            found[name].append(str(path.relative_to(TESTS)))
    return found


def tests_for(family: str, tests: dict[str, list[str]]) -> list[str]:
    """The test files of a family."""
    name = python_name(family)
    wanted = ARGUMENTS.get(family, f".{name.rpartition('.')[2]}" if "." in name else name)
    found = list(tests.get(wanted, []))
    for used, paths in tests.items():
        pattern = re.escape(used).replace(
            r"\*", r"(?!\w*_nbi$)\w+" if "nbi" not in used else r"\w+"
        )
        if "*" in used and re.fullmatch(pattern, wanted):
            found += [path for path in paths if path not in found]
    return sorted(found)


def datatypes(family: Family) -> str:
    """The TYPENAMEs of a family, shortly."""
    types = [t for t in family.typenames if not re.fullmatch(r"\d+|mem", t)]
    sizes = [t for t in family.typenames if t not in types]
    parts = [f"{len(types)} types"] if types else []
    return " + ".join(parts + ([", ".join(sizes)] if sizes else []))


def page(names: list[str]) -> str:
    """The text of docs/coverage.md."""
    tests = tests_of()
    rows = families(names)
    lines = [
        "<!-- Made by tools/coverage.py; a test compares. -->",
        "# Coverage of OpenSHMEM 1.6",
        "",
        f"{len(names)} C functions in {len(rows)} families. A family is a routine with its forms by "
        "type, width and context; in Python the dtype of the arrays selects the type, `ctx=` the "
        "context.",
        "",
        "Tests are the files that use the Python name. The C functions have tests of their own besides: "
        "`tests/unit/test_coverage.py` looks for each in the library, "
        "`tests/spmd/host/test_host_c_functions.py` calls each that has a type or a width in its name, "
        "by that name, and `tests/native` has programs in C for the rest.",
        "",
        "| Family (C) | Functions | Datatypes | Python | File | Tests |",
        "|---|---|---|---|---|---|",
    ]
    for family in rows:
        name = python_name(family.name)
        known = resolve(name) is not None
        where = file_of(name) if known else "C only"
        spelled = f"`{name}({ARGUMENTS[family.name]})`" if family.name in ARGUMENTS else f"`{name}`"
        files = ", ".join(f"`{path}`" for path in tests_for(family.name, tests)) if known else ""
        lines.append(
            f"| `shmem_{family.name}` | {len(family.functions)} | {datatypes(family)} | "
            f"{spelled if known else '-'} | {where} | {files} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare it."""
    text = page(NAMES.read_text(encoding="utf-8").split())
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            print(f"{PAGE} is out of date: run python tools/coverage.py", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
