# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pyshmem completion``: the shell's tab key knows commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    epilog='\b\nFor bash, in ~/.bashrc:\n  eval "$(pyshmem completion bash)"\n'
    'For zsh, in ~/.zshrc:\n  eval "$(pyshmem completion zsh)"\n'
    "For fish:\n  pyshmem completion fish > ~/.config/fish/completions/pyshmem.fish"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete the commands and options of pyshmem."""
    found = get_completion_class(shell)
    assert found is not None
    program = ctx.find_root().command
    click.echo(found(program, {}, "pyshmem", "_PYSHMEM_COMPLETE").source())
