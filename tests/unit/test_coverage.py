# SPDX-License-Identifier: BSD-3-Clause
"""Every routine of OpenSHMEM 1.6 is exported, has a Python name and a test; docs/coverage.md says so."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "coverage.py"


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_page", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def names(coverage: ModuleType) -> list[str]:
    return coverage.NAMES.read_text(encoding="utf-8").split()


def test_every_function_is_exported(names: list[str]) -> None:
    assert len(names) == 1685
    library = ctypes.CDLL("libpyshmem.so.0", os.RTLD_NOLOAD | os.RTLD_LAZY)  # pyshmem has loaded it
    assert [name for name in names if not hasattr(library, name)] == []


def test_every_family_has_a_python_name(coverage: ModuleType, names: list[str]) -> None:
    unknown = [
        family.name
        for family in coverage.families(names)
        if coverage.resolve(coverage.python_name(family.name)) is None
    ]
    assert not unknown


def test_every_family_has_a_test(coverage: ModuleType, names: list[str]) -> None:
    tests = coverage.tests_of()
    untested = [f.name for f in coverage.families(names) if not coverage.tests_for(f.name, tests)]
    assert not untested


def test_the_page_is_up_to_date(coverage: ModuleType, names: list[str]) -> None:
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(names), (
        "run python tools/coverage.py"
    )


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("shmem_ctx_int32_atomic_fetch_add", ("atomic_fetch_add", "int32")),
        ("shmem_ctx_put128_signal_nbi", ("put_signal_nbi", "128")),
        ("shmem_ctx_create", ("ctx_create", "")),
        ("shmem_ulong_wait_until_some_vector", ("wait_until_some_vector", "ulong")),
        ("shmem_alltoallsmem", ("alltoalls", "mem")),
        ("shmem_ibget8", ("ibget", "8")),
        ("shmem_team_split_2d", ("team_split_2d", "")),
    ],
)
def test_names_are_taken_apart(
    coverage: ModuleType, function: str, expected: tuple[str, str]
) -> None:
    assert coverage.family_of(function) == expected
