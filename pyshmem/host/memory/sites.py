# SPDX-License-Identifier: BSD-3-Clause
"""Who holds what of the heaps, by the program's lines, in checking mode."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from ..._core.library import HEAPS, lib, size_text
from ..job import tracebacks

#: A line of the program: file and number.
Line = tuple[str, int]
#: What the library has allocated for itself.
OWN: Line = ("(pyshmem)", 0)

#: Through these a program's own calls come; any other file of the package calls for itself.
_THROUGH = ("host/memory/", "host/observe/", "check/", "interop/", "_torch/tensors.py")
#: Packages whose routines programs call by these names; what stands around a routine has other names.
_CALLED = ("fused", "triton", "device", "gluon", "streams")
#: Lines of which ``finalize`` warns, the largest first.
_MOST = 10


class HeapSite(NamedTuple):
    """What one line of the program holds of a heap of this PE."""

    file: str  # "(pyshmem)": the library, for itself
    line: int
    nbytes: int  # without rounding
    allocations: int

    def __str__(self) -> str:
        blocks = "1 block" if self.allocations == 1 else f"{self.allocations} blocks"
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{size_text(self.nbytes)} in {blocks}, {where}"


class Held(NamedTuple):
    """A block that is allocated."""

    address: int
    nbytes: int
    line: Line


def frame_here() -> FrameType | None:
    """The program's frame that is allocating; None where the library does so for itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(tracebacks.PACKAGE):
        if not frame.f_code.co_filename.removeprefix(tracebacks.PACKAGE).startswith(_THROUGH):
            return None
        frame = frame.f_back
    return tracebacks.program_frame(frame)


def _module_of(file: str) -> Any:
    """The module by whose name programs call what is in a file of the package."""
    part = file.partition("/")[0]
    return sys.modules.get(f"pyshmem.{part}" if part in _CALLED else "pyshmem")


def routine_here(routine: str) -> tuple[str, bool]:
    """What the program has called, and whether that allocates for itself.

    ``routine``: that the array is made by, which is what the program called where it made it itself.
    """
    frame, entered, own = sys._getframe(1), "", False
    program = tracebacks.program_frame(frame)
    while frame is not None and frame is not program:
        code = frame.f_code
        if code.co_filename.startswith(tracebacks.PACKAGE):
            file = code.co_filename.removeprefix(tracebacks.PACKAGE)
            own = own or not file.startswith(_THROUGH)
            if own and code.co_name in getattr(_module_of(file), "__all__", ()):
                entered = code.co_name
        frame = frame.f_back  # type: ignore[assignment, unused-ignore]
    return entered if own and entered else routine, own


def line_here() -> Line:
    """The program's line that is allocating; ``OWN`` where the library does so for itself."""
    found = frame_here()
    return OWN if found is None else (found.f_code.co_filename, found.f_lineno)


def by_line(held: Iterable[Held], heap: int) -> list[HeapSite]:
    """What lines of the program hold of a heap, the most first."""
    sums: dict[Line, tuple[int, int]] = {}
    for address, nbytes, line in held:
        if lib.heap_of(address, nbytes) == heap:
            before, count = sums.get(line, (0, 0))
            sums[line] = before + nbytes, count + 1
    found = [HeapSite(*line, *total) for line, total in sums.items()]
    return sorted(found, key=lambda site: (-site.nbytes, site.file, site.line))


def show(held: list[Held]) -> None:
    """Let other processes of the user see it: ``info --heap``."""
    lines = [
        f"{name}\t{site.nbytes}\t{site.allocations}\t{site.line}\t{site.file}\n"
        for name, number in HEAPS.items()
        for site in by_line(held, number)
    ]
    lib.ishmemx_heaps_show("".join(lines).encode(errors="replace"))


def shown(text: str) -> Iterator[tuple[str, HeapSite]]:
    """The heaps and lines of what ``show`` wrote; the last may have been cut off."""
    for one in text.splitlines(keepends=True):
        if one.endswith("\n"):
            name, nbytes, count, line, file = one[:-1].split("\t", 4)
            yield name, HeapSite(file, int(line), int(nbytes), int(count))


def warn_of_left(held: list[Held]) -> None:
    """A warning for each line of the program whose memory is still allocated at ``finalize``."""
    for name, number in HEAPS.items():
        left = [site for site in by_line(held, number) if site.line]
        for site in left[:_MOST]:
            arrays = "1 array" if site.allocations == 1 else f"{site.allocations} arrays"
            text = f"{arrays} of {size_text(site.nbytes)} on the {name} heap still allocated at finalize"
            warnings.warn_explicit(text, RuntimeWarning, site.file, site.line)
        if rest := left[_MOST:]:
            nbytes = sum(site.nbytes for site in rest)
            text = f"{size_text(nbytes)} more on the {name} heap, of {len(rest)} other lines"
            warnings.warn_explicit(text, RuntimeWarning, rest[0].file, rest[0].line)
