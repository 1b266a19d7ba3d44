# SPDX-License-Identifier: BSD-3-Clause
"""Every program of the site's first page, tutorial and how-tos runs and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "index.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("howto/*.md"))]
#: A fence with its language, and what is in it.
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: A page's programs one after the other in each PE, each a file: compilers of kernels read their source.
DRIVER = """
import contextlib, io, os, runpy, sys
from pathlib import Path

os.chdir(sys.argv[1])  # what programs write stays there
for program in sorted(Path(sys.argv[1]).glob("program_*.py")):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(program), run_name="__main__")
    program.with_name(f"{program.stem}.{os.environ['PYSHMEM_PE']}.out").write_text(printed.getvalue())
"""


def programs_of(page: Path) -> tuple[int, list[tuple[str, str | None]]]:
    """The number of PEs that the page starts, and its programs, each with the output it gives."""
    text = page.read_text(encoding="utf-8")
    programs: list[tuple[str, str | None]] = []
    follows = False
    for language, body in BLOCK.findall(text):
        if language == "python":
            programs.append((body, None))
            follows = True
        elif language == "text" and follows:
            programs[-1] = programs[-1][0], body
            follows = False
    started = re.search(r"pyshmem run -n (\d+)", text)
    return (int(started[1]) if started else 2), programs


WITH_PROGRAMS = [page for page in PAGES if programs_of(page)[1]]


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda page: page.stem)
def test_programs_of_a_page_print_what_it_says(
    page: Path, run_pes: Callable, tmp_path: Path
) -> None:
    n, programs = programs_of(page)
    if any("triton" in program for program, _ in programs):
        pytest.importorskip("triton")
    for k, (program, _) in enumerate(programs):
        (tmp_path / f"program_{k:02}.py").write_text(program, encoding="utf-8")
    device = "sim" if any('heap="device"' in program for program, _ in programs) else "none"
    if any("import cupy" in program for program, _ in programs):
        pytest.importorskip("cupy", reason="a page for GPUs")
        device = "cuda"
    run_pes(n, DRIVER, [tmp_path], device=device, timeout=120, check=True)
    for k, (program, says) in enumerate(programs):
        printed = [(tmp_path / f"program_{k:02}.{pe}.out").read_text() for pe in range(n)]
        if says is not None:
            assert sorted("".join(printed).splitlines()) == sorted(says.splitlines()), program


def test_the_tutorial_is_there_and_says_what_is_printed() -> None:
    pages = sorted(DOCS.glob("tutorial/[0-9]*.md"))
    assert len(pages) >= 7
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
    for page in PAGES:
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
