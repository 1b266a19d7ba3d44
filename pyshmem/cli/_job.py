# SPDX-License-Identifier: BSD-3-Clause
"""Commands that are jobs: a module of this package on PEs of this host."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

from .._core import library
from ..host.job.runtime import gpu_count
from ..launcher.call.arguments import MOST_PES
from .run import run


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that ``run_module`` takes."""
    for option in (
        click.option(
            "--device", type=click.Choice(["auto", "cuda", "sim", "cpu"]), help="As for run."
        ),
        click.option(
            "-n",
            "--n-pes",
            type=click.IntRange(1, MOST_PES),
            default=2,
            show_default=True,
            help="PEs.",
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
    *,
    simulate: bool = True,
) -> None:
    """Runs ``python -m module arguments`` as a job, and exits as it does.

    ``simulate``: where there is no GPU it runs in the simulator; else only where that is asked for.

    Raises: ClickException (a package that the module ``needs`` is not installed; there is no GPU).
    """
    if missing := [name.replace("_", "-") for name in needs if find_spec(name) is None]:
        raise click.ClickException(
            f"{ctx.command.name} needs {' and '.join(missing)}, not installed here "
            "(`python -m pyshmem doctor` says how to install it)"
        )
    asked = device or library.setting("DEVICE")[0].lower()
    if not simulate and asked == "auto" and not gpu_count():
        raise click.ClickException(
            f"{ctx.command.name} measures GPUs, and none is visible here "
            "(`python -m pyshmem doctor` says what is missing); --device sim tries it in the simulator, "
            "whose figures say nothing about a GPU"
        )
    ctx.invoke(
        run, n_pes=n_pes, device=device, module=True, target=module, arguments=tuple(arguments)
    )
