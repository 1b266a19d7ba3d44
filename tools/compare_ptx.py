# SPDX-License-Identifier: BSD-3-Clause
"""Whether kernels are the same before and after a change that should not change them.

    TRITON_INTERPRET=0 python tests/pytorch/experts_cases.py > before.json   (and after the change)
    python tools/compare_ptx.py before.json after.json

Reads what ``matmul_cases.py``, ``experts_cases.py`` and ``programs/norm_ptx.py`` print: PTX by name. Not
compared are where a line of PTX comes from, the kernel's name, and the number by which reports know it,
which is made of its name. Prints a line a kernel; the exit status is 1 if one differs or is missing.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from pathlib import Path

#: What says where a line comes from, up to the end of the text.
_DEBUG = re.compile(r"^\t\.section\t\.debug.*", re.DOTALL | re.MULTILINE)
_ORIGIN = re.compile(r"^\s*(?:\.loc|\.file|//|\$L__(?:tmp|func)).*\n", re.MULTILINE)
#: As ``triton/primitives/ptx.py`` writes it.
_NUMBER = re.compile(r"(mov\.b64 f, )\d{10,};")
_NAME = re.compile(r"\.visible \.entry (\w+)")


def code(ptx: str) -> list[str]:
    """The lines that a GPU runs, under names that do not say whose they are."""
    text = _ORIGIN.sub("", _DEBUG.sub("", ptx))
    text = _NUMBER.sub(r"\1KERNEL;", re.sub(r"[ \t]*//.*", "", text))
    for name in set(_NAME.findall(text)):
        text = re.sub(rf"\b{name}(?=\b|_param)", "kernel", text)
    return [line for line in text.splitlines() if line.strip()]


def read(path: str) -> dict[str, str]:
    """PTX by name, with or without the version of Triton around it."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    return dict(found.get("ptx", found))


def main(before: str, after: str) -> int:
    """Compare two files; print the first lines that differ."""
    old, new = read(before), read(after)
    wrong = 0
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            print(f"{name}: only {'after' if name in new else 'before'}")
            wrong += 1
            continue
        mine, others = code(old[name]), code(new[name])
        changes = [
            line
            for line in difflib.unified_diff(mine, others, lineterm="", n=0)
            if line[:1] in "+-" and not line.startswith(("+++", "---"))
        ]
        wrong += bool(changes)
        print(f"{name}: {len(mine)} lines, {f'{len(changes)} differ' if changes else 'the same'}")
        for line in changes[:8]:
            print("   ", line)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
