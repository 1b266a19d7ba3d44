# SPDX-License-Identifier: BSD-3-Clause
"""What the directives that show public names share: which names, and that no name is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

log = logging.getLogger(__name__)


class NamesDirective(SphinxDirective):
    """A package, and with ``:from:`` those of its modules whose names are shown."""

    required_arguments = 1
    option_spec = {"from": directives.unchanged}  # noqa: RUF012 (docutils reads it from the class)

    def choose(self, origins: Mapping[str, str]) -> list[str]:
        """Of names and the modules they come from: the wanted, or what no page has shown yet."""
        wanted = self.options.get("from", "").split()
        before = self.env.temp_data.setdefault(f"{self.name} {self.arguments[0]}", set())
        chosen = [
            n for n, origin in origins.items() if (origin in wanted if wanted else n not in before)
        ]
        before.update(chosen)
        return chosen

    def parsed(self, lines: list[str]) -> list[nodes.Node]:
        node = nodes.container()
        text = StringList(lines, source=self.arguments[0])
        self.state.nested_parse(text, 0, node, match_titles=False)
        return node.children


def warn_of_hidden(env: Any, names: Iterable[str]) -> None:
    """``names`` that no page shows."""
    shown = env.get_domain("py").objects
    for name in names:
        if name not in shown:
            log.warning("no page of the reference shows %s", name)
