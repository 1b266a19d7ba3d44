# SPDX-License-Identifier: BSD-3-Clause
"""What a timeline says in numbers: where time goes, what overlaps, who comes last.

A slice is communication when it is a host call, a proxy's or a copy engine's, or a stage whose
label says so; other stages are computation. Words as in HTA: overlap is the part of the time with
communication in which there is computation too, idle is the time with neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

Event = dict[str, Any]
Interval = tuple[float, float]

#: Labels of stages that are communication, unless the command is told others.
COMMUNICATION = (
    r"(?i)\b(wait|put|get|send|recv|receive|signal|exchange|comm|gather|scatter|reduce|fetch|"
    r"barrier|sync|copy|quiet|push|pull)"
)
#: Host calls in which all PEs meet.
SYNCS = re.compile(
    r"(barrier_all|sync_all|broadcast|f?collect|alltoalls?|\w+_reduce(_scatter)?|sum_(in|ex)scan|Team\.sync)$"
)


class Row(NamedTuple):
    """All slices of one name on one PE. Times are in microseconds."""

    pe: int
    kind: str
    name: str
    calls: int
    total: float
    longest: float


class Share(NamedTuple):
    """How a PE's time divides. Times are in microseconds."""

    pe: int
    span: float
    compute: float
    communication: float
    both: float
    idle: float

    @property
    def overlap(self) -> float | None:
        """Of the communication, in per cent; None where there is none."""
        return 100 * self.both / self.communication if self.communication else None


class Late(NamedTuple):
    """How often a PE came last to where all meet, and how long the others had waited by then, mean."""

    pe: int
    last: int
    syncs: int
    kept_waiting: float


def slices_of(document: dict[str, Any]) -> list[Event]:
    """The events that took time."""
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def pes_of(document: dict[str, Any]) -> list[int]:
    """The PEs that are in the file."""
    return sorted({event["pid"] for event in document["traceEvents"]})


def rows(document: dict[str, Any]) -> list[Row]:
    """By PE, the longest first."""
    sums: dict[tuple[int, str, str], list[float]] = {}
    for event in slices_of(document):
        sums.setdefault((event["pid"], event["cat"], event["name"]), []).append(event["dur"])
    found = [Row(*key, len(times), sum(times), max(times)) for key, times in sums.items()]
    return sorted(found, key=lambda row: (row.pe, -row.total))


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points of time, in intervals that do not meet."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """Of intervals that do not meet."""
    return sum(end - begin for begin, end in intervals)


def common(some: list[Interval], others: list[Interval]) -> list[Interval]:
    """What is in both; each of them a ``union``."""
    found, a, b = [], 0, 0
    while a < len(some) and b < len(others):
        begin, end = max(some[a][0], others[b][0]), min(some[a][1], others[b][1])
        if begin < end:
            found.append((begin, end))
        if some[a][1] < others[b][1]:
            a += 1
        else:
            b += 1
    return found


def is_communication(event: Event, labels: str = COMMUNICATION) -> bool:
    """As the module's text says; ``labels`` is a regular expression."""
    return event["cat"] != "stage" or re.search(labels, event["name"]) is not None


def shares(document: dict[str, Any], labels: str = COMMUNICATION) -> list[Share]:
    """One a PE."""
    by_pe: dict[int, tuple[list[Interval], list[Interval]]] = {}
    for event in slices_of(document):
        pair = by_pe.setdefault(event["pid"], ([], []))
        interval = event["ts"], event["ts"] + event["dur"]
        pair[is_communication(event, labels)].append(interval)
    found = []
    for pe, pair in sorted(by_pe.items()):
        compute, communication = map(union, pair)
        busy = union([*compute, *communication])
        span = busy[-1][1] - busy[0][0]
        both = length(common(compute, communication))
        idle = span - length(busy)
        found.append(Share(pe, span, length(compute), length(communication), both, idle))
    return found


def late(document: dict[str, Any]) -> list[Late]:
    """Who came last where all PEs meet: to the k-th call of a name, where all made as many."""
    pes = pes_of(document)
    calls: dict[str, dict[int, list[float]]] = {}
    for event in sorted(slices_of(document), key=lambda e: e["ts"]):
        if event["cat"] == "host" and SYNCS.match(event["name"]):
            calls.setdefault(event["name"], {}).setdefault(event["pid"], []).append(event["ts"])
    last, waited, syncs = dict.fromkeys(pes, 0), dict.fromkeys(pes, 0.0), 0
    for of_pe in calls.values():
        if len(pes) < 2 or set(of_pe) != set(pes) or len(set(map(len, of_pe.values()))) != 1:
            continue
        for begins in zip(*(of_pe[pe] for pe in pes), strict=True):
            syncs += 1
            latest = max(begins)
            pe = pes[begins.index(latest)]
            last[pe] += 1
            waited[pe] += (latest * len(pes) - sum(begins)) / (len(pes) - 1)
    return [Late(pe, last[pe], syncs, waited[pe] / last[pe] if last[pe] else 0.0) for pe in pes]
