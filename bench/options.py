# SPDX-License-Identifier: BSD-3-Clause
"""What options of these programs have in common."""

from __future__ import annotations

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
