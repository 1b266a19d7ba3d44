# SPDX-License-Identifier: BSD-3-Clause
"""The C side by itself: programs against the installed headers and library, sanitizers, exports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "native" / "src"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]

Compile = Callable[[Sequence[str | Path], str], Path]


@pytest.fixture(scope="module")
def flags() -> list[str]:
    """What a user's Makefile would ask for."""
    command = [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture
def build(tmp_path: Path) -> Compile:
    """``build(arguments, name)``: compile with gcc, without a warning."""

    def compile_program(arguments: Sequence[str | Path], name: str) -> Path:
        program = tmp_path / name
        command = ["gcc", *WARNINGS, "-o", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return program

    return compile_program


def sanitizers_work(folder: Path) -> bool:
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    command = ["gcc", *SANITIZE, probe, "-o", folder / "probe"]
    return (
        not subprocess.run(command, capture_output=True).returncode
        and not subprocess.run([folder / "probe"], capture_output=True).returncode
    )


# ---- the allocator -------------------------------------------------------------------------------


def test_the_allocator_keeps_its_book(build: Compile, run_command: Callable) -> None:
    sources = [HERE / "allocator_test.c", SOURCES / "allocator.c"]
    program = build(["-std=gnu11", "-O2", f"-I{SOURCES}", *sources], "allocator")
    assert run_command([program], 60, check=True).stdout == "allocator ok\n"


def test_the_allocator_under_sanitizers(
    build: Compile, run_command: Callable, tmp_path: Path
) -> None:
    if not sanitizers_work(tmp_path):
        pytest.skip("this gcc has no sanitizers")
    sources = [HERE / "allocator_test.c", SOURCES / "allocator.c"]
    program = build(["-std=gnu11", *SANITIZE, f"-I{SOURCES}", *sources], "allocator")
    assert run_command([program], 60, check=True).stdout == "allocator ok\n"


# ---- a program of users --------------------------------------------------------------------------


def test_a_plain_openshmem_program_runs(
    build: Compile, flags: list[str], n_pes: int, run_pes: Callable
) -> None:
    program = build(["-std=c11", "-pedantic", "-O2", HERE / "ring.c", *flags], "ring")
    done = run_pes(n_pes, program, check=True)
    assert done.stdout == "ok\n"


def test_a_program_started_alone_is_one_pe(
    build: Compile, flags: list[str], run_command: Callable
) -> None:
    program = build(["-std=c11", HERE / "ring.c", *flags], "ring")
    assert run_command([program], 60, check=True).stdout == "ok\n"


def test_the_library_under_sanitizers(
    build: Compile, flags: list[str], n_pes: int, run_pes: Callable, tmp_path: Path
) -> None:
    """The whole library is built into the program, so that its memory is watched too."""
    if not sanitizers_work(tmp_path):
        pytest.skip("this gcc has no sanitizers")
    if n_pes in (1, 4):
        pytest.skip("2 and 3 PEs take every path")
    from pyshmem import _settings

    (tmp_path / "pysh_settings.h").write_text(_settings.c_lists())
    includes = [flag for flag in flags if flag.startswith("-I")]
    program = build(
        ["-std=gnu11", "-fwrapv", *SANITIZE, '-DPYSHMEM_VERSION="0"', f"-I{tmp_path}", *includes,
         HERE / "ring.c", *sorted(SOURCES.glob("*.c")), "-lpthread", "-ldl"],
        "ring",
    )  # fmt: skip
    done = run_pes(n_pes, program, timeout=120, check=True)
    assert done.stdout == "ok\n"
    assert "ERROR" not in done.stderr


def test_a_failing_call_ends_a_c_job_with_the_reason(
    build: Compile, flags: list[str], run_pes: Callable, tmp_path: Path
) -> None:
    source = tmp_path / "wrong.c"
    source.write_text(
        "#include <shmem.h>\n"
        "int main(void) {\n"
        "    shmem_init();\n"
        "    long *cell = shmem_malloc(sizeof *cell);\n"
        "    if (shmem_my_pe() == 1)\n"
        "        shmem_long_p(cell, 1, 7);\n"
        "    shmem_barrier_all();\n"
        "    return 0;\n"
        "}\n"
    )
    done = run_pes(2, build(["-std=c11", source, *flags], "wrong"))
    assert done.returncode != 0
    assert "PE 1: shmem_long_p: pe 7 is outside the team of 2 PEs (0..1)" in done.stderr


# ---- headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["shmem.h", "shmemx.h", "ishmemx.h"])
@pytest.mark.parametrize(
    ("compiler", "options"),
    [("gcc", ["-std=c11", "-pedantic"]), ("gcc", ["-std=c17"]), ("g++", ["-std=c++11"]),
     ("g++", ["-std=c++20"])],
    ids=["c11", "c17", "c++11", "c++20"],
)  # fmt: skip
def test_headers_compile_by_themselves(
    header: str, compiler: str, options: list[str], flags: list[str], tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / ("user.cpp" if compiler == "g++" else "user.c")
    source.write_text(f"#include <{header}>\nint main(void) {{ return 0; }}\n")
    command = [compiler, *options, *WARNINGS, *flags, source, "-o", tmp_path / "user", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sources_compile_without_a_warning_when_optimised(flags: list[str], tmp_path: Path) -> None:
    from pyshmem import _settings

    (tmp_path / "pysh_settings.h").write_text(_settings.c_lists())
    includes = [flag for flag in flags if flag.startswith("-I")]
    command = [
        "gcc",
        "-std=gnu11",
        "-O3",
        *WARNINGS,
        "-Wmaybe-uninitialized",
        "-fvisibility=hidden",
    ]
    command += ['-DPYSHMEM_VERSION="0"', f"-I{tmp_path}", *includes, "-fPIC", "-shared"]
    output = ["-o", tmp_path / "library.so"]
    done = subprocess.run(
        [*command, *sorted(SOURCES.glob("*.c")), *output], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
