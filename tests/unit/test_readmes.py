# SPDX-License-Identifier: BSD-3-Clause
"""Folders with many files start with a short README, whose names are right; nothing is long."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("pyshmem", "native", "host_proxy", "tests", "bench", "tools", "examples", "docs")
#: Data and pictures do not count: nobody reads them in an order.
READ = {".py", ".pyi", ".c", ".h", ".cpp", ".cu", ".sh", ".md"}
MOST_FILES, MOST_LINES = 5, 30
MOST_SOURCE_LINES, MOST_FUNCTION_LINES = 800, 60
#: What has callers.
CODE = ("pyshmem", "native", "host_proxy")
#: Made when the package is built.
MADE = {"shmem_types.h"}


def source_files() -> list[Path]:
    found = [path for tree in TREES for path in (ROOT / tree).rglob("*") if path.suffix in READ]
    return [path for path in found if "results" not in path.parts and path.is_file()]


FILES_IN = Counter(path.parent for path in source_files() if path.name != "README.md")
READMES = sorted(path for path in source_files() if path.name == "README.md")


@pytest.mark.parametrize(
    "folder",
    sorted(folder for folder, files in FILES_IN.items() if files > MOST_FILES),
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_large_folders_have_a_readme(folder: Path) -> None:
    assert (folder / "README.md").is_file()


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_readmes_are_short_and_name_what_is_there(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    for name in re.findall(r"`([\w./-]+\.(?:py|c|h|cpp|cu|md|sh)|[\w./-]+/)`", text):
        bases = (readme.parent, readme.parent.parent, ROOT, ROOT / "native" / "src")
        near = any((base / name).exists() for base in bases)
        below = any(str(path).endswith(f"/{name}") for path in readme.parent.rglob("*.*"))
        assert near or below or name in MADE, f"{name} is not there"


@pytest.mark.parametrize(
    "readme",
    [path for path in READMES if path.relative_to(ROOT).parts[0] in CODE],
    ids=lambda path: str(path.parent.relative_to(ROOT)),
)
def test_a_readme_of_code_begins_with_who_may_call_it(readme: Path) -> None:
    """The first sentence below the title."""
    title, blank, first = readme.read_text(encoding="utf-8").splitlines()[:3]
    assert title.startswith("# ")
    assert not blank
    assert first.startswith(("Called by ", "Called from ", "Called through "))


def test_no_source_file_has_more_than_800_lines() -> None:
    sources = [path for path in source_files() if path.suffix != ".md"]
    assert len(sources) > 300
    lengths = {path: path.read_text().count("\n") for path in sources}
    assert not {str(path): n for path, n in lengths.items() if n > MOST_SOURCE_LINES}


def is_triton_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Kernels may be long: they have no state to share, so a part takes nearly all their arguments."""
    return any(ast.unparse(each).startswith("triton.jit") for each in function.decorator_list)


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and lines of every function but kernels, from its ``def`` to its end."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_triton_kernel(node):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


#: As clang-format leaves them: from a name in the first column, over parameters on further lines, which
#: are indented, to a brace in the first column. No line of parameters has a text in it.
C_FUNCTION = re.compile(
    r"^\w[^;{}#\"\n]*?(\w+)\((?:[^;{}#\"\n]*\n[ \t]+)*[^;{}#\"\n]*"
    r"\{[ \t]*(?:/[/*].*)?\n(?:(?!\}).*\n)*\}",
    re.M,
)


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and lines of every function of a C source."""
    for found in C_FUNCTION.finditer(text):
        yield found[1], found[0].count("\n") + 1


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    find = python_functions if path.suffix == ".py" else c_functions
    return find(path.read_text(encoding="utf-8"))


PYTHON = """
@triton.jit(x=1)
def kernel():
    pass

@cache
def f(a):
    def g():

        pass
"""
C = """
typedef struct {
    int x;
} x_t;

static int f(int a, /* one */
             int b) {
    for (;;) {
    }
#if X
#endif

}
int g(void) { /* two */
}
"""


def test_functions_are_measured() -> None:
    assert list(python_functions(PYTHON)) == [("f", 4), ("g", 3)]
    assert list(c_functions(C)) == [("f", 8), ("g", 2)]


@pytest.mark.parametrize("suffix", [".py", ".c", ".h", ".cpp", ".cu"])
def test_no_function_has_more_than_60_lines(suffix: str) -> None:
    sources = [path for path in (*source_files(), *ROOT.glob("*.py")) if path.suffix == suffix]
    found = [(str(path), *function) for path in sources for function in functions_of(path)]
    assert len(found) > 5
    assert not [function for function in found if function[2] > MOST_FUNCTION_LINES]


def test_the_versions_of_python_are_the_same_everywhere() -> None:
    def text(name: str) -> str:
        return (ROOT / name).read_text(encoding="utf-8")

    project = tomllib.loads(text("pyproject.toml"))
    names = re.findall(r"Python :: (3\.\d+)", "\n".join(project["project"]["classifiers"]))
    numbers = [int(name.partition(".")[2]) for name in names]
    oldest, newest = numbers[0], numbers[-1]
    assert numbers == list(range(oldest, newest + 1))
    assert project["project"]["requires-python"] == f">=3.{oldest}"
    assert project["tool"]["cibuildwheel"]["build"] == [f"cp3{minor}-*" for minor in numbers]
    bootstrap = text("tools/bootstrap.sh")
    assert f"(3, {oldest}) <= v < (3, {newest + 1})" in bootstrap
    tried = re.search(r"for name in (.*) python3; do", bootstrap)
    assert tried
    assert sorted(tried[1].split()) == [f"python{name}" for name in names]
    assert f"python: {names}".replace("'", '"') in text(".github/workflows/ci.yml")
    for page in ("README.md", "CONTRIBUTING.md", "tools/bootstrap.sh"):
        assert f"Python 3.{oldest} to 3.{newest}" in text(page).replace("Python from", "Python")


def test_the_recipe_of_conda_asks_for_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    recipe = (ROOT / "tools" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r"^    - ([\w-]+) (>=[\d.]+)$", recipe, re.MULTILINE))
    listed = project["build-system"]["requires"] + project["project"]["dependencies"]
    assert asked == {(name, f">={bound}") for name, bound in (each.split(">=") for each in listed)}
    tools = [each for each in project["project"]["optional-dependencies"]["dev"] if "meson" in each]
    meson = re.search(r"meson_version: '>=(\d+\.\d+)", (ROOT / "meson.build").read_text())[1]
    assert tools == [project["build-system"]["requires"][0], f"meson>={meson}"]


def test_the_page_on_c_names_every_header() -> None:
    include = ROOT / "native" / "include"
    page = (ROOT / "docs" / "reference" / "c.md").read_text(encoding="utf-8")
    parts = {"shmem_deprecated.h", "shmem_generic.h", "shmem_overloads.h"}  # of shmem.h
    named = re.findall(r"^\| `(\S+)` \|", page, re.MULTILINE)
    assert set(named) == {path.name for path in include.glob("*.h")} - parts | {"mpp/shmem.h"}
    below = set(re.findall(r'"(ishmemx_\w+\.h)"', (include / "ishmemx.h").read_text()))
    first = named.index("ishmemx.h") + 1
    assert set(named[first:]) == below
