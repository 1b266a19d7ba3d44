# SPDX-License-Identifier: BSD-3-Clause
"""What the network costs two PEs on two hosts: conduit ucx beside ucx_perftest and an OpenSHMEM library.

Run as root: python bench/network.py [--rounds 5] [--keep]
The hosts are network namespaces on a bridge, one core each, so times hold for this machine alone:
compare inside a run. Each provider has jobs of its own, in turn; a figure is the median of these.
ucx_perftest is that of the library that pyshmem takes, and ``bare_ucx.c`` asks and answers by it alone.
``busy_get`` is a get from a PE that computes for a second, and calls nothing; ``_apart``: a millisecond
after the last, so that who serves it sleeps; ``_cpu``: of the owner's, but for the program's thread.
Where other programs run, give this one a group of ``cpu`` with all shares. Prints one JSON line a figure
(microseconds), then a table and what is to be reached. ``--keep`` keeps all in bench/results.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from host import VARIABLES, compiled, machine
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests"))
from netns import Namespaces  # noqa: E402

HOSTS = tuple(f"net-{os.getpid()}-{letter}" for letter in "ab")
NAMESPACES = Namespaces(HOSTS, f"net-{os.getpid()}-hub", "10.213.98")
PERFTEST_PORT = 14000
MEBIBYTE = 1 << 20
Rows = list[dict[str, Any]]
Figures = dict[tuple[str, int], dict[str, float]]

#: Tests of ucx_perftest: whose figure it is beside, bytes, and how often.
PERFTESTS = {
    "ucp_am_lat": ("put", 8, 3000),
    "ucp_get": ("get", 8, 3000),
    "ucp_fadd": ("fetch_add", 8, 3000),
    "ucp_put_bw": ("put", MEBIBYTE, 300),
}
C, PYTHON, PERFTEST, OSHMEM = "pyshmem, C", "pyshmem, Python", "ucx_perftest", "OSHMEM, C"
BARE = "UCX alone, C"


def ucx() -> Path:
    """The folder of the package that brings UCX, and ucx_perftest."""
    found = importlib.util.find_spec("libucx")
    if not found or not found.origin:
        raise SystemExit("pip install 'pyshmem-openshmem[ucx]': it is what is measured")
    return Path(found.origin).parent


def paths() -> dict[str, str]:
    """So that its programs find its libraries, not the system's."""
    return {"LD_LIBRARY_PATH": str(ucx() / "lib")}


def on(host: int, *command: str) -> list[str]:
    """A command on a host, which has one core."""
    name, core = HOSTS[host], sorted(os.sched_getaffinity(0))[host]
    inside = f'hostname {name}; exec taskset -c {core} "$@"'
    return [
        "ip",
        "netns",
        "exec",
        name,
        "unshare",
        "--uts",
        "--ipc",
        "sh",
        "-c",
        inside,
        "sh",
        *command,
    ]


def run(commands: list[list[str]], environments: list[dict[str, str]]) -> list[str]:
    """What all print, to the end; RuntimeError when one fails."""
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, env=os.environ | each, stdout=pipe, stderr=pipe, text=True)
        for command, each in zip(commands, environments, strict=True)
    ]
    try:
        said = [process.communicate(timeout=60) for process in running]
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{error.cmd[-1]} did not end") from error
    finally:
        for process in running:
            process.kill()
            process.wait()
    for process, (_, err) in zip(running, said, strict=True):
        if process.returncode:
            raise RuntimeError(err.strip() or f"status {process.returncode}")
    return [out for out, _ in said]


def rows_in(texts: list[str]) -> Iterator[dict[str, Any]]:
    """Of ``init`` the PE that came last, as it did not wait for the other's imports."""
    rows = [json.loads(line) for text in texts for line in text.splitlines() if line[:1] == "{"]
    first = min((row for row in rows if row["op"] == "init"), key=lambda row: row["us"])
    yield from (row for row in rows if row is first or row["op"] != "init")


