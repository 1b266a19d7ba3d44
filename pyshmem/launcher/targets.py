# SPDX-License-Identifier: BSD-3-Clause
"""From what the user names to the command of each PE; what cannot be run is told before a PE starts."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .._core.errors import LaunchError

#: Files that this Python runs, executable or not: another one would lack pyshmem.
_PYTHON = frozenset((".py", ".pyc", ".pyz"))
_SHELL = frozenset((".sh", ".bash", ".zsh", ".csh", ".fish"))
_COMPILED = frozenset((".c", ".cc", ".cpp", ".cxx", ".cu", ".f", ".f90", ".rs"))


def resolve_command(target: str, arguments: Sequence[str], *, module: bool = False) -> list[str]:
    """The command that runs ``target``: a module, a Python script or an executable.

    Raises: LaunchError.
    """
    python = [sys.executable]
    if not target:
        raise LaunchError("TARGET is empty: give a script, an executable, or -m MODULE")
    if module:
        _check_module(target)
        return [*python, "-m", target, *arguments]
    path = Path(target)
    if path.is_dir():
        if not (path / "__main__.py").is_file():
            raise LaunchError(f"{target} is a directory without a __main__.py")
        return [*python, target, *arguments]
    if path.is_file():
        _check_file(path)
        if path.suffix not in _PYTHON and os.access(path, os.X_OK):
            return [str(path.absolute()), *arguments]
        return [*python, target, *arguments]
    if os.sep not in target and path.suffix != ".py":
        found = shutil.which(target)
        if found:
            return [found, *arguments]
    raise LaunchError(_not_there(path))


def _not_there(path: Path) -> str:
    bare = path.parent == Path()
    text = f"{path}: no such file" + (
        ", nor a program in PATH" if bare and path.suffix != ".py" else ""
    )
    text += f" (looked in {Path.cwd()})"
    if close := _close(path):
        return f"{text}: is {close} meant?"
    module = path.stem if path.suffix == ".py" else path.name
    return f"{text}; to run an installed module: -m {module}" if bare else text


def _close(path: Path) -> Path | None:
    """A file of that folder whose name is like the one that is not there."""
    try:
        names = [entry.name for entry in os.scandir(path.parent) if entry.is_file()]
    except OSError:  # no such folder
        return None
    by_name = {name.casefold(): name for name in sorted(names)}
    alike = difflib.get_close_matches(path.name.casefold(), by_name, n=1, cutoff=0.8)
    found = [f"{path.name}.py"] if f"{path.name}.py" in names else [by_name[name] for name in alike]
    return path.parent / found[0] if found else None


def _check_module(name: str) -> None:
    """Python imports ``hello``, and so runs it, before it finds that there is no ``hello.py`` in it."""
    if name.endswith(".py") and Path(name).is_file():
        raise LaunchError(
            f"-m takes a module's name: leave -m out, or write -m {Path(name).stem} for {name}"
        )


def _check_file(path: Path) -> None:
    """Refuse what neither this Python nor the system can run."""
    if path.suffix in _PYTHON:
        return
    if path.suffix == ".ipynb":
        raise LaunchError(
            f"{path} is a notebook: open it in Jupyter and call pyshmem.launch in it, or make a "
            "script of it (jupyter nbconvert --to script)"
        )
    if path.suffix in _COMPILED:
        raise LaunchError(f"{path} is a source file: compile it, and give the program")
    first = _first_line(path)
    script = first.startswith(b"#!")
    if os.access(path, os.X_OK):
        if script:
            _check_interpreter(path, first)
        elif path.suffix in _SHELL:
            raise LaunchError(f"{path} has no first line #!/bin/sh: add it, or run `sh {path}`")
    elif (
        path.suffix in _SHELL or first.startswith(b"\x7fELF") or (script and b"python" not in first)
    ):
        raise LaunchError(f"{path} is not executable: chmod +x {path}")


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.readline(256).rstrip(b"\n")
    except OSError:  # a program that may be run, and not read
        return b""


def _check_interpreter(path: Path, first: bytes) -> None:
    """The system says of a script that it is not there when its interpreter is not."""
    if first.endswith(b"\r"):
        raise LaunchError(f"{path} has lines that end as on Windows: sed -i 's/\\r$//' {path}")
    name = os.fsdecode((first[2:].split() or [b""])[0])
    if not os.access(name, os.X_OK):
        raise LaunchError(f"{path}: its first line names {name or 'nothing'}, which cannot be run")
