# SPDX-License-Identifier: BSD-3-Clause
"""Follows the library's own kernels of Triton, and deletes what orders them, one statement at a time.

Without arguments, from the checkout: programs of ``internals/`` under ``--check=order`` with the bodies
of routines followed in the place of what these promise, once as the library is, then with each fence,
wait, signal and barrier of the files below deleted. Prints a row a deletion and the sum. With names of
files, those. What is not run says nothing of the checker; what is missed is either equivalent, or a
fault of the checker: docs/howto/races.md has the table. TESTS_PATIENCE=8 gives waits 8 times their 20 s.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "pyshmem"
_NORM = "fused/all_reduce_norm"
#: By file of the package: the program, its arguments, and PEs.
FILES: dict[str, tuple[str, int]] = {
    "triton/ordering.py": ("tiles", 2),
    "triton/signals.py": ("tiles", 2),
    "triton/collectives.py": ("tiles", 2),
    "triton/ll_channels.py": ("tiles", 3),
    f"{_NORM}/push_kernels.py": ("norms push", 2),
    f"{_NORM}/pull_kernels.py": ("norms pull", 2),
    f"{_NORM}/two_shot_kernels.py": ("norms two_shot", 3),
    f"{_NORM}/one_shot_ll_kernels.py": ("norms one_shot", 2),
    "fused/_shared/slots_kernels.py": ("moves exchanges", 2),
    "fused/exchange/kernels.py": ("moves exchanges", 2),
    "fused/matmul/kernels.py": ("moves products", 2),
    "fused/moe/routing_kernels.py": ("moves experts", 2),
    "fused/moe/dispatch_kernels.py": ("moves experts", 2),
    "fused/moe/combine_kernels.py": ("moves experts", 2),
}
_ORDERS = re.compile(
    r"fence\w*|quiet|settle|wait\w*|poll|await_\w+|receive\w*|signal_\w+|set_words|release_\w+|send_slot"
    r"|program_barrier|barrier\w*|sync\w*|exchange|exchange_grid|_say_so|_raise_by_proxy|free_slot"
)
#: What a mutant prints where a statement was.
_DELETED = "deleted"
_PATIENCE = int(os.environ.get("TESTS_PATIENCE", "1"))


class _Mutant(importlib.abc.MetaPathFinder):
    """A module of the package comes from another file."""

    def __init__(self, name: str, path: str) -> None:
        self._name, self._path = name, path

    def find_spec(self, fullname: str, path: object, target: object = None) -> object:
        """The module, if it is that one."""
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path)


def follow_words() -> None:
    """What the host sends and says for a kernel, before its launch and behind it, is in the records."""
    from pyshmem.check import effects, memory, record
    from pyshmem.fused._shared import copy_engine

    plain_set, plain_await = copy_engine.set_word, copy_engine.await_word
    plain_put = copy_engine._put

    def written(routine: str, done: list[tuple]) -> None:
        record.log().write(record.now(), 0, routine, done)
        record.log().flush()

    def word(address: int) -> tuple[int, int, int]:
        heap, low = memory.own(address)
        return heap, low, low + 8

    def set_word(address: int, value: int, pe: int, stream: int | None) -> None:
        sent = ("d", pe, None, 0, word(address), "set", value)
        written("signal_set", [("F", 0), sent])
        plain_set(address, value, pe, stream)

    def await_word(address: int, value: int, *more: object) -> None:
        plain_await(address, value, *more)
        written("wait", [("W", *word(address), effects.EQUAL, value, value, value)])

    def put(
        dest: int, source: int, nbytes: int, at: int | None, pe: int, stream: int | None
    ) -> None:
        heap, low = memory.own(dest)
        data = [(low, low + nbytes)]
        if nbytes and at is None:
            written("put", [("s", pe, heap, data, 0, None), ("F", 0)])
        elif nbytes:
            written("put_signal", [("d", pe, (heap, data), 0, word(at), "set", 1)])
        plain_put(dest, source, nbytes, at, pe, stream)

    record._replace(plain_put, put)
    record._replace(plain_set, set_word)
    record._replace(plain_await, await_word)


def run_program(program: str, arguments: list[str]) -> None:
    """In a PE: the library's kernels are followed, one module of it is another's."""
    if name := os.environ.get("MUTANT_MODULE"):
        sys.meta_path.insert(0, _Mutant(name, os.environ["MUTANT_FILE"]))
    from pyshmem.check import log

    log.internals = True
    follow_words()
    sys.argv = [program, *arguments]
    import runpy

    runpy.run_path(program, run_name="__main__")


def outcome(what: tuple[str, int], module: str = "", text: str = "") -> tuple[str, str]:
    """Reported, hangs, fails, missed, or not run; and the first pair of lines, or what was raised."""
    (name, *arguments), n_pes = what[0].split(), str(what[1])
    with tempfile.TemporaryDirectory() as folder:
        mutant, found = Path(folder, module.rpartition(".")[2] + ".py"), Path(folder, "found.json")
        mutant.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", "sim"]
        command += ["--timeout", str(240 * _PATIENCE), "--check=order"]
        command += [str(Path(__file__).resolve()), "--program"]
        command += [str(HERE / "internals" / f"{name}.py"), *arguments]
        variables = {**os.environ, "PYSHMEM_CHECK_JSON": str(found)}
        variables |= {"PYSHMEM_TIMEOUT": str(20 * _PATIENCE)}
        if module:
            variables |= {"MUTANT_MODULE": module, "MUTANT_FILE": str(mutant)}
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, cwd=folder
        )
        reports = json.loads(found.read_text("utf-8"))["reports"] if found.exists() else []
    if reports:
        lines = (reports[0][side]["site"] for side in ("first", "second"))
        return "reported", " ".join(f"{Path(one['file']).name}:{one['line']}" for one in lines)
    if done.returncode == 0:
        return ("missed" if not module or _DELETED in done.stdout else "not run"), ""
    hangs = done.returncode == 124 or "ShmemTimeout" in done.stderr
    last = [line for line in done.stderr.splitlines() if "Error" in line or "Timeout" in line]
    return ("hangs" if hangs else "fails"), (last or [""])[-1][:100]


def mutants(file: str) -> Iterator[tuple[int, str, str]]:
    """Line, what is deleted, and the module that says so in its place."""
    import mutations

    mutations._ORDERS = _ORDERS
    yield from mutations.mutants(PACKAGE / file, f"print({_DELETED!r})")


def main(files: list[str]) -> int:
    """A row for each deletion, and the sum."""
    for what in sorted({FILES[file] for file in files}):
        result, about = outcome(what)
        print(f"{result:9} {what[0]}, {what[1]} PEs, as the library is {about}", flush=True)
        if result != "missed":
            return 1
    seen: Counter[str] = Counter()
    rows = [(file, *one) for file in files for one in mutants(file)]

    def run(row: tuple[str, int, str, str]) -> tuple[str, str]:
        module = "pyshmem." + row[0].removesuffix(".py").replace("/", ".")
        return outcome(FILES[row[0]], module, row[3])

    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for (file, line, name, _), (result, about) in zip(rows, pool.map(run, rows), strict=True):
            print(f"{result:9} {file}:{line} {name} {about}", flush=True)
            seen[result] += 1
    run_ones = len(rows) - seen.pop("not run", 0)
    told = run_ones - seen["missed"]
    share = 100 * told / max(1, run_ones)
    print(f"{told} of {run_ones} deletions that are run are seen, {share:.0f} %")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        run_program(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main(sys.argv[1:] or list(FILES)))
