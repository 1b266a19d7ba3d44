# SPDX-License-Identifier: BSD-3-Clause
"""Examples of routines for kernels: a call each, made of what its parameters are called.

``device/routine.py`` puts them into the documentation of its routines, and a test runs them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

#: What a parameter is given. All is there in a kernel but ``right``, the neighbour's number.
VALUES = {
    "dest": "dest", "source": "source", "array": "dest", "fetch": "fetched", "pe": "right",
    "nelems": "2", "nreduce": "2", "team": "shmem.TEAM_WORLD", "dest_team": "shmem.TEAM_NODE",
    "root": "0", "dst": "1", "sst": "1", "bsize": "1", "nblocks": "2", "value": "7", "cond": "0",
    "sig_addr": "sig", "signal": "1", "sig_op": "shmem.SIGNAL_SET", "cmp": "shmem.CMP_GE",
    "cmp_value": "0", "cmp_values": "source", "ivar": "counter", "ivars": "flags",
    "indices": "found", "status": "None", "lock": "counter", "handler": "handler", "a": "1", "b": "2",
    "c": "3", "d": "4", "label": "'step'", "pes": "members", "npes": "1", "code": "2",
}  # fmt: skip


def example_of(body: Callable[..., Any]) -> str:
    """A call of it by a kernel, without what has a default."""
    name = body.__name__
    if name in ("set_lock", "clear_lock"):
        return "shmem.set_lock(counter); shmem.clear_lock(counter)"
    given = VALUES | ({"dest": "counter", "source": "counter"} if "atomic" in name else {})
    wanted = [
        given[parameter.name]
        for parameter in inspect.signature(body).parameters.values()
        if parameter.default is parameter.empty
    ]
    return f"shmem.{name}({', '.join(wanted)})"


def documented(body: Callable[..., Any], words: dict[str, str]) -> str:
    """What it says on itself, with ``words`` filled in and an example."""
    text = body.__doc__ or ""
    if words:
        text = text.format(**words)
    if "Example: " in text:
        return text
    last = re.search(r"\n *Scope: .*\s*\Z", text)
    head, tail = (text[: last.start()], text[last.start() :]) if last else (text, "")
    lines = head.rstrip().split("\n")
    below = min(
        (line for line in lines[1:] if line.strip()), key=_indentation, default=" " * 4 + "x"
    )
    indented = " " * _indentation(below)
    return "\n".join([*lines, "", f"{indented}Example: ``{example_of(body)}``", tail or indented])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
