# SPDX-License-Identifier: BSD-3-Clause
"""Timelines as files: Chrome's trace events, which Perfetto opens. Nothing here knows a running job.

A process is a PE, a thread of it a track: what runs at a time in one track is nested. Times in the
file are microseconds since the timeline began.
"""

from __future__ import annotations

import fcntl
import json
import math
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

#: Kinds of slices, the category of their events, in the order in which a PE's tracks stand.
KINDS = ("host", "proxy", "copy", "stage")
Event = dict[str, Any]


class Slice(NamedTuple):
    """Something that took time, on the host's clock, in ns."""

    kind: str  # of KINDS
    track: tuple[int, str]  # where it stands among the tracks of its kind, and the track's name
    name: str
    begin_ns: int
    end_ns: int
    args: dict[str, Any]


class Instant(NamedTuple):
    """Something that happened: a fault."""

    name: str
    at_ns: int
    args: dict[str, Any]


def nested(slices: Iterable[Slice]) -> list[tuple[Slice, int]]:
    """The slices of one track in the order of their begins, each with the number of a track of its own.

    Slices of one number contain each other or do not meet.
    """
    open_ends: list[list[int]] = []  # of each track: the ends of what is open, inmost last
    placed = []
    for one in sorted(slices, key=lambda s: (s.begin_ns, -s.end_ns)):
        number = next(
            (k for k, ends in enumerate(open_ends) if _has_room(ends, one)), len(open_ends)
        )
        if number == len(open_ends):
            open_ends.append([])
        open_ends[number].append(one.end_ns)
        placed.append((one, number))
    return placed


def _has_room(ends: list[int], one: Slice) -> bool:
    """Does ``one`` nest in what is open in a track, less what has ended before it?"""
    while ends and ends[-1] <= one.begin_ns:
        ends.pop()
    return not ends or one.end_ns <= ends[-1]


def events_of(
    pe: int, slices: Iterable[Slice], instants: Iterable[Instant], base_ns: int
) -> list[Event]:
    """A PE's part of the file."""
    tracks: dict[Hashable, list[Slice]] = {}
    for one in slices:
        tracks.setdefault((KINDS.index(one.kind), one.track), []).append(one)
    events: list[Event] = [
        _metadata(pe, 0, "process_name", name=f"PE {pe}"),
        _metadata(pe, 0, "process_sort_index", sort_index=pe),
    ]
    tid = 0
    for key in sorted(tracks):  # type: ignore[type-var]
        rows: dict[int, list[Event]] = {}
        for one, row in nested(tracks[key]):
            rows.setdefault(row, []).append(_complete(pe, one, base_ns))
        name = tracks[key][0].track[1]
        for row in sorted(rows):
            tid += 1
            shown = name if row == 0 else f"{name} ({row + 1})"
            events.append(_metadata(pe, tid, "thread_name", name=shown))
            events.append(_metadata(pe, tid, "thread_sort_index", sort_index=tid))
            events += ({**event, "tid": tid} for event in rows[row])
    events += (
        {"ph": "i", "s": "p", "cat": "fault", "name": one.name, "pid": pe, "tid": 1,
         "ts": (one.at_ns - base_ns) / 1000, "args": one.args}
        for one in instants
    )  # fmt: skip
    return events


def _metadata(pe: int, tid: int, name: str, /, **args: Any) -> Event:
    return {"ph": "M", "name": name, "pid": pe, "tid": tid, "args": args}


def _complete(pe: int, one: Slice, base_ns: int) -> Event:
    return {
        "ph": "X",
        "name": one.name,
        "cat": one.kind,
        "pid": pe,
        "ts": (one.begin_ns - base_ns) / 1000,
        "dur": (one.end_ns - one.begin_ns) / 1000,
        "args": one.args,
    }


# ---- files -----------------------------------------------------------------------------------------


def begin(path: Path, base_ns: int, about: dict[str, Any]) -> None:
    """A file without events; it replaces one that is there."""
    about = {"base_ns": base_ns, "pes": {}, **about}
    document = {"traceEvents": [], "displayTimeUnit": "ns", "otherData": about}
    path.write_text(json.dumps(document), encoding="utf-8")


def base_of(path: Path) -> int:
    """When the timeline began, in ns of the host's clock."""
    return int(json.loads(path.read_text(encoding="utf-8"))["otherData"]["base_ns"])


def part_of(path: Path, pe: int) -> Path:
    """Where a PE writes its part for whoever puts them together."""
    return path.with_name(f"{path.name}.{pe}.part")


def add(path: Path, parts: Iterable[tuple[int, list[Event], dict[str, Any]]]) -> None:
    """Put PEs' events, and what they say of them, into the file. Others may be adding theirs."""
    with path.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        document = json.load(file)
        for pe, events, about in parts:
            document["traceEvents"] += events
            document["otherData"]["pes"][str(pe)] = about
        file.seek(0)
        file.truncate()
        json.dump(document, file, separators=(",", ":"))


# ---- the format --------------------------------------------------------------------------------------

_TYPES = {"ph": str, "name": str, "pid": int, "tid": int}
_ROUNDING_US = 1e-3  # of times that are sums of two of the file's


def complaints(document: Any) -> list[str]:
    """What is wrong with a timeline as Chrome's trace events; empty when nothing is."""
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["it is no object with a list traceEvents"]
    events = document["traceEvents"]
    found = [text for number, event in enumerate(events) if (text := _complaint(number, event))]
    return found or _track_complaints(events)


def _complaint(number: int, event: Any) -> str:
    if not isinstance(event, dict):
        return f"event {number} is no object"
    for field, kind in _TYPES.items():
        if not isinstance(event.get(field), kind) or isinstance(event[field], bool):
            return (
                f"event {number} has the {field} {event.get(field)!r}, which is no {kind.__name__}"
            )
    if event["ph"] not in ("X", "M", "i"):
        return f"event {number} is of the unknown kind {event['ph']!r}"
    if not isinstance(event.get("args", {}), dict):
        return f"event {number} has args that are no object"
    for field in {"X": ("ts", "dur"), "i": ("ts",), "M": ()}[event["ph"]]:
        value = event.get(field)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            return f"event {number} has the {field} {value!r}, which is no number"
        if value < 0:
            return f"event {number} has the {field} {value}, which is less than 0"
    return ""


def _track_complaints(events: list[Event]) -> list[str]:
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["ph"] == "M"}
    tracks: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    found = [f"track {tid} of PE {pe} has no name" for pe, tid in tracks.keys() - named]
    for (pe, tid), track in tracks.items():
        ends: list[float] = []
        for event in sorted(track, key=lambda e: (e["ts"], -e["dur"])):
            end = event["ts"] + event["dur"]
            while ends and ends[-1] <= event["ts"] + _ROUNDING_US:
                ends.pop()
            if ends and end > ends[-1] + _ROUNDING_US:
                found.append(
                    f"{event['name']} at {event['ts']} us in track {tid} of PE {pe} is not nested"
                )
            ends.append(end)
    return found
