# SPDX-License-Identifier: BSD-3-Clause
"""What options of these programs have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click


class Several(click.Choice):
    """Some of the choices, with commas between: a tuple of them."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """``value`` in its parts; one that is no choice ends the program, which names the choices."""
        names = value.split(",") if isinstance(value, str) else value
        return tuple(super(Several, self).convert(name, param, ctx) for name in names)


def some_of(option: str, names: Iterable[str], what: str) -> Any:
    """An option that takes some of the names; by default all."""
    return click.option(
        option,
        type=Several(names),
        default=",".join(names),
        help=f"{what}, with commas between.",
    )
