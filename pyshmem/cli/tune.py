# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem tune``: measure this machine's cutover table, or that of fused operations."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from ..host.tuning.table import quick_file, tune_file
from ._job import job_options, run_module


def _refuse_unwritable(path: Path) -> None:
    """Before anything is measured: that takes minutes, and the table is written behind it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise click.ClickException(
            f"the table cannot be written to {path}: {error.strerror}; name another file by --output"
        ) from None


@click.command()
@click.argument("what", type=click.Choice(["cutover", "quick", "fused"]), default="cutover")
@job_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="The file, instead of the one that init reads.  [PYSHMEM_TUNE_FILE]",
)
@click.pass_context
def tune(ctx: click.Context, what: str, n_pes: int, device: str | None, output: str | None) -> None:
    """Measure from how many bytes on copy engines are faster than stores, and keep the table.

    "tune quick" measures puts and gets of few sizes, in about a second, for GPUs of which no table has
    rows; any that tune measured, or that ships, counts for more. PYSHMEM_CALIBRATION=0 leaves it out.

    "tune fused" measures which algorithm of pyshmem.fused's operations is the fastest at which size, and
    keeps that in the same file; it needs torch and Triton.

    Jobs on such GPUs read it when they start. Tune with the number of PEs that your jobs have;
    tables for other numbers and GPUs stay in the file. Where no GPU is visible, --device sim tries it.
    """
    chosen = os.environ.get("PYSHMEM_TUNE_FILE")
    if chosen and not Path(chosen).exists():  # a job would refuse to start without it
        del os.environ["PYSHMEM_TUNE_FILE"]
        output = output or (None if what == "quick" else chosen)
    default = quick_file() if what == "quick" else tune_file()
    _refuse_unwritable(Path(output) if output else default)
    arguments = ["--output", output] if output else []
    arguments += ["--quick"] if what == "quick" else []
    if what == "fused":
        needs = ("torch", "triton")
        run_module(ctx, "pyshmem.bench.tune_fused", arguments, n_pes, device, needs, simulate=False)
    else:
        run_module(ctx, "pyshmem.bench.tune", arguments, n_pes, device, simulate=False)
