# SPDX-License-Identifier: BSD-3-Clause
"""What the checker tells: both accesses, why nothing orders them, and what would."""

from __future__ import annotations

import heapq
import json
import linecache
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from . import hang
from .engine import Engine, Race
from .log import ROOM, records
from .shadow import Access
from .sites import Site, Sites, elements, shown


class Side(NamedTuple):
    """One of two accesses, as it is told."""

    pe: int
    thread: str  # of a kernel, with its name; empty: the host
    routine: str
    mode: str
    site: Site
    elements: str

    def text(self) -> str:
        """A line of the report."""
        who = f"PE {self.pe}" + (f", {self.thread}" if self.thread else "")
        does = (
            f"{self.mode}s" if self.routine in ("read", "store") else f"{self.routine} {self.mode}s"
        )
        return f"{who}: {does} {self.elements} at {shown(self.site)}"


class Report(NamedTuple):
    """A pair of accesses."""

    kind: str
    pe: int  # whose memory it is
    heap: str  # host, device, registered, or own: an array of the program's
    first: Side
    second: Side
    why: str
    remedy: str

    def text(self) -> str:
        """The report as it is printed."""
        where = _ARRAYS.get(self.heap, f"the {self.heap} heap")
        lines = [
            f"{self.kind} in {where} of PE {self.pe}",
            f"  {self.first.text()}",
            *_source(self.first.site),
            f"  {self.second.text()}",
            *_source(self.second.site),
            f"  {self.why}",
            f"  {self.remedy}",
        ]
        return "\n".join(lines)


#: What no heap has.
_ARRAYS = {"registered": "a registered array", "own": "an ordinary array"}


class Found(NamedTuple):
    """What the records of a job say."""

    reports: list[Report]
    waits: list[str]  # who stood where when they ended, and waited for whom


def found_in(files: Sequence[IO[bytes]], failed: bool, strict: bool = False) -> Found:
    """What is wrong in the records of the PEs, which come in the order of their time.

    ``failed``: the job did not end by itself, so that somebody may still have waited. ``strict``: with
    advice on what is allowed.
    """
    engine, sites = _applied(files, Engine())
    if engine.later:  # who waited may have been told by what has come later in this run
        engine, sites = _applied(files, Engine(engine))
    found = [
        _report(engine, sites, race)
        for race in engine.races.values()
        if strict or race.rule != "advice"
    ]
    waits = hang.told(engine, sites, len(files)) if failed else []
    return Found([one for one in found if one is not None], waits)


def _applied(files: Sequence[IO[bytes]], engine: Engine) -> tuple[Engine, Sites]:
    """An engine behind all records."""
    sites = Sites()
    of_all = (_of_pe(file, pe, sites) for pe, file in enumerate(files))
    for pe, record in heapq.merge(*of_all, key=lambda one: one[1][0]):
        engine.apply(pe, record, sites.number(pe, record[2]))
    return engine, sites


def _of_pe(file: IO[bytes], pe: int, sites: Sites) -> Iterator[tuple[int, Any]]:
    """The records of a PE; lines that it names are noted on the way."""
    file.seek(0)
    for record in records(file):
        if len(record) == 4:
            sites.add(pe, *record)
        else:
            yield pe, record


def as_json(found: Found) -> str:
    """For editors and CI."""

    def side(one: Side) -> dict[str, Any]:
        return one._asdict() | {"site": one.site._asdict()}

    rows = [
        one._asdict() | {"first": side(one.first), "second": side(one.second)}
        for one in found.reports
    ]
    return json.dumps({"format": 1, "reports": rows, "waits": found.waits}, indent=1) + "\n"


_KINDS = {
    "freed": "memory is used after it was freed",
    "unset": "a read of memory that was never written",
    "advice": "advice: a wait for a word that a plain store changes",
}


def _report(engine: Engine, sites: Sites, race: Race) -> Report | None:
    pe, heap = race.second.where
    first, second = (_side(engine, sites, one, race) for one in (race.first, race.second))
    if first.site.line == second.site.line == 0:
        return None  # both are the library's own
    why, remedy = _advice(engine, race, first, second)
    kind = _KINDS.get(race.rule) or _kind(race)
    name = ("host", "device")[heap] if isinstance(heap, int) else _heap_of_arrays(heap)
    return Report(kind, pe, name, first, second, why, remedy)


