# SPDX-License-Identifier: BSD-3-Clause
"""Host figures of two versions of pyshmem on one host, in turn: is the second one as quick?

Run: python bench/host_against.py BEFORE NOW [--rounds 30]
Of each version the folder that `pip install --no-deps --target FOLDER .` made in its sources; what the
package needs is this Python's. Each round is a job of two PEs, bound to cores, of either version, the
first one changing. A figure is the time that one job in five stays below: cores are shared and change
their clocks. Prints one JSON line a figure (nanoseconds), then what lies beyond --much. `chrt -f 50`
before the command keeps other programs off the cores, for root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import click

PROGRAM = Path(__file__).parent / "host_pe.py"
Times = dict[tuple[str, int], dict[str, list[float]]]


def link_needed(folder: Path) -> None:
    """What this Python has installed, less pyshmem: an editable one would be found first."""
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "pyshmem" not in path.name and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)


def job(python: str, site: str, packages: str) -> list[dict[str, float]]:
    variables = {
        "PYTHONPATH": f"{site}:{packages}",
        "PYTHONNOUSERSITE": "1",
        "PYSHMEM_CONDUIT": "shm",
    }
    command = [
        python,
        "-P",
        "-m",
        "pyshmem",
        "run",
        "-n",
        "2",
        "--bind",
        "core",
        "--device",
        "none",
    ]
    command += [str(PROGRAM), "pyshmem", "pyshmem"]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=120, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def fifth(times: list[float]) -> float:
    return sorted(times)[len(times) // 5]


@click.command(help=__doc__)
@click.argument("before", type=click.Path(exists=True, file_okay=False, resolve_path=True))
@click.argument("now", type=click.Path(exists=True, file_okay=False, resolve_path=True))
@click.option("--rounds", default=30, show_default=True, help="jobs of each version")
@click.option("--much", default=1.02, show_default=True, help="ratio from which a figure is told")
def main(before: str, now: str, rounds: int, much: float) -> None:
    python = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    times: Times = defaultdict(lambda: {before: [], now: []})
    with tempfile.TemporaryDirectory() as packages:
        link_needed(Path(packages))
        for turn in range(rounds):
            for site in (before, now) if turn % 2 else (now, before):
                for row in job(python, site, packages):
                    times[str(row["op"]), int(row["bytes"])][site].append(row["ns"])
    ratios = {}
    for (op, nbytes), of in times.items():
        was, is_ = fifth(of[before]), fifth(of[now])
        ratios[op, nbytes] = is_ / was
        figures = {"before_ns": round(was, 1), "now_ns": round(is_, 1), "of": round(is_ / was, 4)}
        click.echo(json.dumps({"op": op, "bytes": nbytes, "pes": 2, **figures}))
    slow = {key: ratio for key, ratio in ratios.items() if ratio > much}
    told = ", ".join(f"{op} {nbytes} B {ratio:.3f}" for (op, nbytes), ratio in slow.items())
    click.echo(
        f"median {median(ratios.values()):.3f}, {len(slow)} of {len(ratios)} beyond {much}: {told}",
        err=True,
    )


if __name__ == "__main__":
    main()
