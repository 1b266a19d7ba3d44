# SPDX-License-Identifier: BSD-3-Clause
"""What ``transport/ucx/abi.h`` says of UCX, beside the headers of the package of extra ``ucx``."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "native" / "src"
ABI = (SOURCES / "transport" / "ucx" / "abi.h").read_text(encoding="utf-8")


def package() -> Path:
    found = importlib.util.find_spec("libucx")
    if not found or not found.origin:
        raise RuntimeError("pip install 'pyshmem-openshmem[ucx]'")
    return Path(found.origin).parent


def members_of(body: str) -> list[str]:
    """Names of a structure's own members, in order; of the nested one its own name."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    body = re.sub(r"struct \{[^}]*\} (\w+);", r"int \1;", body)
    names: list[str] = []
    for line in body.split(";"):
        called = re.findall(r"\(\*(\w+)\)", line)
        plain = re.findall(r"\*?(\w+)\s*(?=,|$)", line.strip())
        names += called or plain
    return [name for name in names if name != "rest"]


def assertions() -> list[str]:
    lines = [
        f"_Static_assert((long long){name} == (long long)PYSH_{name}, {name!r});".replace("'", '"')
        for name in re.findall(r"^    PYSH_(UC[SP]_\w+) =", ABI, re.M)
    ]
    structures = re.findall(r"typedef struct pysh_(ucp_\w+) \{\n(.*?)\n\} ", ABI, re.S)
    assert len(structures) == 6
    for name, body in structures:
        for member in members_of(body):
            ours, theirs = f"pysh_{name}_t, {member}", f"{name}_t, {member}"
            lines.append(f'_Static_assert(offsetof({ours}) == offsetof({theirs}), "{theirs}");')
        if "rest[" in body:
            size = f"sizeof(pysh_{name}_t) >= sizeof({name}_t)"
            lines.append(f'_Static_assert({size}, "{name}");')
    calls = re.findall(r"^    X_\([^,]+, (\w+),", ABI, re.M)
    assert len(calls) == 20
    return [*lines, *(f"const void *call_{name} = (const void *)ucp_{name};" for name in calls)]


def test_structures_and_numbers_are_those_of_ucx(tmp_path: Path) -> None:
    program = tmp_path / "abi.c"
    text = ["#include <stddef.h>", "#include <ucp/api/ucp.h>", '#include "transport/ucx/abi.h"']
    program.write_text("\n".join([*text, *assertions(), ""]))
    command = ["gcc", "-std=gnu11", "-c", "-o", str(tmp_path / "abi.o"), str(program)]
    command += [f"-I{SOURCES}", f"-I{package() / 'include'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_comparison_sees_a_difference(tmp_path: Path) -> None:
    assert members_of("int a, *b;\nvoid (*c)(int x), (*d)(void);\nstruct {\n int e;\n} f;") == [
        *"abcdf"
    ]
