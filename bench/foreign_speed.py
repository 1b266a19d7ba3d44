# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM programs of others on this library and on Open MPI's, side by side on bound cores.

Run: python bench/foreign_speed.py [--prk DIR] [--bale DIR] [--osu DIR] [--pes 2] [--rounds 5]
    [--keep FILE]
DIR are checkouts of ParRes/Kernels, jdevinney/bale and OSU's micro-benchmarks; what is not given is
left out, but for ``foreign_pe.c``, which has OSU's loop for the small collectives and is always run.
Each program is compiled for both libraries, and they run in turn. Prints the medians, and pyshmem's
time divided by Open MPI's beside what it may be; the exit code says whether all are within.
``--keep`` keeps every figure as a JSON line.

Exstack2 is run on a busy machine besides, with programs that never end on nine tenths of the cores
and no PE bound.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from host import VARIABLES

HERE = Path(__file__).parent
Row = dict[str, Any]

#: What pyshmem's time may be of Open MPI's; of a look, nanoseconds. Of the others nothing is asked.
LIMITS = {
    ("broadcast", 8): 1.05,
    ("fcollect", 8): 1.05,
    ("osu_oshm_broadcast", 8): 1.05,
    ("osu_oshm_fcollect", 8): 1.05,
    ("PRK p2p", 8): 1.05,
    ("exstack2 gather, busy", 8): 1.2,
    ("put", 262144): 1.18,
    ("get_nb", 4096): 1.18,
}
MOST_NS_OF_A_LOOK = 8.0


class Library(NamedTuple):
    """Where a program is compiled for, and how a job of it starts; {bind}: "core" or "none"."""

    name: str
    compiler: list[str]
    libraries: list[str]
    launch: list[str]


def libraries() -> Iterator[Library]:
    """Pyshmem, and Open MPI's if it is here."""
    python = [sys.executable, "-m", "pyshmem"]
    asked = subprocess.run([*python, "info", "--cflags", "--libs"], capture_output=True, text=True)
    yield Library(
        "pyshmem", ["gcc"], asked.stdout.split(), [*python, "run", "-n", "{n}", "--bind", "{bind}"]
    )
    if shutil.which("oshcc"):
        yield Library("Open MPI", ["oshcc"], [], ["oshrun", "-n", "{n}", "--bind-to", "{bind}"])


class Program(NamedTuple):
    """Sources and options of a program; its arguments; what its output says."""

    name: str
    sources: list[Path]
    options: list[str]
    arguments: Callable[[str], list[str]]  # of a library's name
    rows: Callable[[str], list[Row]]
    busy: bool = False


def json_rows(output: str) -> list[Row]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def busy_rows(output: str) -> list[Row]:
    return [row | {"op": f"{row['op']}, busy"} for row in json_rows(output)]


def prk_rows(output: str) -> list[Row]:
    """The time of a pass over the grid."""
    found = re.search(r"Avg time \(s\): ([\d.]+)", output)
    return [{"op": "PRK p2p", "bytes": 8, "us": float(found[1]) * 1e6}] if found else []


def osu_rows(name: str) -> Callable[[str], list[Row]]:
    def rows(output: str) -> list[Row]:
        found = re.findall(r"(?m)^(\d+)\s+([\d.]+)\s*$", output)
        return [{"op": name, "bytes": int(n), "us": float(us)} for n, us in found if int(n) <= 4096]

    return rows


def programs(prk: Path | None, bale: Path | None, osu: Path | None) -> Iterator[Program]:
    yield Program("foreign_pe", [HERE / "foreign_pe.c"], [], lambda name: [name], json_rows)
    if prk:
        sources = [prk / "SHMEM" / "Synch_p2p" / "p2p.c"]
        sources += [prk / "common" / name for name in ("wtime.c", "SHMEM_bail_out.c")]
        options = [f"-I{prk / 'include'}", '-DPRKVERSION="2.17"', "-DRESTRICT_KEYWORD=0"]
        options += ["-DVERBOSE=0", "-DSYNCHRONOUS=0"]
        yield Program("p2p", sources, options, lambda name: ["400", "800", "800"], prk_rows)
    if bale:
        classic = bale / "src" / "bale_classic"
        parts = [("exstack", "exstack2_shmem.c"), ("exstack", "exstack.upc")]
        parts += [("libgetput", "libgetput.upc")]
        sources = [HERE / "exstack2_pe.c", *(classic / folder / name for folder, name in parts)]
        options = ["-DUSE_SHMEM=1", "-DHAVE_SHMEM_FREE=1"]
        options += [f"-I{classic / folder}" for folder in ("exstack", "libgetput")]
        for busy in (False, True):
            rows = busy_rows if busy else json_rows
            yield Program("exstack2", sources, options, lambda name: [name, "500000"], rows, busy)
    if osu:
        for name in ("osu_oshm_broadcast", "osu_oshm_fcollect"):
            sources = [osu / "openshmem" / part for part in (f"{name}.c", "osu_common.c")]
            yield Program(name, sources, [], lambda name: ["-m", "4096"], osu_rows(name))


