# SPDX-License-Identifier: BSD-3-Clause
"""The tree is the architecture for C as well: who includes whom in native/ and host_proxy/."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "native" / "src"

#: From the bottom up. A folder includes its own headers and those of the rows above its own in this
#: list; two folders of a row do not know each other.
LAYERS = (
    ("base",),
    ("accel",),
    ("join",),
    ("node",),
    ("transport",),
    ("agree",),
    ("memory",),
    ("accel/cuda", "accel/sim", "transport/mapped", "transport/openshmem"),
    ("accel/engine", "fiber", "transport/ucx"),
    ("am",),
    ("teams",),
    ("ops",),
    ("collectives",),
    ("host_proxy",),
    ("device",),
    ("stream",),
    ("api",),
)
LAYER = {folder: number for number, folders in enumerate(LAYERS) for folder in folders}
#: Headers that users get, or that the build makes; and the one that kernels share.
PUBLIC = {path.name for path in (ROOT / "native" / "include").iterdir() if path.suffix == ".h"}
GENERATED = {"shmem_types.h", "pysh_settings.h", "ishmemx_contract.h", "pysh_contract.h"}

FILES = sorted(path for folder in (SOURCES, ROOT / "host_proxy") for path in folder.rglob("*.[ch]"))


def name_of(path: Path) -> str:
    """The file as an include names it."""
    return str(path.relative_to(ROOT if path.is_relative_to(ROOT / "host_proxy") else SOURCES))


NAMES = {name_of(path): path for path in FILES}


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def includes_of(text: str) -> list[str]:
    """The headers in quotes that ``text`` includes, less those of users and of the build."""
    found = re.findall(r'^#include "([^"]+)"', text, flags=re.M)
    return [name for name in found if name not in PUBLIC | GENERATED]


def complaint(name: str, included: str) -> str:
    """What is wrong with ``name`` including ``included``; empty when nothing is."""
    own, other = folder_of(name), folder_of(included)
    if included not in NAMES:
        return f"{name} includes {included}, which is no header of a layer"
    if own not in LAYER:
        return f"{own} has no layer yet: add it to LAYERS"
    if own != other and LAYER[other] >= LAYER[own]:
        return f"{name} includes {included}, which is not below it"
    return ""


def circle_in(graph: dict[str, list[str]]) -> list[str]:
    """A circle of ``graph``, or nothing."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for included in graph.get(name, []):
            if found := visit(included, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])


@pytest.mark.parametrize("name", NAMES)
def test_includes_go_down_only(name: str) -> None:
    included = includes_of(NAMES[name].read_text(encoding="utf-8"))
    assert [why for header in included if (why := complaint(name, header))] == []


