# SPDX-License-Identifier: BSD-3-Clause
"""Commands that are jobs: a module of this package on PEs of this host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .run import run


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that ``run_module`` takes."""
    for option in (
        click.option("--device", type=click.Choice(["auto", "cuda", "sim"]), help="As for run."),
        click.option(
            "-n", "--n-pes", type=click.IntRange(min=1), default=2, show_default=True, help="PEs."
        ),
    ):
        command = option(command)
    return command


def run_module(
    ctx: click.Context, module: str, arguments: list[str], n_pes: int, device: str | None
) -> None:
    """Runs ``python -m module arguments`` as a job, and exits as it does."""
    ctx.invoke(
        run, n_pes=n_pes, device=device, module=True, target=module, arguments=tuple(arguments)
    )
