# SPDX-License-Identifier: BSD-3-Clause
"""Commands that are jobs: a module of this package on PEs of this host."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

from .run import run


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that ``run_module`` takes."""
    for option in (
        click.option(
            "--device", type=click.Choice(["auto", "cuda", "sim", "cpu"]), help="As for run."
        ),
        click.option(
            "-n", "--n-pes", type=click.IntRange(min=1), default=2, show_default=True, help="PEs."
        ),
    ):
        command = option(command)
    return command


def run_module(
    ctx: click.Context,
    module: str,
    arguments: list[str],
    n_pes: int,
    device: str | None,
    needs: tuple[str, ...] = ("numba", "numba_cuda"),
) -> None:
    """Runs ``python -m module arguments`` as a job, and exits as it does.

    Raises: ClickException (a package that the module ``needs`` is not installed).
    """
    if missing := [name.replace("_", "-") for name in needs if find_spec(name) is None]:
        raise click.ClickException(
            f"{ctx.command.name} needs {' and '.join(missing)}, not installed here "
            "(`python -m pyshmem doctor` says how to install it)"
        )
    ctx.invoke(
        run, n_pes=n_pes, device=device, module=True, target=module, arguments=tuple(arguments)
    )
