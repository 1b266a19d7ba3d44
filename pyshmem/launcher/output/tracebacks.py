# SPDX-License-Identifier: BSD-3-Clause
"""Tracebacks on stderr: a PE's in one piece, and once where several PEs write the same.

Python writes one in many small pieces, so those of PEs that fail together would pass as a mixture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import report

#: Lines that Python writes above a traceback that ends no program.
_ABOVE = (
    rb"^(?:Exception in thread .+:|Exception ignored .+|Process \S*Process-[\d:]+:|"
    rb"Task exception was never retrieved|--- Logging error ---)\r?$"
)
_OF_RANK = rb"(?:\[rank\d+\]: ?)?"  # torch.distributed has it before each line
_BEGINS = re.compile(
    rb"^"
    + _OF_RANK
    + rb"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):|^Fatal Python error: "
    rb"|^  File \"[^\"]+\", line \d+\r?$|" + _ABOVE,  # of a syntax error, which has no header
    re.M,
)
_ONLY_ABOVE = re.compile(_ABOVE + rb"\n?\Z", re.M)
_HEAD = re.compile(rb"^" + _OF_RANK + rb"Traceback \(most recent call last\):\r?\n", re.M)
#: The line at which the frames end: the exception's.
_LINE_OF_EXCEPTION = re.compile(rb"^" + _OF_RANK + rb"[^\s\[]", re.M)

_PAUSE = 0.1  # seconds without more of it after which a traceback that may be whole is passed on
_UNFINISHED = 2.0  # the same for one that lacks its exception: the PE reads its sources meanwhile
_LONGEST_HOLD = 0.5  # seconds for one that is followed by more and more
_PAUSE_OF_ALL = 0.3  # seconds without another PE's after which it is told who wrote the same
_MOST = 1 << 16  # bytes

_FORGET_AFTER = 10.0  # seconds after which one is shown again, whoever wrote it before


class Gathered:
    """The stderr of one PE: what a traceback begins waits until it is whole."""

    def __init__(self) -> None:
        self._block = b""
        self._since = self._latest = 0.0

    def feed(self, data: bytes, now: float) -> bytes:
        """What of ``data``, which has whole lines, may pass now."""
        if self._block:
            self._block += data
            self._latest = now
            return self.take() if len(self._block) > _MOST else b""
        begin = _BEGINS.search(data)
        if begin is None:
            return data
        self._block, self._since, self._latest = data[begin.start() :], now, now
        return data[: begin.start()]

    def give(self, seconds: float) -> None:
        """Leave out a time in which the launcher stood still."""
        self._since += seconds
        self._latest += seconds

    def due(self, now: float) -> bytes:
        """The traceback, if it need not wait any longer."""
        if not self._block:
            return b""
        if self._lacks_exception():
            return self.take() if now - self._latest >= _UNFINISHED else b""
        waited = now - self._latest >= _PAUSE or now - self._since >= _LONGEST_HOLD
        return self.take() if waited else b""

    def take(self) -> bytes:
        """All that waits."""
        block, self._block = self._block, b""
        return block

    def __bool__(self) -> bool:
        return bool(self._block)

    def _lacks_exception(self) -> bool:
        heads = list(_HEAD.finditer(self._block))
        if not heads:
            return bool(_ONLY_ABOVE.search(self._block))
        return not _LINE_OF_EXCEPTION.search(self._block, heads[-1].end())


@dataclass
class _Shown:
    """A traceback that was passed on."""

    by: int
    at: float
    alike: list[int] = field(
        default_factory=list
    )  # PEs whose same one was not, and not told of yet


class Alike:
    """The tracebacks of a job: the same of another PE is told of in a line."""

    def __init__(self) -> None:
        self._shown: dict[bytes, _Shown] = {}
        self._latest = 0.0

    def is_shown(self, pe: int, block: bytes, now: float) -> bool:
        """Whether another PE's that is the same but for numbers of PEs was passed on just now."""
        key = re.sub(
            rb"\b(PE|PEs|pid|rank) \d+|0x[0-9a-f]+|^\[rank\d+\]", rb"\1", block, flags=re.M
        )
        shown = self._shown.get(key)
        if shown is None or now - shown.at > _FORGET_AFTER or shown.by == pe:
            alike = shown.alike if shown is not None else []
            self._shown[key] = _Shown(pe, now, alike)
            return False
        shown.alike.append(pe)
        self._latest = now
        return True

    @property
    def waits(self) -> bool:
        """Whether there is something to tell."""
        return any(shown.alike for shown in self._shown.values())

    def told(self, now: float = float("inf")) -> list[str]:
        """What there is to tell, a line a traceback, once no more have come for a moment."""
        lines: list[str] = []
        if now - self._latest < _PAUSE_OF_ALL:
            return lines
        for shown in self._shown.values():
            if shown.alike:
                others = sorted(set(shown.alike) - {shown.by})
                verb = "writes" if len(others) == 1 else "write"
                lines.append(f"{report.pes(others)} {verb} the same traceback as PE {shown.by}")
                shown.alike = []
        return lines
