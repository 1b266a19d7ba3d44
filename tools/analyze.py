#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""``make analyze``: gcc's static analyser over the C library; a finding without a reason below ends it.

Usage: ``tools/analyze.py [WORD]``: only the files whose path has the word.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("native/src", "host_proxy")
#: No analyser knows that ``pysh_fail`` returns the status that it is given; as an expression it sees it.
TOLD = """
#include "base/status.h"
#define pysh_fail(status_, ...) ((pysh_fail)(status_, __VA_ARGS__), (status_))
"""
#: Path, part of the message, and why it is no fault. One that fits nothing any more is an error, too.
KNOWN = (
    ("native/src/accel/cuda/side_stream.c", "NULL", "a side stream was given out, so its pair is there"),
    ("native/src/base/settings.c", "NULL", "its text was found by the same name a line before"),
    (
        "native/src/collectives/collect.c", "uninitialized",
        "every member's record is read where the status is OK, and read no further where it is not",
    ),
    ("native/src/transport/openshmem/library.c", "leak", "what strdup gave is freed in the second loop"),
    ("native/src/transport/ucx/transfer.c", "leak", "what realloc gave is in `asked` before calloc"),
    ("native/src/join/variables.c", "NULL", "a launcher is taken only where both its variables are set"),
    ("native/src/ops/amo_by_owner.c", "NULL", "the row is this PE's own: its arena is always mapped"),
)  # fmt: skip


def made_headers(folder: Path) -> None:
    """Those that the build makes of the tables."""
    for script, argument, name in (
        ("settings.py", None, "pysh_settings.h"),
        ("type_table.py", None, "shmem_types.h"),
        ("contract.py", "public", "ishmemx_contract.h"),
        ("contract.py", "private", "pysh_contract.h"),
    ):
        command = [
            sys.executable,
            str(ROOT / "pyshmem" / "_core" / script),
            *filter(None, [argument]),
        ]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "told.h").write_text(TOLD, encoding="utf-8")


def analyze(source: Path, folder: Path) -> str:
    """What gcc says of a file."""
    told = [] if source.name == "status.c" else ["-include", str(folder / "told.h")]
    includes = ["native/include", "native/src", "host_proxy", "."]
    command = [
        os.environ.get("CC", "gcc"), "-std=gnu11", "-fwrapv", "-O2", "-fanalyzer", "-D_GNU_SOURCE=",
        *(f"-I{ROOT / name}" for name in includes), f"-I{folder}", *told,
        '-DPYSHMEM_VERSION="0"', "-S", "-o", os.devnull, str(source.relative_to(ROOT)),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"{source}: gcc failed\n{done.stderr[-3000:]}")
    return done.stderr


def main() -> int:
    """Print the findings that have no reason; the exit status says whether there are any."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    sources = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.c"))]
    sources = [path for path in sources if word in str(path.relative_to(ROOT))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_headers(folder)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            texts = list(pool.map(lambda source: analyze(source, folder), sources))
    findings = re.findall(r"^(\S+?):(\d+):\d+: warning: (.*)$", "".join(texts), re.MULTILINE)
    used: set[int] = set()
    left = []
    for path, line, text in findings:
        fits = [k for k, (where, part, _) in enumerate(KNOWN) if path == where and part in text]
        used.update(fits)
        if not fits:
            left.append(f"{path}:{line}: {text}")
    left += [
        f"no such finding: {KNOWN[k][:2]}" for k in range(len(KNOWN)) if not word and k not in used
    ]
    print(*left, sep="\n")
    print(f"{len(sources)} files, {len(findings)} findings, {len(left)} without a reason")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
