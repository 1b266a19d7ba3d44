# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem run``: start a job on this host."""

from __future__ import annotations

import os
import sys

import click

from ..launch import JobSpec, LaunchError, resolve_command, run_job
from ..launch.control import NativeControl
from ..launch.settings import check_settings, settle_device
from ..launch.streams import occupy_standard_streams


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-n", "--n-pes", type=click.IntRange(min=1), required=True, help="Number of PEs.")
@click.option(
    "--conduit",
    type=click.Choice(["auto", "shm"]),
    help="How PEs reach each other.  [PYSHMEM_CONDUIT]",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "sim", "none"]),
    help="Where kernels and the device heap live; auto: cuda with a GPU, else sim with numba.  "
    "[PYSHMEM_DEVICE]",
)
@click.option(
    "--heap-size", metavar="SIZE", help="Host heap of a PE, as 512M.  [PYSHMEM_HEAP_SIZE]"
)
@click.option(
    "--device-heap-size", metavar="SIZE", help="Device heap of a PE.  [PYSHMEM_DEVICE_HEAP_SIZE]"
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=0,
    metavar="SECONDS",
    help="End the job after this long and say where each PE stood.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=JobSpec.grace,
    show_default=True,
    metavar="SECONDS",
    help="Time for the PEs to end after SIGINT or SIGTERM, before they are killed.",
)
@click.option("-l", "--tag", is_flag=True, help="Begin each line of output with its PE.")
@click.option("-m", "--module", is_flag=True, help="TARGET is a module, as in python -m.")
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    n_pes: int,
    conduit: str | None,
    device: str | None,
    heap_size: str | None,
    device_heap_size: str | None,
    timeout: float,
    grace: float,
    tag: bool,
    module: bool,
    target: str,
    arguments: tuple[str, ...],
) -> None:
    """Run TARGET on N PEs of this host: a Python script, an executable, or (-m) a module.

    Options stand before TARGET; all that follows is passed to it. When a PE fails, the others are
    ended within two seconds and the report names the PE, the reason and where the others stood.

    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the PEs. The first four
    ask the job to end: the PEs have the time of --grace for it, and none when asked a second time
    (Ctrl-C twice). The exit status is then 128 + signal, but 0 if all PEs end with 0 on SIGTERM.
    SIGUSR1 and SIGUSR2 mean what the program makes of them.
    """
    options = {
        "CONDUIT": conduit,
        "DEVICE": device,
        "HEAP_SIZE": heap_size,
        "DEVICE_HEAP_SIZE": device_heap_size,
    }
    settings = {name: value for name, value in options.items() if value is not None}
    # As if the user had exported them: one parser, one set of messages.
    os.environ.update({f"PYSHMEM_{name}": value for name, value in settings.items()})
    try:
        check_settings()
        spec = JobSpec(
            n_pes=n_pes,
            command=resolve_command(target, arguments, module=module),
            device=settle_device(n_pes),
            timeout=timeout,
            grace=grace,
            tag=tag,
        )
        occupy_standard_streams()
        control = NativeControl(n_pes)
    except (LaunchError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    try:
        status = run_job(spec, control)
    except OSError as error:
        notes = " ".join(getattr(error, "__notes__", []))
        raise click.ClickException(f"cannot start the job: {error} {notes}".rstrip()) from error
    finally:
        control.close()
    sys.exit(status)
