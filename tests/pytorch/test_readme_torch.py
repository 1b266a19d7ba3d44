# SPDX-License-Identifier: BSD-3-Clause
"""The README's program for PyTorch prints what the README says."""

from __future__ import annotations

from collections.abc import Callable

from pages import steps_of_the_readme


def test_the_program_for_torch_prints_what_the_readme_says(run_pes: Callable, tmp_path) -> None:
    (step,) = [step for step in steps_of_the_readme() if "torch" in step.commands]
    ((name, program),) = step.files.items()
    assert f"run -n 4 {name}" in step.commands
    (tmp_path / name).write_text(program, encoding="utf-8")
    done = run_pes(4, tmp_path / name, timeout=120, check=True)
    assert sorted(done.stdout.splitlines()) == sorted(step.output.splitlines())
