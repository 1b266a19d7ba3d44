# SPDX-License-Identifier: BSD-3-Clause
"""Programs of the README and the pages: which there are, whether they print what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
README = DOCS.parent / "README.md"
#: All of their blocks are programs; those of the other pages are where they join a job.
LESSONS = [DOCS / "index.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("howto/*.md"))]
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
            follows = page in LESSONS or "pyshmem.init(" in body
            if follows:
                programs.append((body, None))
        elif language == "text" and follows:
            programs[-1] = programs[-1][0], body
            follows = False
    started = re.search(r"pyshmem run -n (\d+)", text)
    return (int(started[1]) if started else 2), programs


def pages_with_programs(*, torch: bool) -> list[Path]:
    """Those whose programs import PyTorch, or those whose do not."""
    pages = [*LESSONS, *sorted(set(DOCS.glob("*.md")) - set(LESSONS))]
    texts = {page: "".join(program for program, _ in programs_of(page)[1]) for page in pages}
    return [page for page, text in texts.items() if text and ("import torch" in text) == torch]


class Step(NamedTuple):
    """Commands of the README, the files that they want, and what they print."""

    files: dict[str, str]
    commands: str
    output: str


def steps_of_the_readme() -> list[Step]:
    """What somebody does who follows the README: a program is saved as the name before it."""
    text = README.read_text(encoding="utf-8")
    steps: list[Step] = []
    files: dict[str, str] = {}
    for found in BLOCK.finditer(text):
        language, body = found.groups()
        if language == "python":
            name = re.findall(r"Save as\s+`(\w+\.py)`", text[: found.start()])[-1]
            assert name not in files
            files[name] = body
        elif language == "sh":
            steps.append(Step(files, body, ""))
            files = {}
        elif language == "text":
            steps[-1] = steps[-1]._replace(output=body)
    return steps


def device_of(programs: list[tuple[str, str | None]]) -> str:
    """Where a page's programs run: those with kernels or tensors on GPUs, if there are any."""
    text = "".join(program for program, _ in programs)
    if "import cupy" in text:
        return "cuda"
    return "auto" if 'heap="device"' in text or "import torch" in text else "none"


def check_page(page: Path, run_pes: Callable, folder: Path) -> None:
    """Run the page's programs in ``folder`` and compare what they print."""
    n, programs = programs_of(page)
    for k, (program, _) in enumerate(programs):
        (folder / f"program_{k:02}.py").write_text(program, encoding="utf-8")
    run_pes(n, DRIVER, [folder], device=device_of(programs), timeout=120, check=True)
    for k, (program, says) in enumerate(programs):
        printed = [(folder / f"program_{k:02}.{pe}.out").read_text() for pe in range(n)]
        if says is not None:
            assert sorted("".join(printed).splitlines()) == sorted(says.splitlines()), program
