# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem trace``: what a timeline shows, as tables and as a picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ..host.observe import trace_file
from . import trace_report
from .trace_plot import draw


@click.command(
    epilog="\b\nMake one and look at it:\n"
    "  PYSHMEM_TRACE=t.json python -m pyshmem run -n 4 program.py\n"
    "  python -m pyshmem trace t.json --plot t.svg\n"
    "or open it in ui.perfetto.dev"
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw it: a .svg, .png or .pdf.")
@click.option(
    "--rows", default=8, show_default=True, type=click.IntRange(1), help="Names of each PE."
)
@click.option(
    "--comm",
    default=trace_report.COMMUNICATION,
    metavar="REGEX",
    help="Labels of stages that are communication; the others are computation.",
)
def trace(file: Path, plot: str | None, rows: int, comm: str) -> None:
    """Show where time goes in a timeline that pyshmem.profiling.trace or PYSHMEM_TRACE wrote."""
    document = _read(file)
    try:
        re.compile(comm)
    except re.error as error:
        raise click.BadParameter(f"{comm!r} is no regular expression: {error}") from error
    console = Console(markup=False)
    for table in (_times(document, rows), _shares(document, comm), _late(document)):
        console.print(table)
    for line in _remarks(document):
        console.print(line)
    if plot:
        draw(document, plot, file.name)
        console.print(f"drawn: {plot}")


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.ClickException(
            f"{file} is no timeline, nor JSON at all ({error}): PYSHMEM_TRACE=t.json python -m pyshmem "
            "run ... writes one, and so does pyshmem.profiling.trace"
        ) from error
    if wrong := trace_file.complaints(document):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise click.ClickException(f"{file} is no timeline: {wrong[0]}{more}")
    return document  # type: ignore[no-any-return]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        text = number == 0 or column in ("name", "what")
        table.add_column(column, overflow="fold", justify="left" if text else "right")
    return table


def _time(us: float) -> str:
    """Microseconds for people."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


def _times(document: dict[str, Any], most: int) -> Table:
    table = _table("Where time goes", "PE", "what", "name", "count", "total", "mean", "longest")
    pe, shown = -1, 0
    for row in trace_report.rows(document):
        if row.pe != pe:
            pe, shown = row.pe, 0
            table.add_section()
        shown += 1
        if shown <= most:
            times = (row.total, row.total / row.calls, row.longest)
            table.add_row(str(row.pe), row.kind, row.name, str(row.calls), *map(_time, times))
    return table


def _shares(document: dict[str, Any], comm: str) -> Table:
    table = _table(
        "Compute and communication", "PE", "span", "compute", "communication", "overlap", "idle"
    )
    for share in trace_report.shares(document, comm):
        overlap = "-" if share.overlap is None else f"{share.overlap:.1f} %"
        table.add_row(
            str(share.pe), _time(share.span), _time(share.compute), _time(share.communication),
            overlap, _time(share.idle),
        )  # fmt: skip
    return table


def _late(document: dict[str, Any]) -> Table:
    table = _table("Late PEs", "PE", "came last", "of", "kept others waiting, mean")
    for late in trace_report.late(document):
        waited = _time(late.kept_waiting) if late.last else "-"
        table.add_row(str(late.pe), str(late.last), str(late.syncs), waited)
    return table


def _remarks(document: dict[str, Any]) -> list[str]:
    """What is not in the file, and how far its clocks can be trusted."""
    about = document.get("otherData", {})
    pes, remarks = about.get("pes", {}), []
    missing = sorted(set(range(about.get("n_pes", 0))) - set(map(int, pes)))
    if missing:
        remarks.append(f"PEs that wrote nothing: {', '.join(map(str, missing))}")
    for pe, said in pes.items():
        for what in ("stages", "requests"):
            if lost := said.get(f"{what}_lost"):
                remarks.append(f"PE {pe}: {lost} {what} are not here (no room, or not ended)")
        for what in ("stages", "requests", "clock"):
            if error := said.get(f"{what}_error"):
                remarks.append(f"PE {pe}: no {what} at the end: {error}")
    if within := max((said.get("kernel_clock_within_ns", 0) for said in pes.values()), default=0):
        remarks.append(f"kernels' clocks agree with the hosts' within {_time(within / 1e3)}")
    faults = [event for event in document["traceEvents"] if event["ph"] == "i"]
    remarks += [f"fault on PE {event['pid']}: {event['args'].get('text', '')}" for event in faults]
    return remarks
