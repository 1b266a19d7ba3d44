# SPDX-License-Identifier: BSD-3-Clause
"""Every program of the first page, tutorial and how-tos runs and prints what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from pages import (
    BLOCK,
    DOCS,
    LESSONS,
    check_page,
    device_of,
    pages_with_programs,
    programs_of,
)


@pytest.mark.parametrize("page", pages_with_programs(torch=False), ids=lambda page: page.stem)
def test_programs_of_a_page_print_what_it_says(
    page: Path, run_pes: Callable, tmp_path: Path
) -> None:
    _, programs = programs_of(page)
    if any("triton" in program for program, _ in programs):
        pytest.importorskip("triton")
    if device_of(programs) == "cuda":
        pytest.importorskip("cupy", reason="a page for GPUs")
    check_page(page, run_pes, tmp_path)


def test_the_tutorial_is_there_and_says_what_is_printed() -> None:
    pages = sorted(DOCS.glob("tutorial/[0-9]*.md"))
    assert len(pages) >= 8
    for page in pages:
        _, programs = programs_of(page)
        assert programs, page
        assert all(says for _, says in programs), page


def test_pages_name_what_is_there() -> None:
    here = {
        "pyshmem": (import_module("pyshmem"),),
        "shmem": tuple(pytest.importorskip(f"pyshmem.{where}") for where in ("device", "triton")),
    }
    strangers = []
    for page in LESSONS:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for prefix, name in re.findall(r"(?<![\w./-])(pyshmem|shmem)\.(\w+)", text):
            if prefix == "shmem" and "shmem4py" in page.stem:
                continue  # there it is shmem4py's module, which joins a job when it is imported
            if not any(hasattr(module, name) for module in here[prefix]) and not (
                prefix == "pyshmem" and find_spec(f"pyshmem.{name}")
            ):
                strangers.append(f"{page.stem}: {prefix}.{name}")
    assert strangers == []


def test_every_public_name_has_a_docstring() -> None:
    without = []
    for where in ("pyshmem", "pyshmem.device", "pyshmem.triton"):
        module = pytest.importorskip(where)
        values = ((name, getattr(module, name)) for name in module.__all__)
        without += [
            f"{where}.{name}" for name, value in values if not (value.__doc__ or "").strip()
        ]
    assert without == []
