# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem cc`` and ``cxx``: the C and C++ compiler with what OpenSHMEM programs need.

For build systems that want a compiler, as ``oshcc`` is: ``make CC='pyshmem cc'``.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from typing import NoReturn

import click

from .info import compile_flags, link_flags

#: With one of these there is nothing to link.
NO_LINK = frozenset({"-c", "-E", "-S", "-M", "-MM", "-fsyntax-only"})

#: Asks for the command, as of the compilers of Sandia OpenSHMEM and of Open MPI.
SHOW = frozenset({"-show", "--showme"})

_as_given = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": ["--help"],  # -h is a letter of theirs
}


def _compile(compiler: str, arguments: tuple[str, ...]) -> NoReturn:
    if shutil.which(compiler) is None:
        raise click.ClickException(f"there is no {compiler} on the PATH: install a compiler")
    wanted = [argument for argument in arguments if argument not in SHOW]
    libraries = [] if NO_LINK.intersection(wanted) else link_flags()
    command = [compiler, *compile_flags(), *wanted, *libraries]
    if len(wanted) < len(arguments):
        click.echo(shlex.join(command))
        sys.exit()
    sys.exit(subprocess.run(command, check=False).returncode)


@click.command(context_settings=_as_given)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def cc(arguments: tuple[str, ...]) -> None:
    """Compile and link an OpenSHMEM program in C; ARGUMENTS are those of cc."""
    _compile("cc", arguments)


@click.command(context_settings=_as_given)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def cxx(arguments: tuple[str, ...]) -> None:
    """Compile and link an OpenSHMEM program in C++; ARGUMENTS are those of c++."""
    _compile("c++", arguments)
