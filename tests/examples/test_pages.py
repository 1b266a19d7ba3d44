# SPDX-License-Identifier: BSD-3-Clause
"""Programs of the first page, tutorial and how-tos print what they say; examples of docstrings run."""

from __future__ import annotations

import ctypes
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
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

import pyshmem


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


#: They end the program, or start another job: read, and not run.
NOT_RUN = ("abort", "global_exit", "launch")


def example_of(value: object) -> str:
    """What a docstring gives as one; of several lines none."""
    found = re.findall(r"^ *Example: ``(.*)``$", getattr(value, "__doc__", "") or "", re.MULTILINE)
    assert len(found) == 1, value
    return found[0]


@pytest.fixture(scope="module")
def names_of_examples() -> Iterator[Callable[[], dict[str, object]]]:
    """What the examples of docstrings are about, new for each."""
    with pyshmem.init(device="none", heap_size="4M") as job:

        def made() -> dict[str, object]:
            def words(size: int) -> object:
                return pyshmem.zeros(size, np.int64)

            return {
                "np": np, "pyshmem": pyshmem, "job": job, "right": (job.my_pe + 1) % job.n_pes,
                "dest": words(4), "source": words(4), "whole": words(4 * job.n_pes),
                "counter": words(1), "fetched": np.zeros(1, np.int64), "flags": words(4),
                "sig": pyshmem.new_signal(), "function": HANDLER,
            }  # fmt: skip

        yield made
        pyshmem.pcontrol(1)  # its example pauses what later tests of this process record


HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(lambda a, b, c, d: 0)


@pytest.mark.parametrize(
    "name",
    [name for name in pyshmem.__all__ if inspect.isroutine(inspect.unwrap(getattr(pyshmem, name)))],
)
def test_the_example_of_a_routine_runs(name: str, names_of_examples: Callable) -> None:
    code = compile(example_of(getattr(pyshmem, name)), name, "exec")
    assert re.search(rf"\bpyshmem\.{name}\b", example_of(getattr(pyshmem, name)))
    if name == "finalize":
        pyshmem.init()
    if name not in NOT_RUN:
        exec(code, names_of_examples())