def compiled(program: Program, library: Library, folder: Path) -> Path:
    """The program's path. UPC's sources are C where OpenSHMEM is asked for."""
    binary = folder / f"{program.name} {library.name}".replace(" ", "_")
    if not binary.exists():
        command = [*library.compiler, "-std=gnu11", "-O3", "-w", "-o", str(binary), "-x", "c"]
        command += [*program.options, *map(str, program.sources), "-x", "none", *library.libraries]
        subprocess.run([*command, "-lm"], check=True)
    return binary


@contextmanager
def other_work(busy: bool) -> Iterator[None]:
    """Programs that never end, on nine tenths of the cores: at least on one."""
    n = max(1, len(os.sched_getaffinity(0)) * 9 // 10) if busy else 0
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        for _ in range(n)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def run(program: Program, library: Library, binary: Path, n_pes: int) -> list[Row]:
    """The figures of one job; none where it fails, which is told."""
    bind = "none" if program.busy else "core"
    command = [word.replace("{n}", str(n_pes)).replace("{bind}", bind) for word in library.launch]
    command += [str(binary), *program.arguments(library.name)]
    with other_work(program.busy):
        try:
            done = subprocess.run(
                command, env=os.environ | VARIABLES, capture_output=True, text=True, timeout=60
            )
        except subprocess.TimeoutExpired:
            print(f"left out: {' '.join(command)}: more than a minute", file=sys.stderr)
            return []
    if done.returncode:
        print(f"left out: {' '.join(command)}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return []
    return [row | {"peer": library.name, "pes": n_pes} for row in program.rows(done.stdout)]


def show(figures: list[Row], console: Console) -> bool:
    """Medians side by side; True when all that is asked for is reached."""
    found: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in figures:
        found[row["op"], row["bytes"], row["pes"]][row["peer"]].append(row["us"])
    table = Table(title="medians, us; pyshmem's over Open MPI's (below 1: pyshmem is faster)")
    for name in ("op", "bytes", "PEs", "pyshmem", "Open MPI", "ratio", "at most", ""):
        table.add_column(name, justify="left" if name == "op" else "right")
    reached = True
    for (op, nbytes, n_pes), row in found.items():
        ours, theirs = (
            median(row[name]) if row[name] else None for name in ("pyshmem", "Open MPI")
        )
        ratio = ours / theirs if ours is not None and theirs else None
        limit, value = LIMITS.get((op, nbytes)), ratio
        if op == "test" and ours is not None:
            limit, value = MOST_NS_OF_A_LOOK / 1e3, ours
        state = "" if limit is None or value is None else "PASS" if value <= limit else "FAIL"
        reached = reached and state != "FAIL"
        cells = ["" if x is None else f"{x:.4g}" for x in (ours, theirs, ratio, limit)]
        table.add_row(op, str(nbytes), str(n_pes), *cells, state)
    console.print(table)
    return reached


def source_option(name: str, whose: str) -> Any:
    kind = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.option(name, type=kind, help=f"A checkout of {whose}.")


@click.command()
@source_option("--prk", "ParRes/Kernels")
@source_option("--bale", "jdevinney/bale")
@source_option("--osu", "OSU's micro-benchmarks")
@click.option("--pes", "n_pes", default=2, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="A file for every figure.")
def main(
    prk: Path | None, bale: Path | None, osu: Path | None, n_pes: int, rounds: int,
    keep: Path | None,
) -> None:  # fmt: skip
    """OpenSHMEM programs of others on this library and on Open MPI's."""
    figures: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            (program, library, compiled(program, library, Path(folder)))
            for program in programs(prk, bale, osu)
            for library in libraries()
        ]
        for _ in range(rounds):
            for job in jobs:
                figures += run(*job, n_pes)
            if keep:
                keep.write_text("".join(json.dumps(row) + "\n" for row in figures))
    sys.exit(0 if show(figures, Console(width=120)) else 1)


if __name__ == "__main__":
    main()
