# SPDX-License-Identifier: BSD-3-Clause
"""Follows the library's own kernels of Triton, and deletes what orders them, one statement at a time.

Without arguments, from the checkout: programs of ``internals/`` under ``--check=order`` with the bodies
of routines followed in the place of what these promise, once as the library is, then with each fence,
wait, signal and barrier of the files below deleted. Prints a row a deletion and the sum. With names of
files, or of statements as ``triton/ordering.py:60``, those. What is not run says nothing of the checker;
what is missed is either equivalent, or a fault of the checker: docs/howto/races.md has the table.

A hang is known by the seconds that all PEs have run or slept, not by those that they waited for a core:
so a busy machine makes it slow, and no other. JOBS is how many are run at once.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import warm

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "pyshmem"
_NORM = "fused/all_reduce_norm"
_SLOTS = (("moves exchanges", 2), ("moves experts", 2), ("PYSHMEM_P2P=0 moves few", 2))
_EXPERTS = (("moves experts", 2), ("moves quantised", 2))
#: With far peers words and elements are requests to the host.
_FAR = "PYSHMEM_P2P=0"
_TILES = (
    ("tiles", 2),
    (f"{_FAR} tiles", 2),
    (f"{_FAR} tiles", 4),
    (f"{_FAR} told", 2),
    ("told", 2),
)
#: By file of the package: programs with settings and arguments, and PEs; the first that tells ends it.
FILES: dict[str, tuple[tuple[str, int], ...]] = {
    "triton/ordering.py": _TILES,
    "triton/signals.py": _TILES,
    "triton/collectives.py": _TILES,
    "triton/ll_channels.py": (("tiles", 3),),
    f"{_NORM}/push_kernels.py": (("norms push", 2),),
    f"{_NORM}/pull_kernels.py": (("norms pull", 2),),
    f"{_NORM}/two_shot_kernels.py": (("norms two_shot", 3),),
    f"{_NORM}/one_shot_ll_kernels.py": (("norms one_shot", 2),),
    "fused/_shared/slots_kernels.py": _SLOTS,
    "fused/exchange/kernels.py": _SLOTS[:1],
    "fused/matmul/kernels.py": (("moves products", 2),),
    "fused/moe/routing_kernels.py": _EXPERTS,
    "fused/moe/dispatch_kernels.py": _EXPERTS,
    "fused/moe/combine_kernels.py": _EXPERTS,
}
_ORDERS = re.compile(
    r"fence\w*|quiet|settle|wait\w*|poll|await_\w+|receive\w*|signal_\w+|set_words|release_\w+|send_slot"
    r"|program_barrier|barrier\w*|sync\w*|exchange|exchange_grid|_say_so|_raise_by_proxy|free_slot"
)
#: What a mutant prints where a statement was.
_DELETED = "deleted"
_AWAKE = (
    40.0  # seconds, that each PE has run or slept, until a job hangs: some 6 times what one takes
)
_MOST = 900.0  # by the clock on the wall


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


def run_program(given: list[str]) -> None:
    """In a PE: the library's kernels are followed, one module of it is another's."""
    (program, *arguments) = given
    if name := os.environ.get("MUTANT_MODULE"):
        sys.meta_path.insert(0, _Mutant(name, os.environ["MUTANT_FILE"]))
    from pyshmem.check import log

    log.internals = True
    if Path(program).stem != "tiles":  # which needs no torch
        follow_words()
    sys.argv = [program, *arguments]
    import runpy

    runpy.run_path(program, run_name="__main__")


def _waited(launcher: int, folder: str) -> dict[str, float]:
    """Seconds that the launcher and each PE have waited for a core."""
    found = {}
    pes = [path.name.removeprefix("pe-") for path in Path(folder).glob("pe-*")]
    with contextlib.suppress(OSError):  # also PEs that start
        pes += Path(f"/proc/{launcher}/task/{launcher}/children").read_text("ascii").split()
    for one in (str(launcher), *pes):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{one}/schedstat").read_text("ascii")
            found[one] = int(text.split()[1]) * 1e-9
    return found


def _run(command: list[str], variables: dict[str, str], folder: str) -> tuple[int, str, str]:
    """Status, 124 of a job that hangs, and what it has printed."""
    out, err = Path(folder, "out"), Path(folder, "err")
    with out.open("wb") as to, err.open("wb") as errors:
        job = subprocess.Popen(command, env=variables, stdout=to, stderr=errors, cwd=folder)
        begin = now = time.monotonic()
        awake, waited = 0.0, {}
        while job.poll() is None:
            time.sleep(0.2)
            last, now = now, time.monotonic()
            before, waited = waited, _waited(job.pid, folder)
            late = [seconds - before.get(one, 0.0) for one, seconds in waited.items()]
            awake += max(0.0, now - last - max(late, default=0.0))
            if awake > _AWAKE or now > begin + _MOST:
                job.send_signal(signal.SIGTERM)
                job.wait()
                return 124, out.read_text("utf-8"), err.read_text("utf-8")
    return job.returncode, out.read_text("utf-8"), err.read_text("utf-8")


def outcome(what: tuple[str, int], module: str = "", text: str = "") -> tuple[str, str]:
    """Reported, hangs, fails, missed, or not run; and the first pair of lines, or what was raised."""
    words, n_pes = what[0].split(), str(what[1])
    settings = dict(word.split("=") for word in words if "=" in word)
    name, *arguments = (word for word in words if "=" not in word)
    with tempfile.TemporaryDirectory() as folder:
        mutant, found = Path(folder, module.rpartition(".")[2] + ".py"), Path(folder, "found.json")
        mutant.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", "sim"]
        command += ["--check=order", str(HERE / "warm.py")]
        command += [str(HERE / "internals" / f"{name}.py"), *arguments]
        variables = {**os.environ, "PYSHMEM_CHECK_JSON": str(found), "PYSHMEM_TIMEOUT": "0"}
        variables |= {**settings, "WARM_FOLDER": folder}
        if module:
            variables |= {"MUTANT_MODULE": module, "MUTANT_FILE": str(mutant)}
        status, out, err = _run(command, variables, folder)
        reports = json.loads(found.read_text("utf-8"))["reports"] if found.exists() else []
    if reports:
        lines = (reports[0][side]["site"] for side in ("first", "second"))
        return "reported", " ".join(f"{Path(one['file']).name}:{one['line']}" for one in lines)
    if status == 0:
        return ("missed" if not module or _DELETED in out else "not run"), ""
    last = [line for line in err.splitlines() if "Error" in line or "waits for" in line]
    return ("hangs" if status == 124 else "fails"), (last or [""])[-1].strip()[:100]


def _best(file: str, text: str) -> tuple[str, str]:
    """The outcome of a deletion by the first of the file's programs that tells."""
    module = "pyshmem." + file.removesuffix(".py").replace("/", ".")
    quiet = ("not run", "")
    for what in FILES[file]:
        found = outcome(what, module, text)
        if found[0] not in ("missed", "not run"):
            return found
        quiet = min(quiet, found)  # missed, if one of them runs it
    return quiet


