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


class Records:
    """What the PEs of a job record; without files where nothing is checked."""

    def __init__(self, files: Sequence[IO[bytes]]) -> None:
        self._files = files

    @property
    def descriptors(self) -> tuple[int, ...]:
        """A file for each PE, to inherit."""
        return tuple(file.fileno() for file in self._files)

    def found(self, failed: bool) -> tuple[list[str], list[str]]:
        """After the job: its reports, and of one that failed who waited for whom, as texts.

        Writes PYSHMEM_CHECK_JSON, too.
        """
        if not self._files:
            return [], []
        from . import report

        found = report.found_in(self._files, failed)
        if path := library.setting("CHECK_JSON")[0]:
            Path(path).write_text(report.as_json(found), encoding="utf-8")
        return [one.text() for one in found.reports], found.waits


def wanted(variables: Mapping[str, str]) -> bool:
    """Do the settings, or those for the PEs of this job, ask for it?"""
    text = variables.get("PYSHMEM_CHECK", "")
    if not text:
        return library.checks_order()
    return bool(library.number_in("PYSHMEM_CHECK", text) & library.lib.ISHMEMX_CHECK_ORDER)


@contextmanager
def records(n_pes: int, *, ordered: bool) -> Iterator[Records]:
    """Files without names, which nobody needs to remove."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile(prefix="pyshmem-check-"))
            for _ in range(n_pes if ordered else 0)
        ]
        yield Records(files)
