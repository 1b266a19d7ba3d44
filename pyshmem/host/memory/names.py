# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of one shape that PEs make in another order, told by what the program calls them.

Such arrays are swapped between PEs, and nothing else differs. Each allocation carries a hash of the name
that the program's line gives the array. Who calls it otherwise is not wrong by that, as where one PE
makes ``source`` and the other ``dest``; PEs that have made the same names in another order are.
"""

from __future__ import annotations

import linecache
import re
import warnings
from itertools import islice
from types import FrameType

from ..._core import library
from ..._core.library import ffi, lib
from ..job import runtime
from . import sites

#: What stands before the call: ``name =``, ``fields[name] =``, ``name=`` of a call, ``name:`` of a dict.
_GIVEN = re.compile(r"""([\w.]+)(?:\[([\w.]+)\])?\s*((?<![=!<>])=|:)\s*$""")
_RETURNED = re.compile(r"\breturn\s*$")
#: Callers that are asked for a name where the function returns the array.
_MOST_CALLERS = 4

_to_compare: int | None = (
    None  # allocations of this job that are compared still, without checking mode
)


class _Unmatched:
    """What PE 0 has made where the other PE made something else, and not yet itself; the reverse."""

    def __init__(self) -> None:
        self.mine: dict[int, sites.Line] = {}
        self.other: set[int] = set()
        self.names: list[str] = []

    def differs(self, mine: int, other: int, name: str, line: sites.Line) -> bool:
        """Whether by now both have made the same, in another order."""
        self.names.append(name)
        if mine in self.other:
            self.other.remove(mine)
        else:
            self.mine[mine] = line
        if self.mine.pop(other, None) is None:
            self.other.add(other)
        return not self.mine and not self.other


_unmatched: dict[int, _Unmatched] = {}  # by the other PE


def _job_ended() -> None:
    global _to_compare
    _to_compare = None
    _unmatched.clear()


runtime.on_finalize(_job_ended)


def compared() -> bool:
    """Whether this allocation is among those whose names are compared; all PEs count alike."""
    global _to_compare
    if _to_compare is None:
        _to_compare = library.setting_number("CHECK_FIRST") if runtime.n_pes() > 1 else 0
    if _to_compare:
        _to_compare -= 1
        return True
    return runtime.n_pes() > 1 and runtime.current().checks


def name_here() -> tuple[str, sites.Line]:
    """What the program's line calls the array that is being made, "" if nothing, and the line."""
    frame = sites.frame_here()
    if frame is None:
        return "", sites.OWN
    line = frame.f_code.co_filename, frame.f_lineno
    for _ in range(_MOST_CALLERS):
        if frame is None:
            break
        before = _before_the_call(frame)
        if found := _GIVEN.search(before):
            return _name(frame, *found.groups()), line
        if not _RETURNED.search(before):
            break
        frame = frame.f_back
    return "", line


def _before_the_call(frame: FrameType) -> str:
    """The text of the frame's line up to the call that it is in."""
    places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    number, _, column, _ = next(places, (None, None, None, None))
    if number is None or column is None:  # python -X no_debug_ranges
        return ""
    text = linecache.getline(frame.f_code.co_filename, number)
    return text.encode()[:column].decode(errors="replace")  # columns are bytes


def _name(frame: FrameType, name: str, index: str | None, sign: str) -> str:
    """With the value of an index: ``fields[name]`` are as many arrays as there are names."""
    key = name if sign == ":" else index  # {name: zeros(4) for name in ...}
    value = frame.f_locals.get(key) if key else None
    if isinstance(value, (str, int)):
        key = repr(value)
    if sign == ":" and key:
        return key
    return name if key is None else f"{name}[{key}]"


def compare(name: str, line: sites.Line) -> None:
    """Behind an allocation whose names are compared: PE 0 warns of arrays that are swapped."""
    if lib.ishmemx_my_pe() or not name:
        return
    hashes = ffi.new("uint64_t[]", runtime.n_pes())
    if not lib.ishmemx_malloc_names(hashes):
        return
    told: dict[tuple[str, ...], list[int]] = {}
    for pe, other in enumerate(hashes):
        if other and other != hashes[0]:
            found = _unmatched.setdefault(pe, _Unmatched())
            if found.differs(hashes[0], other, name, line):
                told.setdefault(tuple(_unmatched.pop(pe).names), []).append(pe)
    for names, pes in told.items():
        who = f"PE {pes[0]}" if len(pes) == 1 else f"PEs {', '.join(map(str, pes[:8]))}"
        text = (
            f"PE 0 makes {', '.join(names)} in this order, {who} in another, all of one shape "
            f"and dtype: what is {names[0]} on PE 0 is not {names[0]} there; make arrays in the "
            "same order on all PEs"
        )
        warnings.warn_explicit(text, RuntimeWarning, *line)
