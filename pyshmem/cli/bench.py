# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem bench``: figures of this machine."""

from __future__ import annotations

from importlib.util import find_spec

import click

from ._job import job_options, run_module

PEERS = ("nccl", "symm_mem", "nvshmem")
PARTS = ("put", "get", "ring", "collectives", "signals")


@click.command(
    epilog="\b\nput, get     transfers by stores, by copy engines, and as the cutover table chooses\n"
    "ring         requests to the host; fence and quiet\n"
    "collectives  sync, barrier and collectives of data\n"
    "signals      answers by signals, with and without data; fetch_add"
)
@job_options
@click.option(
    "--plot", type=click.Path(dir_okay=False), help="Draw put and get over bytes: .png, .svg, .pdf."
)
@click.option(
    "--against",
    multiple=True,
    type=click.Choice(PEERS),
    help="Compare operations on a stream with these libraries, on GPUs, instead; may be repeated.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Of --against."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line for each figure.")
@click.option("--all-shapes", is_flag=True, help="put, get: each of 16 groups and grids, not 7.")
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.pass_context
def bench(
    ctx: click.Context,
    n_pes: int,
    device: str | None,
    plot: str | None,
    as_json: bool,
    all_shapes: bool,
    against: tuple[str, ...],
    rounds: int,
    parts: tuple[str, ...],
) -> None:
    """Measure what kernels do, inside kernels: PARTS, or all.

    With --against: collectives and puts on a stream, eager and in CUDA graphs, by pyshmem and by NCCL,
    torch's symmetric memory or NVSHMEM, in turn; medians, ratios, and where pyshmem is behind. What is
    not installed is named and left out.
    """
    if plot and find_spec("matplotlib") is None:  # told before the measurements, not behind them
        raise click.ClickException("--plot needs matplotlib: pip install matplotlib")
    if against:
        if parts or all_shapes or device == "sim":
            raise click.UsageError("--against takes no PARTS, no --all-shapes and no simulator")
        from ..bench.against import compare

        compare(against, n_pes, rounds, picture=plot, as_json=as_json)
        return
    arguments = [*(["--plot", plot] if plot else []), *(["--json"] if as_json else [])]
    arguments += [*(["--all-shapes"] if all_shapes else []), *parts]
    run_module(ctx, "pyshmem.bench", arguments, n_pes, device)
