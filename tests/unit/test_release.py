# SPDX-License-Identifier: BSD-3-Clause
"""What a release consists of says the same everywhere: version, requirements, licences, changes."""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import pyshmem

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def found(pattern: str, name: str) -> str:
    match = re.search(pattern, text(name), re.M)
    assert match, f"{name} has no {pattern}"
    return match[1]


@pytest.fixture(scope="module")
def check_wheel() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / "tools" / "check_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_all_that_has_a_version_has_the_same() -> None:
    version = found(r"^    version: '(.*)',$", "meson.build")
    assert version == found(r'set version = "(.*)"', "tools/conda/meta.yaml")
    assert version == found(r"^version: (.*)$", "CITATION.cff")
    assert version == pyshmem.__version__


def test_the_conda_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = {
        f"{name}{versions.replace(' ', '')}"
        for name, versions in re.findall(
            r"^    - ([\w-]+) *([<>=].*)?$", text("tools/conda/meta.yaml"), re.M
        )
    }
    wanted = {*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]}
    assert wanted <= recipe, wanted - recipe
    [numba_cuda] = [
        one
        for one in PROJECT["project"]["optional-dependencies"]["sim"]
        if one.startswith("numba-cuda")
    ]
    assert numba_cuda in recipe


def test_licences_are_in_the_wheels_and_name_what_is_compiled_in(check_wheel: ModuleType) -> None:
    assert tuple(PROJECT["project"]["license-files"]) == check_wheel.LICENCES
    assert "cffi" in text("NOTICE")
    for name in check_wheel.LICENCES:
        assert f"'{name}'" in text("meson.build")


def test_wheels_of_a_release_are_checked() -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    policy = settings["manylinux-x86_64-image"].removeprefix("manylinux_").replace("_", ".")
    assert f"check_wheel.py --glibc {policy} {{dest_dir}}" in settings["repair-wheel-command"]
    assert "tools/check_wheel.py" in text("tools/packages.sh")


def test_the_check_of_wheels_finds_what_is_wrong(check_wheel: ModuleType) -> None:
    right = [*check_wheel.FILES, *(f"p.dist-info/licenses/{each}" for each in check_wheel.LICENCES)]
    assert not list(check_wheel.missing(right))
    assert list(check_wheel.missing(right[1:])) == [f"{right[0]} is missing"]
    assert any("NOTICE" in each for each in check_wheel.missing(right[:-1]))
    assert any("libs/" in each for each in check_wheel.missing([*right, "p.libs/libgomp.so.1"]))
    versions = "  Name: GLIBC_2.17  Flags\n  Name: GLIBC_2.9  Flags\n  Name: PYSHMEM_3.0\n"
    assert check_wheel.glibc(versions) == (2, 17)
    dynamic = "".join(
        f" 0x1 (NEEDED)  Shared library: [{name}]\n" for name in ("libc.so.6", "libcuda.so.1")
    )
    assert check_wheel.needs(dynamic) == ["libc.so.6", "libcuda.so.1"]
    assert [bool(check_wheel.LIBRARIES.fullmatch(each)) for each in check_wheel.needs(dynamic)] == [
        True,
        False,
    ]


def test_the_check_of_wheels_knows_routines_compiled_ahead(
    check_wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, objects = check_wheel.ROUTINES

    def said(**members: dict[str, object]) -> tuple[str, list[str]]:
        with zipfile.ZipFile(tmp_path / "wheel", "w") as wheel:
            for name, index in members.items():
                inner = io.BytesIO()
                with zipfile.ZipFile(inner, "w") as archive:
                    archive.writestr("index.json", json.dumps(index))
                wheel.writestr(name, inner.getvalue())
        with zipfile.ZipFile(tmp_path / "wheel") as wheel:
            return check_wheel.routines(wheel)

    assert said()[0].startswith("no device routines")
    both = {texts: {"routines": {"a": {}, "b": {}}}, objects: {"objects": ["a"]}}
    told, wrong = said(**both)
    assert "[2, 1]" in told
    assert not wrong
    assert said(**{texts: both[texts]})[1] == [f"{objects} is missing"]
    assert "cannot be read" in said(**(both | {objects: {}}))[1][0]
    monkeypatch.setattr(check_wheel, "MOST_OF_ROUTINES", 10)
    assert "more than 10" in said(**both)[1][0]


def test_the_check_of_wheels_reads_our_own_library(check_wheel: ModuleType) -> None:
    [native] = {
        Path(line.split()[-1])
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith("/libpyshmem.so.0")
    }
    version = check_wheel.glibc(check_wheel.readelf(native, "--version-info"))
    assert (2, 0) < version < (3, 0)
    for library in check_wheel.needs(check_wheel.readelf(native, "--dynamic")):
        assert check_wheel.LIBRARIES.fullmatch(library)


def test_what_type_checkers_see_of_compiled_and_made_modules_is_all_there() -> None:
    """The build makes one stub; two stand beside extensions. The rest is annotated, as mypy sees to."""
    from pyshmem import device
    from pyshmem._core import _fast, _native

    made = ROOT / "pyshmem" / "device" / "__init__.pyi"
    if not made.exists():
        pytest.skip("make lint makes it beside the sources")

    def names(stub: Path) -> set[str]:
        tree = ast.parse(stub.read_text(encoding="utf-8"))
        found: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.ImportFrom):
                found |= {alias.asname or alias.name for alias in node.names}
        return found

    assert set(device.__all__) <= names(made)
    for module in (_fast, _native):
        stub = names(ROOT / "pyshmem" / "_core" / f"{module.__name__.rpartition('.')[2]}.pyi")
        public = {name for name in vars(module) if not name.startswith("_")}
        assert public <= stub, module


def test_changes_are_by_version_newest_first_in_the_form_of_keep_a_changelog() -> None:
    changes = text("CHANGELOG.md")
    versions = re.findall(r"^## (\S+) - (.+)$", changes, re.M)
    assert len(versions) == len(re.findall(r"^## ", changes, re.M)) >= 2
    assert versions[0][0] == pyshmem.__version__
    for name, day in versions:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d|not released yet|never released", day), name
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for part in re.split(r"^## ", changes, flags=re.M)[1:]:
        headings = re.findall(r"^### (.*)$", part, re.M)
        assert kinds >= set(headings)
        assert len(set(headings)) == len(headings)
        assert not re.search(r"^### .*\n+(?=###|\Z)", part, re.M), "a heading with nothing below"
