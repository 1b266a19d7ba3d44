# SPDX-License-Identifier: BSD-3-Clause
"""Deletes what orders a right program, one statement at a time: is it reported?

A hang or a failure counts, for nobody misses that. Not deleted is what stands last in the program, as
``finalize`` is a barrier. From the checkout: ``python tests/check/mutations.py tests/check/right/*.py``
prints a row a deletion and the sum; what is missed is either equivalent, or a fault of the checker.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_ORDERS = re.compile(
    r"(pe_)?quiet|fence|(signal_)?wait_until\w*|wait|sync|sync_all\w*|barrier_all\w*|team_sync\w*"
    r"|signal_(set|add|op)|syncthreads|atomic_(inc|set)|set_lock|clear_lock"
)


def mutants(path: Path, instead: str = "pass") -> Iterator[tuple[int, str, str]]:
    """Line, what is deleted, and the program with ``instead`` in its place."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    last = max(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt))
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or node.lineno == last:
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if _ORDERS.fullmatch(name) is None or node.end_lineno is None:
            continue
        n_more = node.end_lineno - node.lineno
        deleted = [" " * node.col_offset + instead + "\n"] + ["\n"] * n_more
        without = [*lines[: node.lineno - 1], *deleted, *lines[node.end_lineno :]]
        yield node.lineno, name, "".join(without)


def outcome(path: Path, text: str) -> str:
    """Reported, hangs, fails, or missed."""
    n_pes = (re.findall(r"PEs: (\d)\.", text) or re.findall(r"run -n (\d)", text))[0]
    device = (re.findall(r'init\(device="(\w+)"', text) or ["sim"])[0]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, path.name)
        program.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", device]
        command += ["--timeout", "40", "--check=order", str(program)]
        variables = {**os.environ, "PYSHMEM_TIMEOUT": "3"}
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, cwd=folder
        )
    if done.returncode in (0, 3):
        return "reported" if done.returncode else "missed"
    return "hangs" if done.returncode == 124 or "ShmemTimeout" in done.stderr else "fails"


def main(paths: list[str]) -> None:
    """A row for each deletion, and the sum."""
    rows = [(Path(path), *one) for path in paths for one in mutants(Path(path))]
    seen = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda row: outcome(row[0], row[3]), rows)
        for (path, line, name, _), result in zip(rows, results, strict=True):
            print(f"{result:9} {path}:{line} {name}", flush=True)
            seen += result != "missed"
    print(f"{seen} of {len(rows)} deletions are seen, {100 * seen / max(1, len(rows)):.0f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
