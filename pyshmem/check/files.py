# SPDX-License-Identifier: BSD-3-Clause
"""``PYSHMEM_CHECK=order``: the files in which the PEs record, and what is found in them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from .._core import library

#: The exit status of a job in which something was found.
FOUND = 3
#: The file of turns: words of all, words of a PE, collectives beside its program that it can be in at
#: once, and words of each.
HEADER, OWN, MEETINGS, MEETING = 16, 8, 8, 3
ROW = OWN + MEETINGS * MEETING
_DELIVER = library.lib.ISHMEMX_CHECK_DELIVER


class Records:
    """What the PEs of a job record; without files where nothing is checked."""

    def __init__(
        self,
        files: Sequence[IO[bytes]],
        turns: Sequence[IO[bytes]] = (),
        strict: bool = False,
    ) -> None:
        self._files, self._turns, self._strict = files, turns, strict

    @property
    def descriptors(self) -> tuple[int, ...]:
        """A file for each PE, to inherit."""
        return tuple(file.fileno() for file in self._files)

    @property
    def turns(self) -> tuple[int, ...]:
        """A file in which the PEs say whose turn it is, to inherit: with ``deliver``."""
        return tuple(file.fileno() for file in self._turns)

    def found(self, failed: bool) -> tuple[list[str], list[str]]:
        """After the job: its reports, and of one that failed who waited for whom, as texts.

        Writes PYSHMEM_CHECK_JSON, too.
        """
        if not self._files:
            return [], []
        from . import report

        found = report.found_in(self._files, failed, self._strict)
        if path := library.setting("CHECK_JSON")[0]:
            Path(path).write_text(report.as_json(found), encoding="utf-8")
        return [one.text() for one in found.reports], found.waits


def wanted(variables: Mapping[str, str]) -> bool:
    """Do the settings, or those for the PEs of this job, ask for it?"""
    return bool(_checks(variables) & library.RECORDED)


def _checks(variables: Mapping[str, str]) -> int:
    """What is checked, as the bits of ISHMEMX_CHECK."""
    text = variables.get("PYSHMEM_CHECK", "")
    return library.number_in("PYSHMEM_CHECK", text) if text else library.setting_number("CHECK")


@contextmanager
def records(n_pes: int, variables: Mapping[str, str]) -> Iterator[Records]:
    """Files without names, which nobody needs to remove; ``variables``: settings of this job's PEs."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile(prefix="pyshmem-check-"))
            for _ in range(n_pes if wanted(variables) else 0)
        ]
        turns = []
        if files and _checks(variables) & _DELIVER:
            turns = [stack.enter_context(tempfile.TemporaryFile(prefix="pyshmem-turns-"))]
            turns[0].truncate(8 * (HEADER + ROW * n_pes))
        strict = bool(_checks(variables) & library.lib.ISHMEMX_CHECK_STRICT)
        yield Records(files, turns, strict)
