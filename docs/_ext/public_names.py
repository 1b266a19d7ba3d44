# SPDX-License-Identifier: BSD-3-Clause
"""The directive ``public-names``: what a package offers, by the module it comes from.

    .. public-names:: pyshmem
       :from: host.rma host.strided

Without ``:from:`` it shows what the page has not shown of that package yet.
Functions that differ in their scope alone (``put``, ``put_warp``, ``put_work_group``) share an entry.
A public name that has no docstring, or that no page shows, is a warning, and warnings end the build.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import to_rest
from docutils import nodes
from shown_names import NamesDirective, warn_of_hidden
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.inspect import stringify_signature

log = logging.getLogger(__name__)

#: Every name of these has to be on some page.
PACKAGES = (
    "pyshmem",
    "pyshmem.device",
    "pyshmem.triton",
    "pyshmem.streams",
    "pyshmem.profiling",
    "pyshmem.cutover",
    "pyshmem.interop.mpi",
    "pyshmem.typing",
)
SCOPES = ("_warp", "_work_group", "_grid")


@cache
def package(name: str) -> ModuleType:
    """The module under a public name, which may be an attribute of its package only."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        found: ModuleType = getattr(package(parent), last)
        return found


@cache
def names_by_module(name: str) -> dict[str, str]:
    """Public names of a package, each with the module that its ``__init__`` takes it from."""
    module = package(name)
    path = Path(inspect.getfile(module))
    if path.name != "__init__.py":
        own = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        ]
        names = getattr(module, "__all__", None) or [key for key in own if not key.startswith("_")]
        return dict.fromkeys(names, "")
    origins: dict[str, str] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            origin = node.module or ""
            for alias in node.names:
                if alias.name == "*":
                    brought = importlib.import_module(f"{name}.{origin}")
                    origins |= dict.fromkeys(brought.__all__, origin)
                else:
                    origins[alias.asname or alias.name] = origin
    return {key: origins.get(key) or _written_in(module, key) for key in module.__all__}


def _written_in(package: ModuleType, name: str) -> str:
    """The module with the body of a routine that is made while its package is imported."""
    code = getattr(inspect.unwrap(getattr(package, name)), "__code__", None)
    folder = Path(inspect.getfile(package)).parent
    if code is None or not Path(code.co_filename).is_relative_to(folder):
        return ""
    parts = Path(code.co_filename).relative_to(folder).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _signature(value: Any) -> str:
    try:
        found = inspect.signature(
            getattr(value, "fn", value)
        )  # a function of Triton's wraps its own
    except (TypeError, ValueError):
        return "()"
    return stringify_signature(found, show_annotation=False, show_return_annotation=False)


def _is_data(value: Any) -> bool:
    if type(value).__module__ == "typing":  # a name for a type, some of which can be called
        return True
    return not (inspect.isclass(value) or callable(value) or inspect.ismodule(value))


def _family(name: str, names: list[str]) -> list[str]:
    return [name, *(name + scope for scope in SCOPES if name + scope in names)]


def _has_a_page(base: type) -> bool:
    """Readers can look the base up: it is Python's own, or a name on one of the pages."""
    if base.__module__.partition(".")[0] != "pyshmem":
        return base is not object
    return any(
        base.__name__ in names_by_module(where) and getattr(package(where), base.__name__) is base
        for where in PACKAGES
    )


class PublicNames(NamesDirective):
    """See the module's docstring."""

    def run(self) -> list[nodes.Node]:
        where, wanted = self.arguments[0], self.options.get("from")
        chosen = self.choose(names_by_module(where))
        if wanted and not chosen:
            log.warning(
                "%s has no public names from %s", where, wanted, location=self.get_location()
            )
        lines: list[str] = []
        shown = set()
        for name in sorted(chosen, key=lambda n: (_is_data(getattr(package(where), n)), n.lower())):
            if name not in shown:
                family = _family(name, chosen)
                shown.update(family)
                lines += self._entry(where, family)
        return self.parsed(lines)

    def _entry(self, where: str, family: list[str]) -> list[str]:
        value, full = getattr(package(where), family[0]), f"{where}.{family[0]}"
        if inspect.ismodule(value):
            return []  # it has a page of its own
        if inspect.isclass(value):
            options = ["   :members:"]
            if issubclass(value, enum.Enum):
                options.append("   :undoc-members:")
            elif any(_has_a_page(base) for base in value.__bases__):
                options.append("   :show-inheritance:")
            return [f".. autoclass:: {full}", *options, ""]
        if _is_data(value):
            shown = repr(
                getattr(value, "value", value) if full.startswith("pyshmem.triton") else value
            )
            return [f".. py:data:: {full}", f"   :value: {shown}", ""]
        first, *others = [f"{where}.{n}{_signature(getattr(package(where), n))}" for n in family]
        head = [
            f".. py:function:: {first}",
            *(f"                  {other}" for other in others),
            "",
        ]
        doc = value.__doc__ or ""
        if not doc.strip():
            log.warning("%s has no docstring", full, location=self.get_location())
        if len(family) > 1:  # the scopes are in the names
            doc = doc.rpartition("Scope: ")[0] or doc
        return head + ["   " + line for line in to_rest(doc)] + [""]


def rewrite(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Classes and their members, which autodoc reads."""
    lines[:] = to_rest("\n".join(lines))


def check_all_shown(app: Sphinx, env: Any) -> None:
    """Warn of public names that no page shows."""
    for where in PACKAGES:
        names = [
            n for n in names_by_module(where) if not inspect.ismodule(getattr(package(where), n))
        ]
        warn_of_hidden(env, (f"{where}.{name}" for name in names))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("env-check-consistency", check_all_shown)
    return {"parallel_read_safe": True}