def _side(engine: Engine, sites: Sites, access: Access, race: Race) -> Side:
    pe, _ = engine.agents[access.agent]
    mode = access.mode.replace("atomic ", "atomically ")
    routine = access.routine
    which = elements(sites, race.block, race.low, race.high)
    return Side(pe, access.thread, routine, mode, sites.of[access.site], which)


def _heap_of_arrays(heap: Any) -> str:
    """Of an array that is a heap by itself: registered, or in use by a put."""
    return "own" if isinstance(heap, tuple) and heap[0] == "lent" else "registered"


def _kind(race: Race) -> str:
    if race.first.atomic != race.second.atomic:
        return "an atomic and a plain access that nothing orders"
    if race.first.atomic:
        return "two atomic accesses of different sizes that nothing orders"
    both = race.first.writes and race.second.writes
    return "two writes that nothing orders" if both else "a read and a write that nothing orders"


def _advice(engine: Engine, race: Race, first: Side, second: Side) -> tuple[str, str]:
    if race.rule == "unset":
        return (
            f"Nothing was written there since it was allocated at line {first.site.line}.",
            "zeros, or values before the read; of what another PE writes, a wait behind that.",
        )
    if race.rule == "advice":
        return (
            f"It is allowed, as long as the word comes whole: {first.routine} promises that of no word.",
            "signal_set, put_signal or an atomic operation in place of it.",
        )
    if race.rule == "freed":
        return "The PE has given the memory back.", "Free it after the last use, on all PEs."
    if race.first.atomic and race.second.atomic:
        return (
            "Atomic operations are atomic to those of one type; these are of words of different sizes.",
            "One type for all atomic operations on a word; or a barrier between the two uses.",
        )
    if race.issued:
        return _advice_issued(engine, race, first, second)
    why = (
        f"Nothing tells PE {second.pe} that the access of PE {first.pe} has happened: it came first by "
        "chance."
    )
    if first.pe == second.pe and _on_streams(engine, race):
        why = "Both are of one PE, but the one does not wait for the other's stream."
        return why, "synchronize of the stream between them, or an event that the other waits for."
    if first.pe == second.pe:
        why = "Both are of one PE, but of threads that do not wait for each other."
        return why, "A barrier of the block or the grid between them, or one thread for both."
    if race.first.atomic != race.second.atomic:
        return why, "signal_wait_until, wait_until or an atomic fetch instead of the plain access."
    if race.first.writes and not race.second.writes:
        return why, (
            f"put_signal on PE {first.pe} and signal_wait_until on PE {second.pe}, or a barrier between "
            "them; of a flag, wait_until instead of reading it."
        )
    return (
        why,
        f"A signal from PE {first.pe} that PE {second.pe} waits for, or a barrier, between them.",
    )


def _on_streams(engine: Engine, race: Race) -> bool:
    """Are they of different streams, or of a stream and the host?"""
    first, second = (engine.agents[one.agent][1] // ROOM for one in (race.first, race.second))
    return first != second


def _advice_issued(engine: Engine, race: Race, first: Side, second: Side) -> tuple[str, str]:
    """The first is known to have begun, but not to be complete."""
    kind = engine.lanes.of[race.first.event[0]].kind.name
    if kind == "BY_QUIET" and not isinstance(engine.lanes.of[race.first.event[0]].ctx, int):
        why = (
            f"{first.routine} has only begun: its arrays are in use until its request is complete."
        )
        return why, f"wait of the request before line {second.site.line}."
    if kind == "BY_QUIET":
        why = f"{first.routine} does not block: what it {first.mode}s is in use until quiet."
        return why, f"quiet before line {second.site.line}, or the blocking form."
    same = first.pe == second.pe
    if same and race.second.writes:
        return (
            "Both go to the same PE, in any order: nothing orders two puts.",
            "fence between them; or put_signal, where the second tells of the first.",
        )
    if same:
        return f"{first.routine} is not complete at its PE when it returns.", "quiet between them."
    return (
        f"PE {second.pe} knows that PE {first.pe} has called {first.routine}, but not that it is done: "
        "what it has waited for was not ordered behind it.",
        "put_signal instead of put and a flag; else fence before the flag goes to the same PE, or quiet "
        "before the signal to another PE or the sync.",
    )


def _source(site: Site) -> list[str]:
    text = linecache.getline(site.file, site.line).strip() if site.line else ""
    return [f"      {text}"] if text else []
