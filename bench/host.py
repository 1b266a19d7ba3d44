# SPDX-License-Identifier: BSD-3-Clause
"""Host figures: pyshmem on each conduit, shmem4py, mpi4py and C, in one run on one machine.

Run: python bench/host.py [--plot out.png] [--keep]
Each provider has jobs of its own, of 2 PEs, several times in turn; a figure is the median of these.
Barriers of 4 PEs are measured too. What is not installed is named and left out. Prints one JSON line a
figure (nanoseconds of one call), then tables. ``--keep`` keeps everything in bench/results.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
PROGRAM = HERE / "host_pe.py"
Key = tuple[str, int, int]  # operation, bytes, PEs
Figures = dict[Key, dict[str, float]]

#: What Open MPI needs in a container, on a machine with fewer cores than PEs, and not to crash at exit.
VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_opal_common_ucx_opal_mem_hooks": "0",
    "PYSHMEM_DEVICE": "none",
}


class Provider(NamedTuple):
    """A library, and the command that starts a job of it; ``{n}`` is the number of PEs."""

    label: str
    command: list[str]
    variables: dict[str, str]


def providers(folder: Path) -> Iterator[Provider]:
    """All that this machine may have."""
    python = sys.executable
    launcher = [python, "-m", "pyshmem", "run", "-n", "{n}"]
    oshrun = ["oshrun", "-n", "{n}"]
    yield Provider("pyshmem", [*launcher, str(PROGRAM), "pyshmem"], {"PYSHMEM_CONDUIT": "shm"})
    yield Provider("shmem4py", [*oshrun, python, str(PROGRAM), "shmem4py"], {})
    yield Provider("mpi4py", ["mpirun", "-n", "{n}", python, str(PROGRAM), "mpi4py"], {})
    over = {"PYSHMEM_CONDUIT": "openshmem"}
    yield Provider("pyshmem/openshmem", [*oshrun, python, str(PROGRAM), "pyshmem"], over)
    info = [python, "-m", "pyshmem", "info"]
    flags = subprocess.run([*info, "--cflags", "--libs"], capture_output=True, text=True).stdout
    program = compiled(["gcc", *flags.split()], folder / "host_pe_shm", flags.split())
    if program:
        yield Provider("C", [*launcher, program], {"PYSHMEM_CONDUIT": "shm"})
    program = compiled(["oshcc"], folder / "host_pe_oshmem", [])
    if program:
        yield Provider("C/oshmem", [*oshrun, program], {})


def compiled(
    compiler: list[str], program: Path, libraries: list[str], source: Path = HERE / "host_pe.c"
) -> str:
    """The path of ``source``, compiled; empty where that is not possible."""
    command = [*compiler, "-std=gnu11", "-O2", "-w", "-o", str(program), str(source), *libraries]
    if shutil.which(compiler[0]) is None:
        print(f"left out: C with {compiler[0]}, which is not installed", file=sys.stderr)
        return ""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"left out: C with {compiler[0]}: {done.stderr.strip()}", file=sys.stderr)
        return ""
    return str(program)


def run(provider: Provider, n_pes: int, *ops: str) -> list[dict[str, Any]]:
    """The figures of one job; RuntimeError when it fails."""
    command = [word.replace("{n}", str(n_pes)) for word in provider.command]
    command.append(provider.label)
    if "host_pe.py" not in " ".join(command):
        command.append("C")  # in place of a version
    environment = os.environ | VARIABLES | provider.variables
    try:
        done = subprocess.run(
            [*command, *ops], env=environment, capture_output=True, text=True, timeout=100
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(str(error)) from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip(" -")]
        raise RuntimeError(next((s for s in said if "Error" in s), said[-1] if said else "failed"))
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(rounds: int) -> list[dict[str, Any]]:
    """Every provider in turn, so many times."""
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        present = list(providers(Path(folder)))
        for number in range(rounds):
            for provider in tuple(present):
                try:
                    figures += run(provider, 2)
                    figures += run(provider, 4, "barrier_all")
                except RuntimeError as error:
                    present.remove(provider)
                    print(f"left out in round {number}: {provider.label}: {error}", file=sys.stderr)
    return figures


def medians(figures: list[dict[str, Any]]) -> tuple[Figures, list[dict[str, Any]]]:
    """Nanoseconds of each provider, and the same as rows."""
    samples: dict[tuple, list[float]] = defaultdict(list)
    for row in figures:
        samples[row["op"], row["bytes"], row["pes"], row["provider"]].append(row["ns"])
    table: Figures = defaultdict(dict)
    rows = []
    for (op, nbytes, pes, provider), found in samples.items():
        table[op, nbytes, pes][provider] = statistics.median(found)
        spread = {"least_ns": min(found), "most_ns": max(found), "repeats": len(found)}
        row = {"op": op, "bytes": nbytes, "pes": pes, "provider": provider}
        rows.append(row | {"ns": statistics.median(found)} | spread)
    return table, rows


def show(table: Figures, console: Console) -> None:
    """Nanoseconds, and in brackets the time of the others over pyshmem's."""
    labels = list(dict.fromkeys(label for row in table.values() for label in row))
    shown = Table(title="ns a call; in brackets over that of pyshmem (above 1: pyshmem is faster)")
    for name in ("op", "bytes", "PEs", *labels):
        shown.add_column(name, justify="left" if name == "op" else "right")
    for (op, nbytes, pes), row in table.items():
        ours = row.get("pyshmem")
        cells = []
        for label in labels:
            ratio = f" [{row[label] / ours:.2f}]" if ours and label in row else ""
            cells.append(f"{row[label]:,.0f}{ratio if label != 'pyshmem' else ''}".replace("[", "(")
                         .replace("]", ")") if label in row else "")  # fmt: skip
        shown.add_row(op, f"{nbytes:,}", str(pes), *cells)
    console.print(shown)


