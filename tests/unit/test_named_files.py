# SPDX-License-Identifier: BSD-3-Clause
"""Files that comments name are there: a comment that points to one that has moved is untrue."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("pyshmem", "native", "host_proxy", "tests", "tools", "bench", "docs", "examples")
NAME = re.compile(r"(?<![\w./*<-])(?:[\w-]+/)*\w[\w-]*\.(?:c|h|py|hpp)(?![\w*(])")
#: Made by the build.
MADE = {"_native.c", "ishmemx_contract.h", "pysh_contract.h", "pysh_settings.h", "shmem_types.h"}
#: Of other projects, and of examples.
FOREIGN = {
    *("hello.py", "script.py", "path/to/_native.c", "path/to/ishmemx.h"),
    *(
        "cuda.h",
        "dlpack.h",
        "math.h",
        "cooperative_groups/details/sync.h",
        "signal.py",
        "secrets.py",
    ),
    *("TCPStoreBackend.hpp", "store_based_barrier.hpp"),
}
THERE = {
    str(path.relative_to(ROOT))
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".c", ".h", ".py", ".hpp", ".cpp")
} | {path.name for path in ROOT.glob("*.py")}
ENDS = {"/".join(name.split("/")[-n:]) for name in THERE for n in range(1, name.count("/") + 2)}
SOURCES = sorted(
    path
    for folder in ("pyshmem", "native", "host_proxy")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".c", ".h", ".py")
)


def comments_of(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from re.findall(r"/\*.*?\*/", text, flags=re.S)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or token.string.startswith(('"""', 'r"""')):
            yield token.string


def missing(text: str) -> set[str]:
    """The files that a comment names and that nobody has."""
    return set(NAME.findall(text)) - ENDS - MADE - FOREIGN


def test_the_walk_sees_names() -> None:
    assert missing("/* see base/status.c, conduit/shm/barrier.c */") == {"conduit/shm/barrier.c"}
    assert missing("# ``fused/roads.py`` and moved.py") == {"fused/roads.py"}


@pytest.mark.parametrize("folder", ["pyshmem", "native", "host_proxy"])
def test_comments_name_files_that_are_there(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / folder)
        for comment in comments_of(path)
        for name in missing(comment)
    }
    assert not found
