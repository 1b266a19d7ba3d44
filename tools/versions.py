#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Suites with the versions of others at both ends of the ranges; writes docs/reference/versions.md.

Usage: ``make versions``, or ``tools/versions.py [WORD ...]``: only the environments whose name has one
of the words. Each environment is made under build/versions, and removed before the next one; those with
torch take up to 8 GB, and all of them some hours of two cores. Needs the network.

The suites are a part of those of ``make test``, chosen for what they ask of Numba, Triton and torch;
``SUITES`` has what each runs. A Python that this machine lacks is left out, and said.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from versions_page import ROOT, Row, oldest, project, write

PLACE = ROOT / "build" / "versions"
#: Seconds that a suite may take.
LIMIT = 3000

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
_DEVICE = ("put_get", "signals", "waits", "faults", "collectives")
#: What the backend asks of torch and torch of it, its memory, and arguments of the fused operations.
_TORCH_FILES = (
    *("torch_calls", "torch_refusals", "torch_native", "torch_symmetric_memory", "torch_leaving"),
    *("unstaged", "fused_arguments"),
)
SUITES: dict[str, tuple[str, ...]] = {
    "unit": (*PYTEST, "-m", "not slow and not long", "tests/unit"),
    "simulator": (
        *("-m", "pyshmem", "run", "-n", "2", "--device", "sim"),
        *PYTEST,
        *(f"tests/spmd/device/test_{name}.py" for name in _DEVICE),
    ),
    "torch": (
        *(*PYTEST, "-m", "not long"),
        *(f"tests/pytorch/test_{name}.py" for name in _TORCH_FILES),
    ),
}  # fmt: skip


class Environment(NamedTuple):
    """``pins``: what is installed beside pyshmem with ``extras``, and decides its versions.

    ``compilers``: with the compilers for GPU code of the extra ``cuda``.
    """

    name: str
    python: str
    pins: tuple[str, ...]
    extras: str
    suites: tuple[str, ...]
    compilers: bool = True


_KERNELS = "sim,test,dev,ucx"
_TORCH = f"{_KERNELS},triton,torch"
_BOTH = ("unit", "simulator")
_OLDEST = oldest("sim", "numba")
ENVIRONMENTS = (
    Environment("oldest Numba", "3.11", (f"numba=={_OLDEST}",), _KERNELS, _BOTH),
    *(
        Environment(f"newest Numba, Python {python}", python, (), _KERNELS, _BOTH)
        for python in ("3.11", "3.12", "3.13", "3.14")
    ),
    *(
        Environment(f"torch {torch}", "3.11", (f"torch=={torch}",), _TORCH, ("torch",))
        for torch in ("2.11.0", "2.13.0", "2.14.1")
    ),
    # It brings CUDA tools of its own, which are newer than those that the extra `cuda` takes.
    Environment("torch 2.15.0", "3.11", ("torch==2.15.0",), _TORCH, ("torch",), compilers=False),
)


def say(*words: object) -> None:
    """To stderr, at once."""
    print("versions:", *words, file=sys.stderr, flush=True)


def python_of(version: str) -> str | None:
    """A Python of that version: by its name, or of pyenv."""
    folders = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    for name in (f"python{version}", *map(str, folders)):
        found = shutil.which(name)
        probe = [found or "", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if (
            found
            and subprocess.run(probe, capture_output=True, text=True).stdout.strip() == version
        ):
            return found
    return None


def made(environment: Environment, base: str) -> str:
    """An environment with pyshmem editable in it; the Python of it."""
    folder = PLACE / "env"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    wanted = project()
    extras = wanted["optional-dependencies"]
    names = environment.extras.split(",")
    packages = [*wanted["dependencies"], *(one for name in names for one in extras[name])]
    # The compilers for GPU code without CuPy, as tests have them where there is no GPU.
    packages += [
        one for one in extras["cuda"] if not one.startswith("cupy")
    ] * environment.compilers
    # What builds pyshmem comes first, for an editable install builds when it is imported.
    install = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-q",
        "install",
        "--no-cache-dir",
    ]
    subprocess.run([*install, "setuptools", *packages, *environment.pins], check=True)
    variables = {
        **os.environ,
        "NINJA": str(ROOT / "tools" / "ninja"),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }
    build = f"-Cbuild-dir={PLACE / f'cp{environment.python}'}"
    subprocess.run(
        [*install, "--no-deps", "--no-build-isolation", build, "-e", str(ROOT)],
        check=True,
        env=variables,
    )
    return python


def run(python: str, suite: str) -> Row:
    """What a suite says in the end."""
    variables = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    log = PLACE / f"{suite}.log"
    with log.open("w") as file:
        command = [python, *SUITES[suite]]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=variables,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                process.wait(LIMIT)
                ended = True
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                ended = False
    return verdict(log.read_text(errors="replace"), ended)


def verdict(text: str, ended: bool = True) -> Row:
    """Counts from pytest's last lines, each PE's or the one's, and the names of what failed."""
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for line in re.findall(r"^.*\d+ (?:passed|failed|skipped|errors?).* in [\d.]+s.*$", text, re.M):
        told = dict.fromkeys(counts, 0)
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", line):
            told["failed" if word == "error" else word] += int(number)
        counts = {word: max(counts[word], told[word]) for word in counts}
    failures = sorted(set(re.findall(r"^.*?(?:FAILED|ERROR) \S+?::(\w+)", text, re.M)))
    return {**counts, "failures": failures[:10], "ended": ended}


def versions_in(python: str) -> dict[str, str]:
    """Installed distributions and Python itself."""
    listing = [python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"]
    listed = json.loads(subprocess.run(listing, capture_output=True, text=True, check=True).stdout)
    found = {one["name"].lower(): one["version"] for one in listed}
    own = [python, "-c", "import platform; print(platform.python_version())"]
    found["python"] = subprocess.run(own, capture_output=True, text=True, check=True).stdout.strip()
    kept = ("python", "numpy", "numba", "llvmlite", "numba-cuda", "triton", "torch", "cuda-toolkit")
    return {name: found[name] for name in kept if name in found}


def tried(environment: Environment) -> Row | None:
    """A row of the table, or none where the Python is missing."""
    base = python_of(environment.python)
    if base is None:
        say(f"no Python {environment.python} here: {environment.name} is left out")
        return None
    say(environment.name)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    try:
        python = made(environment, base)
        suites = {suite: run(python, suite) for suite in environment.suites}
        versions = versions_in(python)
    finally:
        shutil.rmtree(PLACE / "env", ignore_errors=True)
    for suite, counts in suites.items():
        say(f"    {suite}: {counts}")
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {
        "name": environment.name,
        "versions": versions,
        "suites": suites,
        "day": day,
        "commit": commit.stdout.strip(),
    }


def main(words: Sequence[str]) -> int:
    """Run those asked for, and write the page after each."""
    PLACE.mkdir(parents=True, exist_ok=True)
    failed = False
    for environment in ENVIRONMENTS:
        if not words or any(word in environment.name for word in words):
            try:
                row = tried(environment)
            except subprocess.CalledProcessError as error:
                say(f"{environment.name} could not be made: {error}")
                failed = True
                continue
            if row is not None:
                write("tried", [row], [each.name for each in ENVIRONMENTS])
                failed |= any(
                    each["failed"] or not each["ended"] or not each["passed"]
                    for each in row["suites"].values()
                )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
