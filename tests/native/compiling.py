# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of C programs share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Werror"]

#: Where files are that programs from outside of this repository include by their former names.
FORMER_NAMES = {
    "conduit/control.h": "node/control.h",
    "conduit/sleep.h": "node/sleep.h",
    "conduit/wait.h": "node/wait.h",
    "conduit/shm/barrier.c": "agree/arrival.c",
}

Compile = Callable[[Sequence[str | Path], str], Path]


def gcc(*arguments: str | Path) -> None:
    """Run gcc, which must have nothing to say against it."""
    done = subprocess.run(["gcc", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def write_made_headers(folder: Path) -> None:
    """The headers that only the library's own sources include, as the build makes them."""
    from pyshmem._core import contract, settings

    (folder / "pysh_settings.h").write_text(settings.c_lists())
    (folder / "pysh_contract.h").write_text(contract.c_header(public=False))
    for former, now in FORMER_NAMES.items():
        (folder / former).parent.mkdir(parents=True, exist_ok=True)
        (folder / former).write_text(f'#include "{now}"\n')


def compile_objects(
    options: Sequence[str | Path], sources: Sequence[Path], folder: Path
) -> list[Path]:
    """The object files of ``sources`` in ``folder``, by a gcc a core."""
    objects = [folder / f"{number}-{source.stem}.o" for number, source in enumerate(sources)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(gcc, *options, "-c", source, "-o", made)
            for source, made in zip(sources, objects, strict=True)
        ]
    for job in jobs:
        job.result()
    return objects
