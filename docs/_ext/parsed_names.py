# SPDX-License-Identifier: BSD-3-Clause
"""The directive ``parsed-names``: as ``public-names``, of packages that need PyTorch.

    .. parsed-names:: pyshmem.fused
       :from: matmul.api matmul.arguments

It reads the sources, so that the site is built without it. A public name that has no docstring, that
is no function or class, or that no page shows, is a warning, and warnings end the build.
"""

from __future__ import annotations

import ast
import copy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from docstrings import to_rest
from docutils import nodes
from shown_names import NamesDirective, warn_of_hidden
from sphinx.application import Sphinx
from sphinx.util import logging

import pyshmem

log = logging.getLogger(__name__)

#: Every name of these has to be on some page.
PACKAGES = (
    "pyshmem.fused", "pyshmem.fused.formats", "pyshmem.interop.torch", "pyshmem.interop.transformers",
    "pyshmem.interop.vllm", "pyshmem.interop.sglang",
)  # fmt: skip

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Name(NamedTuple):
    """A public name: the module it comes from, and its definition there."""

    origin: str
    node: Any  # None: no function and no class


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _definition(path: Path, name: str) -> Any:
    found = [
        n for n in _tree(path).body if isinstance(n, (*Function, ast.ClassDef)) and n.name == name
    ]
    return found[-1] if found else None


@cache
def names_of(package: str) -> dict[str, Name]:
    """What ``__all__`` of a package lists."""
    parts = package.split(".")
    root = Path(pyshmem.__file__).parents[1]
    body = _tree(root.joinpath(*parts, "__init__.py")).body
    origins = {
        alias.asname or alias.name: (parts[: len(parts) + 1 - node.level], node.module, alias.name)
        for node in body
        if isinstance(node, ast.ImportFrom) and node.level and node.module
        for alias in node.names
    }
    (listed,) = [
        ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    names = {}
    for name in listed:
        base, module, own = origins[name]
        path = root.joinpath(*base, *module.split(".")).with_suffix(".py")
        names[name] = Name(module, _definition(path, own))
    return names


def _signature(function: ast.FunctionDef, *, method: bool = False) -> str:
    arguments = copy.deepcopy(function.args)
    if method and not any(ast.unparse(d) == "staticmethod" for d in function.decorator_list):
        del (arguments.posonlyargs or arguments.args)[0]
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"({ast.unparse(arguments)})"


class ParsedNames(NamesDirective):
    """See the module's docstring."""

    def run(self) -> list[nodes.Node]:
        where = self.arguments[0]
        names = names_of(where)
        chosen = self.choose({name: found.origin for name, found in names.items()})
        if not chosen:
            wanted = self.options.get("from", "")
            log.warning("%s has no names from %s", where, wanted, location=self.get_location())
        lines = [
            line
            for name in sorted(chosen, key=str.lower)
            for line in self._entry(f"{where}.{name}", names[name].node)
        ]
        return self.parsed(lines)

    def _entry(self, full: str, node: Any) -> list[str]:
        if node is None:
            log.warning(
                "%s is no function or class of its module", full, location=self.get_location()
            )
            return []
        if isinstance(node, ast.ClassDef):
            members = [m for m in node.body if isinstance(m, Function) and m.name[0] != "_"]
            text = [line for member in members for line in self._member(full, member)]
            return self._described(full, f".. py:class:: {full}", node, text)
        return self._described(full, f".. py:function:: {full}{_signature(node)}", node, [])

    def _member(self, full: str, node: ast.FunctionDef) -> list[str]:
        if any(ast.unparse(d).endswith("property") for d in node.decorator_list):
            head = f".. py:property:: {node.name}"
        else:
            head = f".. py:method:: {node.name}{_signature(node, method=True)}"
        return self._described(f"{full}.{node.name}", head, node, [])

    def _described(self, full: str, head: str, node: Any, members: list[str]) -> list[str]:
        doc = ast.get_docstring(node, clean=False) or ""
        if not doc.strip():
            log.warning("%s has no docstring", full, location=self.get_location())
        return [head, "", *("   " + line for line in [*to_rest(doc), "", *members]), ""]


def check_all_shown(app: Sphinx, env: Any) -> None:
    """Warn of public names that no page shows."""
    for where in PACKAGES:
        warn_of_hidden(env, (f"{where}.{name}" for name in names_of(where)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("parsed-names", ParsedNames)
    app.connect("env-check-consistency", check_all_shown)
    return {"parallel_read_safe": True}
