# SPDX-License-Identifier: BSD-3-Clause
"""An editable install rebuilds itself in each process that imports it: one at a time."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

NINJA = Path(__file__).parents[2] / "tools" / "ninja"
#: Fails when another ninja is at it.
RULES = """
rule alone
  command = mkdir busy && sleep 0.1 && rmdir busy && touch $out
build {name}: alone
"""


def test_ninjas_wait_for_each_other(tmp_path: Path) -> None:
    if not (NINJA.parents[1] / ".venv" / "bin" / "ninja").exists():
        pytest.skip("the checkout has no .venv with ninja")
    names = ["a", "b", "c", "d"]
    for name in names:
        (tmp_path / f"{name}.ninja").write_text(RULES.format(name=name))
    environment = os.environ | {"NINJA_IS_DONE": ""}
    runs = [
        subprocess.Popen(
            [NINJA, "-f", f"{name}.ninja"],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for name in names
    ]  # fmt: skip
    texts = [run.communicate(timeout=60)[0] for run in runs]
    assert not any(run.returncode for run in runs), texts


def test_the_editable_install_runs_that_ninja() -> None:
    loader = importlib.util.find_spec("_pyshmem_openshmem_editable_loader")
    if loader is None or loader.origin is None:
        pytest.skip("not an editable install")
    assert str(NINJA) in Path(loader.origin).read_text()
