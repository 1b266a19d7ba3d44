# SPDX-License-Identifier: BSD-3-Clause
"""The README: its commands as printed, in an empty folder beside a checkout, print what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import README, Step, steps_of_the_readme

ROOT = README.parent
STEPS = steps_of_the_readme()
#: That of PyTorch wants gigabytes: tests/pytorch has it, with the torch that is there.
FIRST, *LATER = [step for step in STEPS if "torch" not in step.commands]


def checkout(folder: Path) -> None:
    """A copy of the files that git knows, or, outside of git, of all but what is built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".venv", "build", "dist"))
        return
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def follow(steps: list[Step], folder: Path) -> str:
    """Save the programs, type the commands into one shell; what it prints on stdout."""
    for step in steps:
        for name, program in step.files.items():
            (folder / name).write_text(program, encoding="utf-8")
    (folder / ".bin").mkdir()
    (folder / ".bin" / "python3").symlink_to(sys._base_executable)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSHMEM_", "VIRTUAL_ENV"))}
    kept |= {"PATH": f"{folder / '.bin'}:{kept['PATH']}", "PIP_QUIET": "2"}
    done = subprocess.run(
        ["bash", "-e", "-c", "".join(step.commands for step in steps)],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_commands_as_printed_print_what_the_readme_says(tmp_path: Path) -> None:
    checkout(tmp_path / "pyshmem")
    printed = follow([FIRST, *LATER], tmp_path)
    says = "".join(step.output for step in (FIRST, *LATER))
    assert sorted(printed.splitlines()) == sorted(says.splitlines())


def test_the_readme_is_short_and_its_first_output_is_near_the_top() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert lines.index("```text") < 30
    assert max(map(len, lines)) <= 120
    assert [len(step.files) for step in STEPS] == [1, 1, 1]
    assert all(step.output for step in STEPS)


def test_sentences_of_the_readme_are_short() -> None:
    text = re.sub(r"```.*?```", "", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    prose = re.sub(r"`[^`]*`", "code", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose))
    sentences = [each.split() for each in re.split(r"[.?!:](?=\s)|\n\n|\n- ", prose)]
    lengths = [len(words) for words in sentences if words]
    assert len(lengths) > 20
    assert sum(lengths) / len(lengths) <= 16
