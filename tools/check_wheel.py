#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a wheel must have, and what it must not ask of a machine; exits with 1 and the reasons.

Usage: ``tools/check_wheel.py [--glibc 2.28] WHEEL|FOLDER ...``. ``--glibc``: no symbol of a newer one.
Needs readelf, as every machine with a compiler has it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Of the C library, and our own.
LIBRARIES = re.compile(r"(lib(c|m|dl|rt|pthread|pyshmem)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+)")
LICENCES = ("LICENSE", "NOTICE")
#: What type checkers and programs in C look for.
FILES = (
    "pyshmem/py.typed",
    "pyshmem/device/__init__.pyi",
    "pyshmem/_core/_native.pyi",
    "pyshmem/_core/_fast.pyi",
    "pyshmem/include/shmem.h",
    "pyshmem/lib/libpyshmem.so.0",
    "pytest_pyshmem.py",
    "pyshmem_plugins.py",
)

#: Device routines compiled ahead: both or none (``tools/device_routines.py``), and bytes at most.
ROUTINES = tuple(f"pyshmem/device/jit/routines-{what}.zip" for what in ("texts", "objects"))
MOST_OF_ROUTINES = 25_000_000


def missing(names: Iterable[str]) -> Iterator[str]:
    """What has to be there and is not; what is there and has not to be."""
    names = list(names)
    for file in FILES:
        if file not in names:
            yield f"{file} is missing"
    for licence in LICENCES:
        if not any(name.endswith(f".dist-info/licenses/{licence}") for name in names):
            yield f"the licence notice {licence} is missing"
    for name in names:
        if re.search(r"__pycache__|\.pyc$|ffi_build|\.[ch]\.in$|^tests/", name):
            yield f"{name} does not belong there"
        if re.match(r"[^/]+\.libs/", name):
            yield f"{name}: a library of others, whose licence NOTICE does not have"


def routines(archive: zipfile.ZipFile) -> tuple[str, list[str]]:
    """What to tell of the device routines compiled ahead, and what is wrong with them."""
    sizes = {name: archive.getinfo(name).file_size for name in archive.namelist()}
    there = [name for name in ROUTINES if name in sizes]
    if not there:
        return "no device routines compiled ahead: its build had no Numba, or was not to", []
    wrong = [f"{name} is missing" for name in ROUTINES if name not in there]
    nbytes = sum(sizes[name] for name in there)
    if nbytes > MOST_OF_ROUTINES:
        wrong.append(f"device routines take {nbytes} bytes, more than {MOST_OF_ROUTINES}")
    counts = []
    for name in there:
        try:
            with archive.open(name) as file, zipfile.ZipFile(file) as inner:
                index = json.loads(inner.read("index.json"))
                counts.append(len(index.get("routines") or index["objects"]))
        except (zipfile.BadZipFile, ValueError, KeyError) as error:
            wrong.append(f"{name} cannot be read: {error}")
    return f"device routines compiled ahead: {counts} (texts, objects), {nbytes} bytes", wrong


def readelf(path: Path, *options: str) -> str:
    """Its output on one file."""
    command = ["readelf", "--wide", *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needs(dynamic: str) -> list[str]:
    """The libraries that a file asks for, of readelf's list of its dynamic section."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", dynamic)


def glibc(versions: str) -> tuple[int, ...]:
    """The newest version of glibc of which a file needs a symbol; of readelf's list of versions."""
    found = re.findall(r"Name: GLIBC_(\d+(?:\.\d+)+)", versions)
    return max((tuple(map(int, each.split("."))) for each in found), default=(0,))


def problems(wheel: Path, newest: tuple[int, ...] | None) -> Iterator[str]:
    """All that is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        yield from missing(archive.namelist())
        told, wrong = routines(archive)
        yield from wrong
        archive.extractall(folder)
        highest: tuple[int, ...] = (0,)
        for path in sorted(Path(folder).rglob("*.so*")):
            if path.read_bytes()[:4] != b"\x7fELF":  # libpyshmem.so is a text for the linker
                continue
            name = path.relative_to(folder)
            for library in needs(readelf(path, "--dynamic")):
                if not LIBRARIES.fullmatch(library):
                    yield f"{name} needs {library}"
            version = glibc(readelf(path, "--version-info"))
            highest = max(highest, version)
            if newest and version > newest:
                yield f"{name} needs GLIBC_{text(version)}, newer than {text(newest)}"
        print(f"{wheel.name}: needs glibc {text(highest)}; {told}")


def text(version: tuple[int, ...]) -> str:
    """With points."""
    return ".".join(map(str, version))


def main() -> int:
    """Look at each wheel."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--glibc", type=lambda each: tuple(map(int, each.split("."))))
    parser.add_argument("wheels", nargs="+", type=Path)
    asked = parser.parse_args()
    wheels = [
        one for path in asked.wheels for one in (path.glob("*.whl") if path.is_dir() else [path])
    ]
    found = [
        f"{wheel.name}: {problem}" for wheel in wheels for problem in problems(wheel, asked.glibc)
    ]
    print(*found, sep="\n", end="\n" * bool(found))
    return bool(found) or not wheels


if __name__ == "__main__":
    sys.exit(main())
