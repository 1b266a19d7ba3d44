# SPDX-License-Identifier: BSD-3-Clause
"""``--shard I/N``: a part of a suite of kernels, the same on all PEs, for jobs that run side by side.

Most of the time on GPUs goes to compiling kernels, one for each routine, scope and type. So tests of a
file that differ in other things than these stay together, and such groups are dealt out.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

#: Parameters of tests that choose the kernel.
CHOOSING = ("cmp", "dtype", "kernel", "mix", "name", "nbi", "op", "routine", "scope", "verb")


def group_of(path: str, function: str, parameters: Mapping[str, object]) -> str:
    """What stays together: the tests of a file with one kernel, or a function without a choice."""
    chosen = [
        f"{name}={getattr(parameters[name], '__name__', parameters[name])}"
        for name in CHOOSING
        if isinstance(parameters.get(name), str | int) or hasattr(parameters.get(name), "__name__")
    ]
    return "::".join([path, *(chosen or [function])])


def deal(groups: Sequence[str], n: int) -> list[int]:
    """A number below ``n`` for each; equal groups have equal numbers, and each number as many groups."""
    order = sorted(set(groups), key=lambda group: (zlib.crc32(group.encode()), group))
    number = {group: place % n for place, group in enumerate(order)}
    return [number[group] for group in groups]


def parse(text: str) -> tuple[int, int]:
    """``I/N`` as two numbers, I from 0. Raises: ValueError."""
    i, n = (int(number) for number in text.split("/"))
    if not 0 <= i < n:
        raise ValueError(f"--shard {text}: not I/N with I from 0 to N - 1")
    return i, n
