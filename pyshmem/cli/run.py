# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem run``: start a job on this host, or on several."""

from __future__ import annotations

import errno
import math
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from .._core.errors import LaunchError, ShmemError
from .._core.settings import tell_misspelt
from ..check.options import Checks, as_one, check_options
from ..launcher import binding
from ..launcher.call.arguments import MOST_PES
from ..launcher.control import NativeControl
from ..launcher.job import run_job
from ..launcher.other_launchers import of_another_launcher
from ..launcher.output.streams import occupy_standard_streams
from ..launcher.output.uncalled import told
from ..launcher.settings import check_settings, settle_device, started_by_another
from ..launcher.spec import JobSpec
from ..launcher.targets import resolve_command
from ._hosts import Over, host_options


class _Run(click.Command):
    """A command that knows other launchers' options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if told := of_another_launcher(error.option_name):
                raise click.UsageError(
                    f"{error.option_name} is of another launcher: {told}", ctx
                ) from None
            raise


class _NumberOfPes(click.IntRange):
    """A number of PEs, refused in words."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{value!r} is no number of PEs, which is 1 to {MOST_PES}.", param, ctx)


class _Seconds(click.FloatRange):
    """A time that is a number: NaN, which is not below 0 either, would be none."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is no number of seconds.", param, ctx)
        return number


_SECONDS = _Seconds(min=0)

_MOST_PES_OF_A_CPU = 100
_SECONDS_TO_START = 0.5  # of a CPU, for a PE: docs/scaling.md


class _Settings(NamedTuple):
    """Settings that have an option."""

    conduit: str | None
    device: str | None
    heap_size: str | None
    device_heap_size: str | None


_setting_options = as_one(
    "settings",
    _Settings,
    (
        click.option(
            "--conduit",
            type=click.Choice(["auto", "shm", "openshmem", "ucx"]),
            help="How PEs reach each other; openshmem has --hosts started by oshrun.  [PYSHMEM_CONDUIT]",
        ),
        click.option(
            "--device",
            type=click.Choice(["auto", "cuda", "sim", "cpu", "none"]),
            help="Where kernels and the device heap live; auto: cuda with a GPU, else sim with numba; "
            "cpu compiles kernels for the CPU, an experiment.  "
            "[PYSHMEM_DEVICE]",
        ),
        click.option(
            "--heap-size", metavar="SIZE", help="Host heap of a PE, as 512M.  [PYSHMEM_HEAP_SIZE]"
        ),
        click.option(
            "--device-heap-size",
            metavar="SIZE",
            help="Device heap of a PE.  [PYSHMEM_DEVICE_HEAP_SIZE]",
        ),
    ),
)


class _Program(NamedTuple):
    """What the command line says of what each PE runs."""

    target: str | None
    arguments: tuple[str, ...]
    code: str | None
    module: bool

    def command(self) -> list[str]:
        """What each PE runs."""
        if self.code is not None:
            if self.module:
                raise click.UsageError("-c and -m: give one of them")
            first = [] if self.target is None else [self.target]
            return [sys.executable, "-c", self.code, *first, *self.arguments]
        if self.target is None:
            raise click.UsageError(
                "Missing argument 'TARGET': a script, an executable, or -m MODULE"
            )
        return resolve_command(self.target, self.arguments, module=self.module)


_program_options = as_one(
    "program",
    _Program,
    (
        click.option("-m", "--module", is_flag=True, help="TARGET is a module, as in python -m."),
        click.option("-c", "code", metavar="CODE", help="Run this Python code, as python -c."),
        click.argument("target", required=False),
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED),
    ),
)


@click.command(cls=_Run, context_settings={"allow_interspersed_args": False})
@click.option(
    "-n",
    "--n-pes",
    "-np",
    type=_NumberOfPes(1, MOST_PES),
    help="Number of PEs; -np is the same. Not needed where --hosts or --hostfile says how many.",
)
@host_options
@_setting_options
@check_options
@click.option(
    "--timeout",
    type=_SECONDS,
    default=0,
    metavar="SECONDS",
    help="End the job after this long and say where each PE stood; the exit status is 124 then.",
)
@click.option(
    "--grace",
    type=_SECONDS,
    default=JobSpec.grace,
    show_default=True,
    metavar="SECONDS",
    help="Time for the PEs to end after SIGINT or SIGTERM, before they are killed.",
)
@click.option(
    "--bind",
    type=click.Choice(binding.BINDINGS),
    help="CPUs of a PE: cores of its own, a NUMA node, the node of its GPU, or those of this command.  "
    "Default: cores of its own, near its GPU, where these are two or more for each PE and this command "
    "may use the whole machine; else spread over the NUMA nodes.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the output of each PE to a file of its own: DIR/pe-0.txt, ...",
)
@click.option("--gdb", type=click.IntRange(min=0), metavar="PE", help="Run one PE under gdb, here.")
@click.option(
    "--attach",
    type=click.IntRange(min=0),
    metavar="PE",
    help="Let one PE wait for a debugger, and say how to attach one.",
)
@click.option("-l", "--tag", is_flag=True, help="Begin each line of output with its PE.")
@_program_options
def run(
    n_pes: int | None,
    over: Over,
    settings: _Settings,
    checks: Checks,
    timeout: float,
    grace: float,
    bind: str | None,
    output_dir: Path | None,
    gdb: int | None,
    attach: int | None,
    tag: bool,
    program: _Program,
) -> None:
    """Run a Python script, an executable, (-m) a module or (-c) code on N PEs here, or on --hosts.

    Options stand before TARGET; all that follows is passed to it. When a PE fails, the others are
    ended within two seconds and the report names the PE, the reason and where the others stood.

    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the PEs. The first four ask
    the job to end, within the time of --grace, at once when asked again (Ctrl-C twice): the exit status
    is then 128 + signal, but 0 if all PEs end with 0 on SIGTERM.

    OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, NUMBA_NUM_THREADS and the like are set to a
    PE's share of the CPUs, unless set. With -l or --output-dir, a terminal shows after 5 s of silence
    where the PEs stand.
    With --hosts or --hostfile, ssh starts a launcher on each host, which starts the PEs there: TARGET,
    Python and the folder have to be at the same path on all hosts. No PE reads standard input then.
    """
    over.check(n_pes)
    named = {name.upper(): value for name, value in settings._asdict().items()}
    _export(**named, **checks.settings())
    try:
        over.set_here()
        check_settings(hosts=over.is_asked)
        command = checks.command(_read(program.command()))
        job: dict[str, Any] = {"command": command, "timeout": timeout, "grace": grace, "tag": tag}
        if over.is_asked or n_pes is None:
            here_only = {"output-dir": output_dir, "gdb": gdb, "attach": attach}
            sys.exit(over.run(n_pes, _given(here_only), bind=bind, **job))
        tell_misspelt(os.environ)
        chosen = settle_device(n_pes)
        spec = JobSpec(
            n_pes=n_pes, device=chosen, shares=binding.shares(n_pes, bind, chosen, finer=True),
            output_dir=output_dir, debugged=_debugged(n_pes, gdb, attach), **job,
        )  # fmt: skip
        _warn_of_another_launcher(n_pes)
        control = _prepared(spec)
    except (ShmemError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(_status_of(spec, control))


def _read(command: list[str]) -> list[str]:
    """The same; what the program's text has that is never meant is told before it runs."""
    for line in told(command):
        click.echo(f"pyshmem: {line}", err=True)
    return command


