# SPDX-License-Identifier: BSD-3-Clause
"""An editable install rebuilds itself in each process that imports it: one at a time."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
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


STUB = """
rule stub
  command = '{python}' -I -S ../tools/device_stub.py $out $out.d
  depfile = $out.d
build made.pyi: stub
"""


def test_the_device_library_s_stub_is_made_again_in_a_folder_with_a_space(tmp_path: Path) -> None:
    ninja, checkout = NINJA.parents[1] / ".venv" / "bin" / "ninja", tmp_path / "my #1 $ checkout"
    if not ninja.exists():
        pytest.skip("the checkout has no .venv with ninja")
    build, device = checkout / "build", checkout / "pyshmem" / "device"
    build.mkdir(parents=True)
    shutil.copytree(NINJA.parents[1] / "pyshmem" / "device", device)
    shutil.copytree(NINJA.parent, checkout / "tools")
    (build / "build.ninja").write_text(STUB.format(python=sys.executable))

    def ran() -> str:
        done = subprocess.run([ninja], cwd=build, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "[1/1]" in ran()
    assert "no work to do" in ran()
    for changed in (device / "api" / "sync.py", device / "groups.py"):
        os.utime(changed)
        assert "[1/1]" in ran()
