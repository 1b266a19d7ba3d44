# SPDX-License-Identifier: BSD-3-Clause
"""The project's docstrings as reStructuredText.

A docstring is a summary, paragraphs, then entries at its left edge: ``Args:`` with a line for each
argument, and ``Returns: Completes: Raises: Faults: Example: Spec: Scope:`` with text behind the colon.
"""

from __future__ import annotations

import inspect
import re

_ENTRY = re.compile(
    r"(Args|Attributes|Returns|Yields|Completes|Raises|Faults|Example|Spec|Scope):(?:\s+(.*))?$"
)
_ARGUMENT = re.compile(r"([*\w, /`]+): (.*)")


def _entries_of(kind: str, first: str, body: list[str]) -> list[str]:
    """One entry as fields; ``body`` is what is indented below its first line."""
    if kind in ("Args", "Attributes"):
        field, lines = ("param" if kind == "Args" else "ivar"), []
        for line in body:
            item = _ARGUMENT.match(line)
            if item and not line.startswith(" "):
                name = item[1].replace("*", "\\*").replace("`", "").replace(", ", ",")
                lines.append(f":{field} {name}: {item[2]}")
            elif line.strip():
                lines.append("    " + line.strip())
        return lines
    text = [part.strip() for part in (first, *body) if part and part.strip()]
    return [f":{kind}: {text[0]}", *("    " + part for part in text[1:])] if text else []


def _indented_below(lines: list[str], at: int) -> tuple[list[str], int]:
    """The indented lines from ``at`` on, without what they share of indentation, and the next index."""
    end = at
    while end < len(lines) and (lines[end].startswith(" ") or not lines[end].strip()):
        end += 1
    return inspect.cleandoc("\n" + "\n".join(lines[at:end])).splitlines(), end


def to_rest(docstring: str) -> list[str]:
    """Lines of reStructuredText for a docstring."""
    main, scope = re.subn(r"\n\s*\n\s*Scope: ", "\n\nScope: ", docstring)
    if scope:  # it was appended to the others, at another indentation
        main, _, last = main.rpartition("\n\nScope: ")
        lines = [*inspect.cleandoc(main).splitlines(), "Scope: " + last.strip()]
    else:
        lines = inspect.cleandoc(main).splitlines()
    text: list[str] = []
    fields: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        entry = _ENTRY.match(line)
        at += 1
        if entry:
            body, at = _indented_below(lines, at)
            fields += _entries_of(entry[1], entry[2] or "", body)
        elif line.strip() == "Extension.":
            fields.append(":Spec: an extension, not in the specification")
        elif line.startswith("    ") and (not text or not text[-1].strip()):
            body, at = _indented_below(lines, at - 1)
            text += ["", ".. code-block:: python", "", *("    " + code for code in body), ""]
        elif re.match(r"  \S", line) and text and re.match(r"- |  ", text[-1]):
            text.append(line.rstrip())  # of a bullet
        else:
            text.append(line.strip())
    return [*text, "", *fields, ""]
