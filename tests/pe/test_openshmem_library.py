# SPDX-License-Identifier: BSD-3-Clause
"""What is said of OpenSHMEM libraries that will not do; none needs to be installed."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RunCommand = Callable[..., object]

HEADER = Path(__file__).parents[2] / "native" / "src" / "transport" / "openshmem" / "library.h"
NAMES = ["liboshmem.so.40", "liboshmem.so", "libsma.so.1", "libsma.so"]
DESCRIBE = """
import ctypes, sys
from pyshmem._core.library import ffi, lib
for other in sys.argv[1:]:
    ctypes.CDLL(other)
text = ffi.new("char[]", 4096)
status = lib.ishmemx_openshmem_describe(text, 4096)
print(ffi.string(lib.ishmemx_error() if status else text).decode())
sys.exit(status)
"""
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def describe(run_command: RunCommand, *others: Path, **variables: str):
    command = [sys.executable, "-c", DESCRIBE, *map(str, others)]
    return run_command(command, 30, **variables)


@pytest.fixture
def fake(tmp_path: Path, run_command: RunCommand) -> Callable[[str, str], Path]:
    """``fake(name, text)``: a library of this C text."""

    def make(name: str, text: str) -> Path:
        source, library = tmp_path / "fake.c", tmp_path / name
        source.write_text(text)
        run_command(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], 60, check=True)
        return library

    return make


def version(minor: int) -> str:
    body = f"*major = 1; *minor = {minor};"
    return f"void shmem_info_get_version(int *major, int *minor) {{ {body} }}"


def test_no_library_at_all_lists_what_was_tried(run_command: RunCommand, tmp_path: Path) -> None:
    for name in NAMES:  # found before an installed one, and no library
        (tmp_path / name).write_text("not a library, but long enough for one to look like it\n" * 9)
    done = describe(run_command, LD_LIBRARY_PATH=str(tmp_path), PYSHMEM_OPENSHMEM_LIBRARY="")
    assert done.returncode
    assert "no OpenSHMEM library was found; tried:" in done.stdout
    assert all(f"{name}: invalid ELF header" in done.stdout for name in NAMES)
    assert "PYSHMEM_OPENSHMEM_LIBRARY names another" in done.stdout
    assert "PYSHMEM_CONDUIT=shm needs none" in done.stdout


def test_a_path_with_none_is_told_with_its_variable(
    run_command: RunCommand, tmp_path: Path
) -> None:
    missing = tmp_path / "liboshmem.so"
    done = describe(run_command, PYSHMEM_OPENSHMEM_LIBRARY=str(missing))
    assert done.returncode
    assert "that PYSHMEM_OPENSHMEM_LIBRARY names cannot be opened" in done.stdout
    assert f"{missing}: cannot open shared object file" in done.stdout


@pytest.mark.parametrize("minor", [0, 3])
def test_a_library_that_is_too_old_tells_its_version(minor: int, fake, run_command) -> None:
    library = fake("libsma.so.1", version(minor))
    done = describe(run_command, PYSHMEM_OPENSHMEM_LIBRARY=str(library))
    assert done.returncode
    wanted = f"{library} is OpenSHMEM 1.{minor}; the openshmem conduit needs 1.4 or later"
    assert wanted in done.stdout


@pytest.mark.parametrize("text", [version(5), "int nothing;"], ids=["1.5", "no version"])
def test_a_library_that_lacks_a_routine_names_it(text: str, fake, run_command) -> None:
    library = fake("libsma.so.1", text)
    done = describe(run_command, PYSHMEM_OPENSHMEM_LIBRARY=str(library))
    assert done.returncode
    assert f"{library} has no shmem_" in done.stdout
    assert "it is no OpenSHMEM library, or older than 1.4" in done.stdout


def test_libraries_of_both_makers_are_told(fake, run_command, tmp_path: Path) -> None:
    shutil.copy(fake("liboshmem.so.40", version(4)), tmp_path / "libsma.so.1")
    done = describe(
        run_command, LD_LIBRARY_PATH=str(tmp_path), PYSHMEM_OPENSHMEM_LIBRARY=""
    )  # no launcher that tells which one it belongs to
    assert done.returncode
    assert "two OpenSHMEM libraries were found" in done.stdout
    assert "PYSHMEM_OPENSHMEM_LIBRARY names the one" in done.stdout


def whole() -> str:
    """C text with every routine the conduit looks for; those that are asked for a version answer."""
    calls = re.search(r"#define PYSH_OPENSHMEM_CALLS.*?\n\n", HEADER.read_text(), re.DOTALL)
    assert calls
    names = set(re.findall(r"X_\(\w[\w *]*, (\w+),", calls[0])) - {
        "info_get_version",
        "info_get_name",
    }
    assert len(names) > 20
    lines = [version(4), "void shmem_info_get_name(char *n) { n[0] = 'F'; n[1] = 0; }"]
    return "\n".join([*lines, *(f"void shmem_{name}(void) {{}}" for name in sorted(names))])


def test_a_second_library_in_the_process_is_told(fake, run_command, tmp_path: Path) -> None:
    library = fake("libsma.so.1", whole())
    alone = describe(run_command, PYSHMEM_OPENSHMEM_LIBRARY=str(library), check=True)
    assert alone.stdout.strip() == f"OpenSHMEM 1.4, F, in {library}"
    (tmp_path / "other").mkdir()
    other = fake("other/liboshmem.so.40", version(4))
    done = describe(run_command, other, PYSHMEM_OPENSHMEM_LIBRARY=str(library))
    assert done.returncode
    assert "two OpenSHMEM libraries are in this process" in done.stdout
    assert str(library) in done.stdout
    assert str(other) in done.stdout
