# SPDX-License-Identifier: BSD-3-Clause
"""The line that a terminal shows while a job says nothing: how long it runs, where its PEs stand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence

from ..spec import JobSpec
from .streams import write_all

_QUIET = 5.0  # seconds without output after which it shows
_EVERY = 1.0
_ERASE = b"\r\x1b[K"


class Progress:
    """One line on the terminal of stderr, gone before anything else is written there.

    It shows only where all output of the PEs passes the launcher or goes elsewhere: a PE that writes
    to the terminal itself would write over it.
    """

    def __init__(self, target: int = 2) -> None:
        self._target = target
        self._active = False
        self._shown = False
        self._began = self._next = 0.0

    def begin(self, spec: JobSpec, now: float) -> None:
        """The job has begun."""
        own = bool(spec.tag or spec.output_dir) or not os.isatty(1)
        self._active = own and os.isatty(self._target) and not spec.debugged
        self._began, self._next = now, now + _QUIET

    def show(self, now: float, standing: Callable[[], Sequence[str]]) -> None:
        """Show the line if it is time for it."""
        if not self._active or now < self._next:
            return
        self._shown, self._next = True, now + _EVERY
        text = f"pyshmem: {now - self._began:.0f} s; {'; '.join(standing())}"
        columns = shutil.get_terminal_size().columns
        write_all(self._target, _ERASE + text[: columns - 1].encode(errors="replace"))

    def erase(self, now: float) -> None:
        """Something is going to be written, or the job ends."""
        if self._shown:
            write_all(self._target, _ERASE)
            self._shown = False
        self._next = now + _QUIET