def test_the_walk_notices_what_it_looks_for() -> None:
    assert complaint("base/status.c", "ops/rma.h")
    assert complaint("accel/cuda/engine.c", "transport/mapped/mapped.h")
    assert complaint("ops/rma.c", "internal.h")
    assert not complaint("api/init.c", "teams/team.h")
    assert circle_in({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]


def test_no_header_includes_itself_on_a_detour() -> None:
    graph = {name: includes_of(path.read_text(encoding="utf-8")) for name, path in NAMES.items()}
    assert circle_in(graph) == []


def declared_in(text: str) -> set[str]:
    """The functions and variables that a header declares without a body."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    found = re.findall(r"^(?!typedef|static)\w[\w *]*?\b(pysh_\w+)\([^;{}]*\)[^;{}]*;", text, re.M)
    return {*found, *re.findall(r"^extern [^;]*?(\w+)(?:\[\])?;", text, flags=re.M)}


def defined_in(text: str) -> set[str]:
    """The functions and variables that a source file defines."""
    found = re.findall(
        r"^(?!static|typedef|#)[a-z][^;={}#\n]*?\b(pysh_\w+)\([^;{}]*\) \{", text, re.M
    )
    found += re.findall(r"^(?!static|typedef|extern|#)[\w *]*?\b(pysh\w*)(?: = |;)", text, re.M)
    for macro, name in re.findall(r"^([A-Z]+)\((pysh_\w+)\(", text, flags=re.M):
        found += [name] if f"#define {macro}(_name" in text else []
    return set(found)


HEADERS = [name for name in NAMES if name.endswith(".h")]


@pytest.mark.parametrize("name", HEADERS)
def test_what_a_header_declares_is_defined_beside_it(name: str) -> None:
    """No header lends its name to a function of a higher layer."""
    beside = [path for other, path in NAMES.items() if folder_of(other) == folder_of(name)]
    defined = set().union(*(defined_in(path.read_text(encoding="utf-8")) for path in beside))
    assert declared_in(NAMES[name].read_text(encoding="utf-8")) - defined == set()


def test_state_h_has_the_state_alone() -> None:
    text = NAMES["base/state.h"].read_text(encoding="utf-8")
    assert declared_in(text) == {"pysh", "pysh_state_clear"}


ALL_C = [path for folder in ("native", "host_proxy") for path in (ROOT / folder).rglob("*.[ch]")]


@pytest.mark.parametrize("path", ALL_C, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_has_more_than_800_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 800


@pytest.mark.parametrize("folder", sorted({path.parent for path in ALL_C}), ids=lambda p: p.name)
def test_a_large_folder_starts_with_a_readme(folder: Path) -> None:
    readme = folder / "README.md"
    if len([path for path in folder.iterdir() if path.is_file()]) > 5:
        assert readme.is_file()
    if readme.is_file():
        assert len(readme.read_text(encoding="utf-8").splitlines()) <= 30


# ---- what only one place may do --------------------------------------------------------------------

#: A call, and the files that make it: all others go through what is declared there.
ONLY_THERE = {
    r"\b(?:write|writev|v?[df]printf|printf|f?puts|fputc|putchar|fwrite|perror|psignal)\(": {
        "base/say.c",
        "base/settings.c",  # what SHMEM_INFO asks for, in init
        "accel/engine/process.c",  # of a process that somebody has started by hand
    },
    r"\bpthread_create\(": {"base/thread.c"},
}


def code_of(text: str) -> str:
    return re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', "", text, flags=re.S)


@pytest.mark.parametrize("call", ONLY_THERE)
def test_what_may_keep_others_waiting_is_in_one_place(call: str) -> None:
    callers = {
        name
        for name, path in NAMES.items()
        if re.search(call, code_of(path.read_text(encoding="utf-8")))
    }
    assert callers == ONLY_THERE[call]


# ---- the same by the linker --------------------------------------------------------------------------


def built_objects() -> dict[str, Path]:
    """The latest object of each source that a build of this tree has left, by the source's name.

    Meson calls them ``src_ops_rma.c.o`` and ``.._host_proxy_proxy.c.o``.
    """
    found: dict[str, Path] = {}
    for name in NAMES:
        flat = (name if name.startswith("host_proxy") else f"src/{name}").replace("/", "_") + ".o"
        flat = f".._{flat}" if name.startswith("host_proxy") else flat
        made = list((ROOT / "build").glob(f"*/native/libpyshmem*.p/{flat}"))
        if made:
            found[name] = max(made, key=lambda path: path.stat().st_mtime)
    return found


def symbols_of(made: Path) -> tuple[set[str], set[str]]:
    """What an object defines for others, and what it wants of them."""
    defined, wanted = set(), set()
    for line in subprocess.run(
        ["nm", made], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        *_, kind, symbol = line.split()
        if kind in "TDBRVW":
            defined.add(symbol)
        elif kind == "U":
            wanted.add(symbol)
    return defined, wanted


def upward(symbols: dict[str, tuple[set[str], set[str]]]) -> list[str]:
    home = {symbol: name for name, (defined, _) in symbols.items() for symbol in defined}
    return [
        f"{name} uses {symbol} of {home[symbol]}, which is not below it"
        for name, (_, wanted) in sorted(symbols.items())
        for symbol in sorted(wanted & home.keys())
        if folder_of(name) != folder_of(home[symbol])
        and LAYER[folder_of(home[symbol])] >= LAYER[folder_of(name)]
    ]


def test_no_object_uses_a_symbol_of_a_higher_layer() -> None:
    """Sees what no include shows: a declaration by hand, a table filled from above."""
    objects = built_objects()
    if not objects or not shutil.which("nm"):
        pytest.skip("no build in build/, or no nm: an editable install leaves one")
    assert set(objects) == {name for name in NAMES if name.endswith(".c")}
    assert upward({name: symbols_of(made) for name, made in objects.items()}) == []


def test_the_walk_of_objects_notices_what_it_looks_for() -> None:
    below, above = ({"pysh_clock"}, {"pysh_init"}), ({"pysh_init"}, {"pysh_clock"})
    assert upward({"base/clock.c": below, "api/init.c": above}) == [
        "base/clock.c uses pysh_init of api/init.c, which is not below it"
    ]


# ---- names -------------------------------------------------------------------------------------------

#: Twins on purpose: tables of functions with the names of their entries.
SHORT_NAMES = ("accel/cuda", "accel/sim")


def statics_of(text: str) -> set[str]:
    """The functions that a source file keeps for itself."""
    return set(re.findall(r"^static [\w ]*?[\w*]+[ *]+(\w+)\([^;{}]*\) \{", text, flags=re.M))


def test_a_static_name_says_whose_it_is() -> None:
    """One that three files or more have tells nothing in a stack trace or a profile."""
    files_of: dict[str, set[str]] = {}
    for name, path in NAMES.items():
        if name.endswith(".c") and folder_of(name) not in SHORT_NAMES:
            for static in statics_of(path.read_text(encoding="utf-8")):
                files_of.setdefault(static, set()).add(name)
    assert {"take", "proxy_take"} & files_of.keys() == {"proxy_take"}
    assert {static: files for static, files in files_of.items() if len(files) > 2} == {}
