# SPDX-License-Identifier: BSD-3-Clause
"""What PEs print: whole lines, as they share a terminal, a pipe or a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable


def keep_lines_whole() -> None:
    """Have what this PE prints go out a line at a time, as it is printed.

    The streams stay the objects that they are: handlers of ``logging`` have them already.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)
            if "write" not in vars(stream):  # which another init of this process has put there
                stream.write = _by_lines(stream.write)  # type: ignore[method-assign]


def _by_lines(write: Callable[[str], int]) -> Callable[[str], int]:
    """``write`` of a stream that buffers lines, but for what follows a text's last line end.

    Where a text has a line end, Python writes out all of it. ``print`` writes the end of a text's
    last line by itself, so another PE's line could come between.
    """

    def write_by_lines(text: str, /) -> int:
        end = text.rfind("\n") + 1 if isinstance(text, str) else 0
        if 0 < end < len(text):
            return write(text[:end]) + write(text[end:])
        return write(text)

    return write_by_lines
