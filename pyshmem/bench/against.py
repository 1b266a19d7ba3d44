# SPDX-License-Identifier: BSD-3-Clause
"""Operations on a stream by pyshmem and by others, side by side: ``python -m pyshmem bench --against``.

Each library has a job of its own (``streams_pe.py``; of NVSHMEM ``nvshmem_streams.cu``), and the jobs
take turns for some rounds. A figure is the median of the rounds, each the median of repetitions, of the
slowest PE. NVLink multicast is off for all.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table

from ..host.job.runtime import gpu_count
from ..host.tuning import gpus
from ..launcher import leftovers

#: Whom pyshmem is compared with, and what has to be installed for it.
PEERS = ("nccl", "symm_mem", "nvshmem")
VARIABLES = {
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_REMOTE_TRANSPORT": "none",
    "NVSHMEM_SYMMETRIC_SIZE": "1G",
}
#: What has a row in the table of ours over theirs beyond this is named again below it.
BEHIND = 1.0
_HERE = Path(__file__).parent
_LIMIT_S = 150  # of a provider; what it has printed by then counts
_PORT = "29511"

#: (operation, bytes, how it was started) -> library -> microseconds
Figures = dict[tuple[str, int, str], dict[str, float]]
Row = dict[str, Any]


class Absent(Exception):
    """A library that cannot be measured here, and what to do about it."""


# ---- jobs --------------------------------------------------------------------------------------


def rows_of(commands: list[list[str]], variables: list[dict[str, str]]) -> Iterator[Row]:
    """Run the processes of one job, and what the first prints as rows."""
    with tempfile.TemporaryFile("w+") as output:
        jobs = [
            subprocess.Popen(
                command,
                env={**os.environ, **VARIABLES, **more},
                stdout=subprocess.DEVNULL if place else output,
                text=True,
            )
            for place, (command, more) in enumerate(zip(commands, variables, strict=True))
        ]
        try:
            jobs[0].wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            print(f"{commands[0]} is ended after {_LIMIT_S} s", file=sys.stderr)
        finally:
            for job in jobs:
                if job.poll() is None:
                    target = leftovers.Target(job.pid)
                    leftovers.send(target, signal.SIGTERM)
                    target.close()
                job.wait()
        output.seek(0)
        for line in output:
            if line.startswith("{") and line.endswith("\n"):
                yield json.loads(line)


def ranks(command: list[str], n: int, **more: str) -> Iterator[Row]:
    """A job of one process a GPU."""
    common = {"WORLD_SIZE": str(n), "WORLD": str(n), "MASTER_ADDR": "127.0.0.1", **more}
    common.setdefault("MASTER_PORT", _PORT)
    yield from rows_of([command] * n, [{"RANK": str(rank), **common} for rank in range(n)])


def build(source: Path, folder: Path, *options: str) -> Path:
    """Compile a program, if it is not there.

    Raises: Absent (no compiler, or it does not compile).
    """
    target = folder / source.stem
    if target.exists():
        return target
    if not shutil.which("nvcc"):
        raise Absent(f"{source.name} needs nvcc, which is not in PATH: install a CUDA toolkit")
    major, minor = gpus.architecture(0)
    command = ["nvcc", "-std=c++17", "-O3", f"-arch=sm_{major}{minor}", str(source), "-o"]
    done = subprocess.run([*command, str(target), *options], capture_output=True, text=True)
    if done.returncode:
        raise Absent(f"{source.name} does not compile: {done.stderr.strip()[:600]}")
    return target


def nvshmem_home() -> Path:
    """Where NVSHMEM is: ``NVSHMEM_HOME``, else its package for Python, else ``/usr``.

    Raises: Absent.
    """
    named = os.environ.get("NVSHMEM_HOME")
    places = [Path(named)] if named else []
    spec = None if named else find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        places.append(Path(folder) / "nvshmem")
    for place in [*places, *([] if named else [Path("/usr")])]:
        if (place / "include" / "nvshmem.h").is_file():
            return place
    raise Absent(
        "its header nvshmem.h was not found: pip install nvidia-nvshmem-cu13, or set NVSHMEM_HOME"
    )


def measure(provider: str, n: int, folder: Path, *, quick: bool = False) -> Iterator[Row]:
    """The rows of a library: ``pyshmem`` or one of ``PEERS``; ``folder`` keeps what is compiled.

    Raises: Absent.
    """
    program = [sys.executable, "-m", f"{__package__}.streams_pe", provider]
    program += ["--quick"] if quick else []
    if provider == "pyshmem":
        launcher = [sys.executable, "-m", "pyshmem", "run", "-n", str(n), "-m"]
        yield from rows_of([[*launcher, *program[2:]]], [{}])
    elif provider == "nvshmem":
        home = nvshmem_home()
        libraries = [f"-I{home}/include", f"-L{home}/lib", "-rdc=true"]
        # Its packages for Python have the library with its version alone.
        libraries += ["-l:libnvshmem_host.so.3"]
        libraries += ["-lnvshmem_device", "-lcuda", f"-Xlinker=-rpath,{home}/lib"]
        made = build(_HERE / "nvshmem_streams.cu", folder, *libraries)
        uid = folder / "uid"
        uid.unlink(missing_ok=True)  # of the round before
        yield from ranks([str(made)], n, UIDFILE=str(uid))
    elif find_spec("torch") is None:
        raise Absent("it comes with torch, which is not installed: pip install torch")
    else:
        yield from ranks(program, n)


# ---- figures -----------------------------------------------------------------------------------


def figures(rows: Iterable[Row]) -> Figures:
    """Medians of rows, by operation, size, and eager or graph; of a library's variants the fastest."""
    found: dict[tuple[str, int, str], dict[str, dict[str, list[float]]]] = defaultdict(dict)
    for row in rows:
        if "op" not in row or "blocking" in row["op"]:
            continue
        op = "all_reduce" if row["op"].startswith("all_reduce") else row["op"]
        for how in ("eager", "graph"):
            if us := row.get(f"us_{how}"):
                variants = found[op, row["bytes"], how].setdefault(row["peer"], {})
                variants.setdefault(row["op"], []).append(us)
    return {
        key: {
            peer: min(statistics.median(us) for us in variants.values())
            for peer, variants in peers.items()
        }
        for key, peers in sorted(found.items())
    }


