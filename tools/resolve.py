#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What installs beside what: asks pip's resolver, installs nothing, writes docs/reference/versions.md.

Usage: ``make resolve``, or ``tools/resolve.py [WORD]``: only the rows whose name has the word.
Needs the network; a question takes half a minute, and none may take ten. Where the index has no metadata
beside wheels, pip downloads them all: minutes and 3 GB a question.

Extras that install together install alone, too: all that can stand together are asked for at once, and
one by one only where pip refuses.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

from versions_page import Row, oldest, project, write

#: What may stand in one environment; there is one CuPy, so ``cuda`` and ``cuda12`` may not.
TOGETHER = (("sim", "cuda", "triton", "torch", "mpi", "demo"), ("cuda12",))
#: What the page shows of them.
EXTRAS = tuple(extra for group in TOGETHER for extra in group)
KEPT = (
    "numpy",
    "numba",
    "numba-cuda",
    "torch",
    "triton",
    "cuda-toolkit",
    "cupy-cuda13x",
    "cupy-cuda12x",
)


class Beside(NamedTuple):
    """``wants``: its requirements that pyshmem has an opinion on, as it states them."""

    name: str
    wants: tuple[str, ...]


_OLDEST = oldest("sim", "numba")
_TORCHES = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
ROWS = (
    *(Beside(f"torch {version}", (f"torch=={version}",)) for version in _TORCHES),
    Beside("vLLM 0.33.0 (its pins of torch and numba)", ("torch==2.14.0", "numba==0.65.0")),
    Beside("SGLang 0.5.23 (its pins of torch and numba)", ("torch==2.14.1", "numba==0.65.1")),
    Beside("nvshmem4py-cu13 0.4.1", ("nvshmem4py-cu13==0.4.1",)),
    Beside("the oldest Numba", (f"numba=={_OLDEST}",)),
    Beside("the newest Numba", ("numba==0.68.1",)),
)


def resolve(extras: tuple[str, ...], wants: tuple[str, ...]) -> Row:
    """Whether pip finds versions for all, and which, or its reason."""
    table = project()
    own = [*table["dependencies"]]
    own += [one for name in extras for one in table["optional-dependencies"][name]]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", report.name]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
        try:
            done = subprocess.run(
                [*command, *own, *wants], capture_output=True, text=True, timeout=600, check=False
            )
        except subprocess.TimeoutExpired:
            return {"fits": False, "why": "pip found no answer in ten minutes", "versions": {}}
        if done.returncode:
            return {"fits": False, "why": reason(done.stderr), "versions": {}}
        found = json.load(report)["install"]
    versions = {each["metadata"]["name"].lower(): each["metadata"]["version"] for each in found}
    return {"fits": True, "why": "", "versions": {n: versions[n] for n in KEPT if n in versions}}


def reason(text: str) -> str:
    """What pip says of a conflict, in a line."""
    asked = re.findall(r"^ *((?:The user requested|\S.* depends on) .*)$", text, re.M)
    because = re.search(r"Cannot install (.*?) because these", text)
    if asked:
        return "; ".join(line.replace("The user requested", "asked for") for line in asked[-3:])
    if because:
        packages = re.sub(r"\[[^]]{9,}\]", "[…]", because[1])  # long lists of extras
        return f"not together: {packages}"
    return " ".join(text.split()[-30:])


def answers(beside: Beside) -> dict[str, Row]:
    """A row for each extra; what fits in a group has the versions of the whole group."""
    found = {}
    for group in TOGETHER:
        whole = resolve(group, beside.wants)
        if whole["fits"] or len(group) == 1:
            found |= dict.fromkeys(group, whole)
            continue
        alone = {extra: resolve((extra,), beside.wants) for extra in group}
        rest = tuple(extra for extra in group if alone[extra]["fits"])
        again = resolve(rest, beside.wants)
        if again["fits"]:
            alone |= dict.fromkeys(rest, again)
        else:
            why = {"fits": False, "why": f"alone, but not with all others: {again['why']}"}
            alone |= {extra: alone[extra] | why for extra in rest}
        found |= alone
    return found


def main(word: str = "") -> int:
    """Ask for each row, and write the page after each."""
    for beside in ROWS:
        if word in beside.name:
            extras = answers(beside)
            told = {name: one["why"] or "fits" for name, one in extras.items()}
            print(beside.name, told, flush=True)
            asked = {name: project()["optional-dependencies"][name] for name in EXTRAS}
            row = {"name": beside.name, "wants": beside.wants, "extras": extras, "asked": asked}
            write("resolved", [row], [each.name for each in ROWS])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
