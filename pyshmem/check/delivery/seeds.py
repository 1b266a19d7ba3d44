# SPDX-License-Identifier: BSD-3-Clause
"""A program once for each of many seeds: what PEs of ``python -m pyshmem run --seeds`` run.

The first run's output is printed and is what the others' is compared with, on each PE. The first seed
with which a PE fails or prints something else is told, and ends the job.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from ...host.job import runtime
from ..files import FOUND
from . import held

_MOST = 12  # lines of a difference


def command_of(command: list[str], first: int, count: int) -> list[str]:
    """The command that runs ``command``, a program in Python, with ``count`` seeds from ``first`` on.

    Raises: ValueError (it is no program in Python).
    """
    if command[0] != sys.executable or len(command) < 2:
        raise ValueError(f"--seeds is of programs in Python, which {command[0]} is not")
    return [sys.executable, "-m", __name__, str(first), str(count), *command[1:]]


def _run(arguments: list[str]) -> None:
    """Run a program as ``python ARGUMENTS`` does."""
    how = arguments[0] if arguments[0] in ("-m", "-c") else ""
    target, *rest = arguments[1:] if how else arguments
    sys.argv[:] = [how if how == "-c" else target, *rest]
    if how == "-m":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    elif how == "-c":
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(target, "<string>", "exec"), names)
    else:
        sys.path[0] = str(Path(target).resolve().parent)
        runpy.run_path(target, run_name="__main__")


def _printed(arguments: list[str]) -> str:
    """What a program prints. Whatever ends it but success is raised."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            _run(arguments)
            while runtime.initialized():
                runtime.finalize()
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
        while runtime.initialized():
            runtime.finalize()
    return printed.getvalue()


def _tell_difference(seed: int, first: int, pe: str, texts: tuple[str, str]) -> None:
    before, after = (text.splitlines() for text in texts)
    lines = [line for line in difflib.ndiff(before, after) if line.startswith(("-", "+"))]
    told = "\n".join(f"  {line}" for line in lines[:_MOST])
    print(
        f"pyshmem: deliver: with seed {seed} PE {pe} prints otherwise (+) than with seed {first} (-); "
        f"--seed {seed} repeats it\n{told}",
        file=sys.stderr,
    )


def main(first: int, count: int, arguments: list[str]) -> None:
    """Run a program with ``count`` seeds; SystemExit with status 3 where the output differs."""
    held.quiet_about_seeds = True
    pe, before = os.environ["PYSHMEM_PE"], ""
    for seed in range(first, first + count):
        os.environ["PYSHMEM_CHECK_SEED"] = str(seed)
        try:
            text = _printed(arguments)
        except BaseException:
            print(f"pyshmem: deliver: PE {pe} fails with --seed {seed}", file=sys.stderr)
            raise
        if seed == first:
            before = text
            sys.stdout.write(text)
            sys.stdout.flush()
        elif text != before:
            _tell_difference(seed, first, pe, (before, text))
            raise SystemExit(FOUND)
    if pe == "0":
        last = first + count - 1
        print(f"pyshmem: deliver: the same with seeds {first} to {last}", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