def table(found: Figures, peers: Iterable[str], n: int, machine: str) -> Table:
    """A line for each figure that pyshmem and one of the others have."""
    grid = Table(title=f"{n} PEs on {machine}; microseconds, and pyshmem's over theirs")
    for name in ("operation", "bytes", "started", "pyshmem"):
        side: Literal["left", "right"] = "left" if name in ("operation", "started") else "right"
        grid.add_column(name, justify=side, no_wrap=True)
    for peer in peers:
        grid.add_column(peer, justify="right", no_wrap=True)
        grid.add_column("ratio", justify="right", no_wrap=True)
    for (op, nbytes, how), row in found.items():
        if "pyshmem" not in row or len(row) == 1:
            continue
        cells = []
        for peer in peers:
            ratio = row["pyshmem"] / row[peer] if peer in row else math.nan
            mark = "[red]" if ratio > BEHIND else "[green]"
            cells += [f"{row[peer]:.2f}", f"{mark}{ratio:.2f}[/]"] if peer in row else ["", ""]
        grid.add_row(op, f"{nbytes:,}", how, f"{row['pyshmem']:.2f}", *cells)
    return grid


def console_of_width(least: int) -> Console:
    """For a table that a narrow terminal, or none, must not cut: lines may be longer than it is wide."""
    return Console(width=max(Console().width, least))


def behind(found: Figures) -> list[str]:
    """A line for each figure in which another library is faster, the worst first."""
    lines = []
    for (op, nbytes, how), row in found.items():
        for peer, us in row.items():
            if "pyshmem" in row and peer != "pyshmem" and row["pyshmem"] > BEHIND * us:
                ratio = row["pyshmem"] / us
                text = f"{op} of {nbytes:,} B, {how}: {row['pyshmem']:.2f} us, {peer} {us:.2f}"
                lines.append((ratio, f"{text} ({ratio:.2f})"))
    return [text for _, text in sorted(lines, reverse=True)]