def pyshmem(*command: str) -> Rows:
    """Of a job of two PEs by conduit ucx."""
    meeting = {
        "PYSHMEM_RENDEZVOUS": f"{NAMESPACES.address(0)}:{20000 + secrets.randbelow(20000)}",
        "PYSHMEM_SECRET": secrets.token_hex(16),
        "PYSHMEM_JOB": f"network{secrets.token_hex(4)}",
        "PYSHMEM_N_PES": "2",
        "PYSHMEM_CONDUIT": "ucx",
        "PYSHMEM_DEVICE": "none",
        "PYSHMEM_UCX_LIBRARY": str(ucx() / "lib" / "libucp.so.0"),
    }
    commands = [on(host, *command) for host in range(2)]
    return list(rows_in(run(commands, [meeting | {"PYSHMEM_PE": str(pe)} for pe in range(2)])))


def perftest() -> Rows:
    """The median of latencies; of the bandwidth the mean time of a put, which is all that it says."""
    program = str(ucx() / "bin" / "ucx_perftest")
    environment = paths() | {"UCX_TLS": "tcp", "UCX_MEM_EVENTS": "n"}
    rows = []
    for test, (op, nbytes, calls) in PERFTESTS.items():
        here = [program, "-p", str(PERFTEST_PORT)]
        there = [program, NAMESPACES.address(1), "-p", str(PERFTEST_PORT)]
        there += ["-t", test, "-s", str(nbytes), "-n", str(calls)]
        waits = ["sh", "-c", 'sleep 0.3; exec "$@"', "sh"]
        out = run([on(1, *here), on(0, *waits, *there)], [environment] * 2)[1]
        final = next(line.split() for line in out.splitlines() if line.startswith("Final:"))
        us = float(final[4] if test.endswith("_bw") else final[2])
        rows.append(
            {"op": op, "provider": PERFTEST, "bytes": nbytes, "pes": 2, "us": us, "test": test}
        )
    return rows


def bare(program: str) -> Rows:
    """Of a message and its answer."""
    environment = {"UCX_TLS": "tcp", "UCX_MEM_EVENTS": "n", "UCX_LOG_LEVEL": "fatal"}
    rows: Rows = []
    for op in ("get", "busy_get", "busy_get_apart"):
        where = [NAMESPACES.address(1), str(20000 + secrets.randbelow(20000)), op]
        commands = [on(pe, program, BARE, str(pe), *where) for pe in range(2)]
        rows += [json.loads(line) for line in run(commands, [environment] * 2)[0].splitlines()]
    return rows


def oshmem(program: str, agent: Path) -> Rows:
    """Of the same C program over Open MPI's OpenSHMEM, started in both namespaces."""
    agent.write_text('#!/bin/sh\nhost=$1; shift\nexec ip netns exec "$host" unshare --uts --ipc '
                     'sh -c "hostname $host; $*"\n')  # fmt: skip
    agent.chmod(0o755)
    core = 'exec taskset -c $OMPI_COMM_WORLD_RANK "$@"'
    command = ["ip", "netns", "exec", HOSTS[0], "unshare", "--uts", "--ipc", "sh", "-c"]
    command += [
        f'hostname {HOSTS[0]}; exec "$@"',
        "sh",
        "oshrun",
        "--mca",
        "plm_rsh_agent",
        str(agent),
    ]
    command += ["--bind-to", "none", "--host", ",".join(f"{host}:1" for host in HOSTS), "-n", "2"]
    command += ["-x", "UCX_TLS=tcp,self", "sh", "-c", core, "sh", program, OSHMEM]
    return list(rows_in(run([command], [VARIABLES])))


def providers(folder: Path) -> dict[str, Callable[[], Rows]]:
    """All that this machine may have."""
    info = [sys.executable, "-m", "pyshmem", "info", "--cflags", "--libs"]
    flags = subprocess.run(info, capture_output=True, text=True).stdout.split()
    source = HERE / "network_pe.c"
    found: dict[str, Callable[[], Rows]] = {PERFTEST: perftest}
    if own := compiled(["gcc", *flags], folder / "network_pe", flags, source):
        found[C] = lambda: pyshmem(own, C)
    packaged = [
        f"-I{ucx() / 'include'}",
        f"-L{ucx() / 'lib'}",
        f"-Wl,-rpath,{ucx() / 'lib'}",
        "-lucp",
    ]
    if alone := compiled(["gcc"], folder / "bare_ucx", [*packaged, "-lucs"], HERE / "bare_ucx.c"):
        found[BARE] = lambda: bare(alone)
    found[PYTHON] = lambda: pyshmem(sys.executable, str(HERE / "network_pe.py"))
    if theirs := compiled(["oshcc"], folder / "network_pe_oshmem", [], source):
        found[OSHMEM] = lambda: oshmem(theirs, folder / "agent.sh")
    return found


