# SPDX-License-Identifier: BSD-3-Clause
"""What each PE of ``python -m pyshmem bench`` runs."""

from __future__ import annotations

import click

import pyshmem

from . import put_get
from .operations import PARTS
from .plot import draw
from .timing import Clock, Row, say


@click.command()
@click.option("--all-shapes", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--plot", "picture", type=click.Path(dir_okay=False, writable=True))
@click.argument("chosen", nargs=-1, type=click.Choice(list(PARTS)))
def main(all_shapes: bool, as_json: bool, picture: str | None, chosen: tuple[str, ...]) -> None:
    """Measures the chosen parts, or all; PE 0 prints."""
    with pyshmem.init() as job:
        rows: list[Row] = []

        def report(row: Row) -> None:
            rows.append(row)
            if as_json:
                row.print()
            else:
                grid = f"{row.blocks}x{row.threads}"
                print(f"{row.peer:15} {row.op:25} {row.bytes:9} B {grid:>9} {row.us:12.3f}")

        clock = Clock(job, report)
        if job.my_pe == 0 and clock.simulated:
            say("On the simulator these figures are the simulator's: they say nothing about a GPU.")
        if job.my_pe == 0 and not as_json:
            print(
                "way, operation, bytes, blocks x threads, microseconds (or the share it is named for)"
            )
        for part in chosen or PARTS:
            if part in put_get.ROUTINES and job.n_pes == 1:
                say(f"{part} is left out: it takes 2 PEs")
            elif part in put_get.ROUTINES and all_shapes and not clock.simulated:
                put_get.measure(clock, (part,), put_get.ALL_SHAPES)
            else:
                PARTS[part](clock)
        if job.my_pe == 0 and picture:
            draw(rows, picture, "simulator" if clock.simulated else pyshmem.cutover.gpu_name())
            say(f"{picture} is written")


if __name__ == "__main__":
    main()
