# SPDX-License-Identifier: BSD-3-Clause
"""The command line: each command in a module that is imported when the command is used."""

from __future__ import annotations

import importlib

import click

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


class _Commands(click.Group):
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
