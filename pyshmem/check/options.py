# SPDX-License-Identifier: BSD-3-Clause
"""Options of ``python -m pyshmem run`` on what is checked: ``--check``, ``--seed`` and ``--seeds``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from .._core import library
from .._core.errors import LaunchError

_LAST_SEED = (1 << 31) - 1

_OPTIONS = (
    click.option(
        "--check",
        metavar="WHAT",
        help="What is checked, with commas: args; order, races between PEs (exit status 3); deliver, "
        "order with all as late as it may be; strict, order with advice.  [PYSHMEM_CHECK]",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, _LAST_SEED),
        metavar="N",
        help="With --check=deliver: which order of PEs and of what they send.  [PYSHMEM_CHECK_SEED]",
    ),
    click.option(
        "--seeds",
        type=click.IntRange(1, _LAST_SEED),
        metavar="K",
        help="Run TARGET with K seeds, up to the first that fails or prints otherwise.",
    ),
)


class Checks(NamedTuple):
    """What the command line says of it."""

    check: str | None
    seed: int | None
    seeds: int | None

    def settings(self) -> dict[str, str | None]:
        """The settings that it names."""
        seed = None if self.seed is None else str(self.seed)
        return {"CHECK": self.check, "CHECK_SEED": seed}

    def command(self, command: list[str]) -> list[str]:
        """``command``, as often as --seeds says. Raises: LaunchError, ValueError."""
        if self.seed is None and self.seeds is None:
            return command
        if not library.setting_number("CHECK") & library.lib.ISHMEMX_CHECK_DELIVER:
            raise LaunchError("--seed and --seeds are of --check=deliver")
        if self.seeds is None:
            return command
        from .delivery.seeds import command_of

        return command_of(command, max(1, library.setting_number("CHECK_SEED")), self.seeds)


def as_one(
    name: str, kind: Any, options: tuple[Callable[..., Any], ...]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds ``options`` to a command, which takes them together: as ``name``, a NamedTuple ``kind``."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def grouped(*args: Any, **given: Any) -> Any:
            group = kind(**{field: given.pop(field) for field in kind._fields})
            return command(*args, **{name: group}, **given)

        found: Callable[..., Any] = grouped
        for option in reversed(options):
            found = option(found)
        return found

    return with_options


check_options = as_one("checks", Checks, _OPTIONS)