def draw(found: Figures, path: str, machine: str) -> None:
    """Time over bytes, a picture for each operation, a line for each library; graphs dashed.

    Raises: click.ClickException (matplotlib is missing).
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise click.ClickException("--plot needs matplotlib: pip install matplotlib") from error
    sizes = defaultdict(set)
    for op, nbytes, _ in found:
        sizes[op].add(nbytes)
    ops = [op for op in sizes if len(sizes[op]) > 1]  # one size makes no line
    columns = min(3, len(ops)) or 1
    figure, axes = pyplot.subplots(
        -(-len(ops) // columns) or 1, columns, figsize=(5 * columns, 4 * (-(-len(ops) // columns) or 1)),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for axis, op in zip(axes.flat, ops, strict=False):
        lines: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        for (of, nbytes, how), row in found.items():
            for peer, us in row.items() if of == op and nbytes else ():
                lines[peer, how].append((nbytes, us))
        colours = {peer: f"C{k}" for k, peer in enumerate(("pyshmem", *PEERS))}
        for (peer, how), points in sorted(lines.items()):
            style = "o-" if how == "eager" else "s--"
            label, colour = f"{peer} {how}", colours.get(peer)
            axis.plot(*zip(*points, strict=True), style, label=label, color=colour, markersize=3)
        axis.set(yscale="log", title=op, xlabel="bytes", ylabel="us")
        axis.set_xscale("log", base=2)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(ops) :]:
        axis.axis("off")
    shown: dict[str, Any] = {}
    for axis in axes.flat:
        there = axis.get_legend_handles_labels()
        shown |= dict(zip(there[1], there[0], strict=True))
    if shown:
        labels = list(shown)
        handles = [shown[label] for label in labels]
        figure.legend(handles, labels, fontsize=8, ncols=4, loc="outside lower center")
    figure.suptitle(f"Operations on a stream, {machine}")
    figure.savefig(path, dpi=110)


# ---- the command -------------------------------------------------------------------------------


def compare(
    peers: tuple[str, ...], n: int, rounds: int, *, picture: str | None, as_json: bool
) -> None:
    """Measure pyshmem and the others in turn, and show figures, ratios and where pyshmem is behind.

    Raises: click.ClickException (no GPU, fewer than PEs, none of the others can be measured).
    """
    count = gpu_count()
    if not count:
        raise click.ClickException(
            "--against compares libraries on GPUs, and no GPU is visible here "
            "(`python -m pyshmem doctor` says what is missing)"
        )
    if not 2 <= n <= count:
        raise click.ClickException(
            f"--against takes 2 PEs or more, one a GPU: -n {n}, {count} GPU(s)"
        )
    machine = gpus.ask(0).name
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        rows, there = measure_in_turn(peers, n, rounds, Path(folder), console.print)
    if not there:
        raise click.ClickException("none of these libraries can be measured here")
    found = figures(rows)
    if as_json:
        for row in rows:
            print(json.dumps(row))
    else:
        console_of_width(56 + 22 * len(there)).print(table(found, there, n, machine))
        lines = behind(found)
        print(f"pyshmem is behind in {len(lines)} figures" + (":" if lines else ""))
        for line in lines:
            print(f"  {line}")
    if picture:
        draw(found, picture, machine)
        console.print(f"{picture} is written")


def measure_in_turn(
    peers: tuple[str, ...], n: int, rounds: int, folder: Path, say: Callable[[str], None],
    *, quick: bool = False,
) -> tuple[list[Row], list[str]]:  # fmt: skip
    """The rows of all rounds, and whose they are besides pyshmem's; who is absent is told once."""
    rows: list[Row] = []
    left = list(dict.fromkeys(peers))
    for number in range(rounds):
        for provider in ("pyshmem", *left):
            try:
                made = list(measure(provider, n, folder, quick=quick))
            except Absent as absent:
                say(f"{provider} is left out: {absent}")
                left.remove(provider)
                continue
            if provider != "pyshmem" and not any("op" in row for row in made):
                say(f"{provider} is left out: its job printed no figure (its errors are above)")
                left.remove(provider)
            rows += made
            say(f"round {number + 1} of {rounds}: {provider}, {len(made)} rows")
        if not left:
            break
    return rows, left