def measure(rounds: int) -> Rows:
    """Every provider in turn, so many times."""
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        present = providers(Path(folder))
        for number in range(rounds):
            for label, job in tuple(present.items()):
                try:
                    rows += [row | {"round": number} for row in job()]
                except RuntimeError as error:
                    del present[label]
                    print(f"left out in round {number}: {label}: {error}", file=sys.stderr)
    return rows


def versions() -> dict[str, str]:
    """The first line that each program has to say of itself."""
    found = {}
    for name, command in (
        ("ucx", [str(ucx() / "bin" / "ucx_info"), "-v"]),
        ("oshrun", ["oshrun", "-V"]),
    ):
        if shutil.which(command[0]):
            environment = os.environ | paths() if name == "ucx" else None
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            found[name] = done.stdout.partition("\n")[0].strip("# ")
    return found


def medians(rows: Rows) -> Figures:
    samples: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for row in rows:
        samples[row["op"], row["bytes"], row["provider"]].append(row["us"])
    table: Figures = defaultdict(dict)
    for (op, nbytes, provider), found in samples.items():
        table[op, nbytes][provider] = statistics.median(found)
    return table


def targets(table: Figures) -> Iterator[tuple[str, float, float]]:
    """What is to be reached: its name, the value, and the most that it may be."""
    for op, nbytes, most in (
        ("put", 8, 1.1),
        ("get", 8, 1.1),
        ("fetch_add", 8, 1.1),
        ("put", MEBIBYTE, 1 / 0.95),
    ):
        row = table[op, nbytes]
        if C in row and PERFTEST in row:
            yield f"{op} of {nbytes} B / ucx_perftest", row[C] / row[PERFTEST], most
        if C in row and PYTHON in row and nbytes == 8:
            yield f"{op} of {nbytes} B from Python, more than from C, us", row[PYTHON] - row[C], 1.0
    for op, nbytes, most in (("barrier_all", 0, 12.0), ("busy_get", 8, 25.0)):
        if C in table[op, nbytes]:
            yield f"{op}, us", table[op, nbytes][C], most
    if PYTHON in table["init", 0]:
        yield "init without imports, ms", table["init", 0][PYTHON] / 1000, 60.0


def show(table: Figures, console: Console) -> None:
    labels = list(dict.fromkeys(label for row in table.values() for label in row))
    shown = Table(title="us, two hosts (network namespaces), TCP")
    for name in ("op", "bytes", *labels):
        shown.add_column(name, justify="left" if name == "op" else "right")
    for (op, nbytes), row in table.items():
        shown.add_row(
            op, f"{nbytes:,}", *(f"{row[each]:,.1f}" if each in row else "" for each in labels)
        )
    console.print(shown)


@click.command()
@click.option("--rounds", default=5, show_default=True, help="jobs of each provider")
@click.option("--keep", is_flag=True, help="keep all in bench/results/<date>-network")
def main(rounds: int, keep: bool) -> None:
    """What the network costs two PEs on two hosts."""
    NAMESPACES.make()
    try:
        rows = measure(rounds)
    finally:
        NAMESPACES.remove()
    lines = [json.dumps(row) for row in rows]
    print("\n".join(lines), flush=True)
    console = Console(width=120, record=True)
    console.print_json(json.dumps(machine() | {"versions": versions()}))
    table = medians(rows)
    show(table, console)
    for name, value, most in targets(table):
        console.print(
            f"{value:6.2f} of {most:5.2f}  {name}{'' if value <= most else '   MISSED'}",
            highlight=False,
        )
    if keep:
        folder = HERE / "results" / f"{datetime.date.today()}-network"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "network.jsonl").write_text("\n".join(lines) + "\n")
        (folder / "summary.txt").write_text(console.export_text())


if __name__ == "__main__":
    main()
