# SPDX-License-Identifier: BSD-3-Clause
"""The command line: each command in a module that is imported when the command is used."""

from __future__ import annotations

import difflib
import importlib
import os
import shlex

import click

from ..launcher import other_launchers

#: The commands and their modules.
COMMANDS = {
    "run": "run",
    "cc": "compilers",
    "cxx": "compilers",
    "info": "info",
    "doctor": "doctor",
    "bench": "bench",
    "tune": "tune",
    "trace": "trace",
    "completion": "completion",
}


#: Options of ``run`` with which people begin who leave the word out.
_OF_RUN = ("-n", "-np", "--n-pes")


#: What commands of other programs have in their names that ``info`` shows here.
_OF_INFO = ("settings", "config", "env", "status", "version", "versions")


def _meant_by(name: str) -> str:
    """The command whose name is like one that there is not."""
    if name in _OF_INFO:
        return "info"
    return "".join(difflib.get_close_matches(name, COMMANDS, n=1))


class _Commands(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the line; one that begins as that of ``run`` goes on is told what is missing."""
        first = args[0] if args else ""
        other = first in other_launchers.COMMANDS
        if first not in COMMANDS and (other or first.startswith(_OF_RUN) or os.path.isfile(first)):
            words = args[1:] if other else args
            words = words if " ".join(words).startswith("-") else ["-n", "4", *words]
            line = shlex.join(["python", "-m", "pyshmem", "run", *words])
            raise click.UsageError(f"start a job with: {line}", ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and (meant := _meant_by(name)):
            raise click.UsageError(f"No such command {name!r}: is {meant} meant?", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"{__name__}.{COMMANDS[cmd_name]}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyshmem-openshmem", prog_name="pyshmem")
def main() -> None:
    """OpenSHMEM for Python, on the host and inside Numba-CUDA kernels."""