def mutants(file: str) -> Iterator[tuple[int, str, str]]:
    """Line, what is deleted, and the module that says so in its place."""
    import mutations

    mutations._ORDERS = _ORDERS
    yield from mutations.mutants(PACKAGE / file, f"print({_DELETED!r})")


def main(names: list[str]) -> int:
    """A row for each deletion, and the sum."""
    wanted = [name.partition(":") for name in names]
    files = list(dict.fromkeys(file for file, _, _ in wanted))
    lines = {(file, int(line)) for file, _, line in wanted if line}
    rows = [(file, *one) for file in files for one in mutants(file)]
    rows = [row for row in rows if not lines or row[:2] in lines]
    seen: Counter[str] = Counter()
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        programs = sorted({what for file in files for what in FILES[file]}) if not lines else []
        for what, (result, about) in zip(programs, pool.map(outcome, programs), strict=True):
            print(f"{result:9} {what[0]}, {what[1]} PEs, as the library is {about}", flush=True)
            if result != "missed":
                return 1
        results = pool.map(lambda row: _best(row[0], row[3]), rows)
        for (file, line, name, _), (result, about) in zip(rows, results, strict=True):
            print(f"{result:9} {file}:{line} {name} {about}", flush=True)
            seen[result] += 1
    run_ones = len(rows) - seen.pop("not run", 0)
    told = run_ones - seen["missed"]
    share = 100 * told / max(1, run_ones)
    print(f"{told} of {run_ones} deletions that are run are seen, {share:.0f} %")
    return 0


def with_warm_pes(names: list[str]) -> int:
    """``main``, with the process of which PEs are children."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WARM_SOCKET"] = path = str(Path(folder, "socket"))
        server = os.fork()
        if not server:
            os.environ |= {"TRITON_INTERPRET": "1", "NUMBA_ENABLE_CUDASIM": "1"}
            importlib.import_module("torch")
            importlib.import_module("triton.language")
            warm.serve(path, run_program)
        try:
            while not Path(path).exists():
                time.sleep(0.1)
            return main(names)
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


if __name__ == "__main__":
    sys.exit(with_warm_pes(sys.argv[1:] or list(FILES)))
