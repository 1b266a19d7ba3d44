# SPDX-License-Identifier: BSD-3-Clause
"""Modules that have moved are found under their old names, and say so."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pyshmem
from pyshmem._core.moved import MOVED

PACKAGE = Path(pyshmem.__file__).parent


def file_of(module: str) -> Path:
    return PACKAGE.joinpath(*module.split(".")[1:])


def is_there(module: str) -> bool:
    return file_of(module).with_suffix(".py").is_file() or file_of(module).is_dir()


@pytest.mark.parametrize("old", MOVED)
def test_what_moved_is_where_the_table_says(old: str) -> None:
    assert not is_there(old)
    assert is_there(MOVED[old])


def first_of(package: str) -> str:
    return next(old for old in MOVED if old.startswith(package))


PACKAGES = ["pyshmem.interop.torch.", "pyshmem.fused.", "pyshmem.triton."]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("how", ["import", "attribute"])
def test_an_old_name_is_the_module_and_warns(package: str, how: str) -> None:
    pytest.importorskip("triton" if package == "pyshmem.triton." else "torch")
    old = first_of(package)
    folder, _, name = old.rpartition(".")
    code = f"""
import importlib, sys, warnings
importlib.import_module({folder!r})
new = importlib.import_module({MOVED[old]!r})
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    if {how!r} == "import":
        found = importlib.import_module({old!r})
    else:
        found = getattr(sys.modules[{folder!r}], {name!r})
    again = importlib.import_module({old!r})
print(found is new, again is new, new.__name__, new.__spec__.name)
print([one.category.__name__ for one in told if {old!r} in str(one.message)][0])
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", "PYSHMEM_DEVICE": "sim"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    new = MOVED[old]
    assert found.stdout.splitlines() == [f"True True {new} {new}", "DeprecationWarning"]


def test_what_was_never_there_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pyshmem\.host\.never"):
        importlib.import_module("pyshmem.host.never")