def _warn_of_another_launcher(n_pes: int) -> None:
    """Under ``mpirun -n 2`` this command runs twice, and two jobs are not what was meant."""
    _warn_of_few_cpus(n_pes)
    if "PYSHMEM_PE" in os.environ:  # a PE may well start a job of its own
        return
    outer = started_by_another()
    if outer is None or outer.n_pes == 1 or outer.pe:
        return
    click.echo(
        f"pyshmem: another launcher has started this command {outer.n_pes} times, so these are "
        f"{outer.n_pes} jobs of {n_pes} PE(s): leave out `python -m pyshmem run` or the other launcher",
        err=True,
    )


def _warn_of_few_cpus(n_pes: int) -> None:
    """A job that starts for minutes is a typing mistake more often than a wish."""
    cpus = len(os.sched_getaffinity(0))
    if n_pes > _MOST_PES_OF_A_CPU * cpus:
        seconds = n_pes * _SECONDS_TO_START / cpus
        click.echo(
            f"pyshmem: {n_pes} PEs share {cpus} CPU(s); to start them takes some {seconds:.0f} s",
            err=True,
        )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the command line has, out of ``options``."""
    return {name: value for name, value in options.items() if value is not None}


def _export(**settings: str | None) -> None:
    """As if the user had exported them: one parser, one set of messages."""
    os.environ.update({f"PYSHMEM_{name}": value for name, value in _given(settings).items()})


def _prepared(spec: JobSpec) -> NativeControl:
    """What the job's PEs will share, when all that it needs on this host is there."""
    if spec.output_dir is not None:
        spec.output_dir.mkdir(parents=True, exist_ok=True)
    occupy_standard_streams()
    return NativeControl(spec.n_pes)


def _status_of(spec: JobSpec, control: NativeControl) -> int:
    """The exit status of the job, which has ended."""
    try:
        return run_job(spec, control)
    except OSError as error:
        notes = " ".join(getattr(error, "__notes__", []))
        if error.errno in (errno.EMFILE, errno.ENFILE) and "ulimit" not in notes:
            notes += " (raise the hard limit of open files, ulimit -Hn)"
        raise click.ClickException(f"cannot start the job: {error} {notes}".rstrip()) from error
    finally:
        control.close()


def _debugged(n_pes: int, gdb: int | None, attach: int | None) -> dict[int, str]:
    """The PEs that are to run under a debugger, and how."""
    found = {pe: how for pe, how in ((attach, "attach"), (gdb, "gdb")) if pe is not None}
    if beyond := [pe for pe in found if pe >= n_pes]:
        raise LaunchError(f"pe {beyond[0]} is outside the job of {n_pes} PEs (0..{n_pes - 1})")
    if len(found) < sum(pe is not None for pe in (gdb, attach)):
        raise LaunchError(f"--gdb and --attach are both about PE {gdb}; give one of them")
    return found