def goals(table: Figures) -> dict[str, float]:
    """What the project asks of these figures, as ratios that are to be at most 1."""
    found = {}

    def ratio(name: str, ours: Key, theirs: float) -> None:
        found[name] = table[ours]["pyshmem"] / theirs

    def of(op: str, label: str, nbytes: int = 8) -> float:
        return table[op, nbytes, 2].get(label, float("nan"))

    ratio("put 8 B / mpi4py Put", ("put", 8, 2), of("put", "mpi4py"))
    ratio("get 8 B / mpi4py Put", ("get", 8, 2), of("put", "mpi4py"))
    ratio("fetch_add / 0.3 shmem4py", ("fetch_add", 8, 2), 0.3 * of("fetch_add", "shmem4py"))
    ratio("p / put", ("p", 8, 2), of("put", "pyshmem"))
    ratio("g / put", ("g", 8, 2), of("put", "pyshmem"))
    last = max(nbytes for op, nbytes, _ in table if op == "put")
    ratio("put / memcpy * 0.95", ("put", last, 2), of("memcpy", "pyshmem", last) / 0.95)
    ratio("barrier_all of 4 / 20 us", ("barrier_all", 8, 4), 20000)
    for op, nbytes, pes in table:
        if pes == 2 and op in ("barrier_all", "broadcast", "fcollect", "sum_reduce"):
            best = min(table[op, nbytes, 2].get(x, float("inf")) for x in ("shmem4py", "mpi4py"))
            ratio(f"{op} {nbytes} B / best of both", (op, nbytes, pes), best)
    return found


def machine() -> dict[str, Any]:
    """Where and with what the figures were made."""
    models = [s for s in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in s]
    cores = len(os.sched_getaffinity(0))
    return {
        "cpu": models[0].split(":")[1].strip() if models else platform.machine(),
        "cores": cores,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def plot(table: Figures, path: Path) -> None:
    """One panel an operation with sizes."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    ops = [op for op in ("put", "get", "broadcast", "fcollect", "sum_reduce") if any(
        key[0] == op for key in table)]  # fmt: skip
    figure, axes = pyplot.subplots(1, len(ops), figsize=(4 * len(ops), 4), squeeze=False)
    for axis, op in zip(axes[0], ops, strict=True):
        lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for (name, nbytes, _), row in table.items():
            for label, ns in row.items() if name == op else ():
                lines[label].append((nbytes, ns / 1000))
        for label, points in lines.items():
            axis.plot(*zip(*sorted(points), strict=True), marker=".", label=label)
        axis.set(xscale="log", yscale="log", title=op, xlabel="bytes", ylabel="µs a call")
    axes[0][0].legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


@click.command()
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="write a picture there")
@click.option("--rounds", default=5, show_default=True, help="jobs of each provider")
@click.option("--keep", is_flag=True, help="keep all in bench/results/<date>-host")
def main(picture: Path | None, rounds: int, keep: bool) -> None:
    """Host figures of pyshmem and its peers."""
    figures = measure(rounds)
    table, rows = medians(figures)
    lines = [json.dumps(row) for row in rows]
    print("\n".join(lines), flush=True)
    console = Console(width=150, record=True)
    versions = {row["provider"]: row["version"] for row in figures}
    console.print_json(json.dumps(machine() | {"versions": versions}))
    show(table, console)
    for name, value in goals(table).items():
        console.print(f"{value:5.2f}  {name}{'' if value <= 1 else '   MISSED'}", highlight=False)
    folder = HERE / "results" / f"{datetime.date.today()}-host"
    if keep:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "host.jsonl").write_text("\n".join(lines) + "\n")
        (folder / "summary.txt").write_text(console.export_text())
        plot(table, folder / "host.png")
    if picture:
        plot(table, picture)


if __name__ == "__main__":
    main()
