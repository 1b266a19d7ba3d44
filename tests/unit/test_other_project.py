# SPDX-License-Identifier: BSD-3-Clause
"""The other project that is imported as ``pyshmem``: over ours, under ours, or installed beside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyshmem
from pyshmem._core import other_project
from pyshmem.cli import doctor, facts

ROOT = Path(__file__).parents[2]


def folder_with(place: Path, init: str | None, *, more: tuple[str, ...] = ()) -> Path:
    """A package of our files, with another's ``__init__.py`` where it is given, and files ``more``."""
    package = place / "pyshmem"
    package.mkdir()
    for path in Path(pyshmem.__file__).parent.iterdir():
        if path.name != "__init__.py" or init is None:
            (package / path.name).symlink_to(path)
    if init is not None:
        (package / "__init__.py").write_text(init)
    for name in more:
        (package / name).touch()
    return place


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Without site packages, so without the editable install that would come first."""
    variables = {**os.environ, "PYTHONPATH": str(place)}
    command = [sys.executable, "-S", *words]
    return subprocess.run(
        command, env=variables, cwd=place, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("words", [["-m", "pyshmem", "run"], ["-c", "import pyshmem.device"]])
def test_an_init_of_another_project_is_told_before_anything_fails(
    tmp_path: Path, words: list[str]
) -> None:
    done = run(folder_with(tmp_path, "__version__ = '1.4.0'\n"), *words)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert "the project pyshmem, which has the same import name, was installed over it" in last
    assert other_project.CURE in last


@pytest.mark.parametrize("name", ["numpy.py", "numpy/__init__.py"])
@pytest.mark.parametrize("words", [["p.py"], ["-c", "import pyshmem"], ["-m", "p"]])
def test_a_file_that_hides_numpy_is_told(tmp_path: Path, name: str, words: list[str]) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    (tmp_path / "p.py").write_text("import pyshmem\n")
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    told = done.stderr.splitlines()[-1]
    assert told == f"ImportError: {tmp_path / name} hides the package numpy: rename it"


@pytest.mark.parametrize("name", ["secrets", "uuid", "platform"])
@pytest.mark.parametrize("words", ["import pyshmem", "from pyshmem import init"])
def test_a_program_that_hides_a_module_of_what_it_imports_is_told(
    tmp_path: Path, name: str, words: str
) -> None:
    """The program is run again in the module's place, while the package is imported."""
    program = tmp_path / f"{name}.py"
    program.write_text(f"{words}\nprint(pyshmem.init)\n")
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    told = f"{program} hides the module {name}, and is imported for it: rename it"
    assert done.stderr.splitlines()[-1] == f"ImportError: {told}"


def test_a_program_that_hides_a_module_of_init_is_told(tmp_path: Path) -> None:
    """Here what is imported late is one of the test's, asked for while the job starts."""
    program = tmp_path / "late.py"
    program.write_text(
        "import sys, pyshmem\n"
        "from pyshmem.host.job import runtime\n"
        "if __name__ == '__main__':\n"
        "    runtime._inside = 'init'\n"
        "    import late\n"
        "pyshmem.init(device='none')\n"
    )
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    told = f"{program} hides the module late, and is imported for it: rename it"
    assert done.stderr.splitlines()[-1] == f"ImportError: {told}"


def test_another_program_beside_it_that_hides_a_module_is_told(tmp_path: Path) -> None:
    """It is imported by what starts the job, and would start one itself."""
    (tmp_path / "late.py").write_text("import pyshmem\npyshmem.init(device='none')\n")
    (tmp_path / "p.py").write_text(
        "import pyshmem\n"
        "from pyshmem.host.job import runtime\n"
        "def check():\n"
        "    import late\n"
        "runtime.library.check_texts = check\n"
        "pyshmem.init(device='none')\n"
    )
    done = subprocess.run(
        [sys.executable, "p.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    told = f"{tmp_path}/late.py hides the module late, and is imported for it: rename it"
    assert done.stderr.splitlines()[-1] == f"ImportError: {told}"


@pytest.mark.parametrize("name", ["torch", "numba", "greenlet"])
@pytest.mark.parametrize("pe", [None, "0", "1"])
def test_a_file_that_hides_another_package_is_a_warning(
    tmp_path: Path, name: str, pe: str | None
) -> None:
    (tmp_path / f"{name}.py").touch()
    (tmp_path / "triton").mkdir()  # hides nothing: it is no package
    (tmp_path / "p.py").write_text("import pyshmem\n")
    places = {key: value for key, value in os.environ.items() if not key.startswith("PYSHMEM_")}
    if pe is not None:
        places["PYSHMEM_PE"] = pe
    done = subprocess.run(
        [sys.executable, "p.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=places,
        timeout=60,
    )
    told = f"p.py:1: RuntimeWarning: {tmp_path / name}.py hides the package {name}: rename it"
    assert done.returncode == 0
    assert done.stderr.count(": rename it") == (pe != "1")
    assert (told in done.stderr) == (pe != "1")


def test_files_of_another_project_between_ours_are_a_warning_of_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSHMEM_PE", raising=False)
    folder = folder_with(tmp_path, None, more=("_shared.py",)) / "pyshmem"
    with pytest.warns(RuntimeWarning, match="also has files of the project pyshmem") as caught:
        other_project.warn_of_leftovers(str(folder))
    assert other_project.CURE in str(caught[0].message)


@pytest.mark.filterwarnings("error")
def test_our_own_files_and_pes_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSHMEM_PE", raising=False)
    other_project.warn_of_leftovers(pyshmem.__path__[0])
    monkeypatch.setenv("PYSHMEM_PE", "1")  # the launcher has told
    other_project.warn_of_leftovers(str(folder_with(tmp_path, None, more=("_cli.py",)) / "pyshmem"))


def test_the_import_looks_for_such_files() -> None:
    text = Path(pyshmem.__file__).read_text(encoding="utf-8")
    assert "_other_project.warn_of_leftovers(" in text


def test_doctor_and_info_name_the_other_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyshmem": "1.4.0"}
    assert not list(doctor._other_project())
    monkeypatch.setattr(facts, "version_of", versions.get)
    [finding] = doctor._other_project()
    assert (finding.purpose, finding.state) == ("host", "wrong")
    assert "1.4.0" in finding.detail
    assert finding.fix == other_project.CURE
    assert "another pyshmem" in dict(facts.versions())


def test_the_build_sees_where_the_other_project_is_installed(tmp_path: Path) -> None:
    assert other_project.installed_beside(tmp_path) is None
    (tmp_path / "pyshmem_openshmem-0.2.0.dist-info").mkdir()
    (tmp_path / "pyshmem-tools-0.2.0.dist-info").mkdir()
    assert other_project.installed_beside(tmp_path) is None
    (tmp_path / "pyshmem-1.4.0.dist-info").mkdir()
    assert other_project.installed_beside(tmp_path) == "1.4.0"
    assert "_core/other_project.py" in (ROOT / "meson.build").read_text(encoding="utf-8")


def test_no_text_tells_to_install_the_other_project() -> None:
    """Where it is named it is said what it brings."""
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "pyshmem").rglob("*.py")]
    command = re.compile(r"pip3? install (?:-\S+ )*'?pyshmem(?![-\w/])")
    told = {
        str(path.relative_to(ROOT)): line
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if command.search(line) and "another" not in line.lower()
    }
    assert not told
