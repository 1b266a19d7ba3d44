# SPDX-License-Identifier: BSD-3-Clause
"""Of a job that did not end by itself: who waited for whom, and where collectives part."""

from __future__ import annotations

from typing import Any, NamedTuple

from .engine import Engine, Standing
from .sites import Sites, elements, shown

_COMPARED = ("==", "!=", ">", ">=", "<", "<=")
_HOW = {"all": "all of", "any": "any of", "some": "some of"}
_MOST = 16  # lines of PEs, or of threads of one


class _Wait(NamedTuple):
    """What is told of an agent that stands still."""

    pe: int
    text: str
    pes: frozenset[int]  # who could end it
    ended: bool  # it has left the job


def told(engine: Engine, sites: Sites, n_pes: int) -> list[str]:
    """Lines: where each PE stood, a cycle or who went another way, and collectives that differ."""
    waits = _waits(engine, sites, n_pes)
    of_pe: dict[int, list[_Wait]] = {}
    for one in waits:
        of_pe.setdefault(one.pe, []).append(one)
    lines = []
    for pe in sorted(of_pe)[:_MOST]:
        lines += [f"  PE {pe}{one.text}" for one in of_pe[pe][:_MOST]]
        if len(of_pe[pe]) > _MOST:
            lines.append(f"  PE {pe}: {len(of_pe[pe]) - _MOST} more threads")
    if len(of_pe) > _MOST:
        lines.append(f"  {len(of_pe) - _MOST} more PEs")
    edges = {pe: frozenset().union(*(one.pes for one in of_pe[pe])) for pe in of_pe}
    cycle = _cycle(edges)
    if cycle:
        lines.append("  a cycle: " + ", ".join(_pairs(cycle)))
    elif other := _other_way(of_pe, edges):
        lines.append(f"  {other}")
    parted = _parted(engine, sites)
    told = ["who waits for whom", *lines] if any(edges.values()) else []
    return ["\n".join(part) for part in (told, parted) if part]


def _waits(engine: Engine, sites: Sites, n_pes: int) -> list[_Wait]:
    """A wait for each PE's host, or in its place for each thread of its kernel that waits."""
    found: dict[int, list[_Wait]] = {pe: [] for pe in range(n_pes)}
    for agent, (pe, number) in enumerate(engine.agents):
        standing = engine.standing.get(agent)
        if standing is None or (number and not standing.waits):
            continue
        found[pe].append(_of_agent(engine, sites, agent, standing, n_pes))
    for waits in found.values():
        if len(waits) > 1 and not waits[0].pes:
            del waits[0]  # the host waits for its kernel, or for a stream
    return [one for waits in found.values() for one in waits]


def _of_agent(engine: Engine, sites: Sites, agent: int, standing: Standing, n_pes: int) -> _Wait:
    pe, number = engine.agents[agent]
    who = f", {engine.names[agent]}" if number and agent in engine.names else ""
    at = f"{standing.routine} at {shown(sites.of[standing.site])}"
    if standing.routine == "finalize":
        return _Wait(pe, " has ended its job", frozenset(), True)
    if not standing.waits:
        return _Wait(pe, f"{who} was at work, behind {at}", frozenset(), False)
    kind, *rest = standing.waits
    tell: dict[str, Any] = {
        "words": _words,
        "meeting": _meeting,
        "lock": _lock,
        "streams": _streams,
    }
    text, pes = tell[kind](engine, sites, pe, n_pes, *rest)
    return _Wait(pe, f"{who}: {at} waits for {text}", pes - {pe} or pes, False)


def _words(
    engine: Engine,
    sites: Sites,
    pe: int,
    n_pes: int,
    heap: int,
    words: Any,
    cmp: int,
    how: str,
) -> tuple[str, frozenset[int]]:
    """Words of an array; who has changed them could again, and of those never changed anybody."""
    low, value = words[0]
    block = engine.block_at(heap, low)
    name = elements(sites, block, low, low + 1)
    text = f"{name} {_COMPARED[cmp]} {value}"
    if len(words) > 1:
        text = f"{_HOW[how]} {len(words)} words: {text} and so on"
    changes = [] if block is None else block.word(pe, low).changes
    writers = {engine.lanes.of[change.known[0][0]].pe for change in changes if change.known}
    if len(words) == 1 and changes and changes[-1].after is not None:
        text += f", which is {changes[-1].after}"
    others = writers - {pe}
    if others:
        return f"{text}; {_pes(others)} has changed it before", frozenset(others)
    return f"{text}; no other PE has written there", frozenset(range(n_pes)) - {pe}


def _meeting(
    engine: Engine, sites: Sites, pe: int, n_pes: int, key: Any
) -> tuple[str, frozenset[int]]:
    """A collective: who of the team has not come."""
    meeting = engine.meetings.get(key)
    members = key[1][1:] if key[0] == "kernel" else key[0][0]
    if meeting is None or not isinstance(members, tuple):
        return "the others", frozenset()
    missing = frozenset(member for n, member in enumerate(members) if n not in meeting.entered)
    if not missing:
        return "nobody: all have come", frozenset()
    return f"{_pes(missing)}, not there", missing


def _lock(
    engine: Engine, sites: Sites, pe: int, n_pes: int, heap: int, low: int
) -> tuple[str, frozenset[int]]:
    name = elements(sites, engine.block_at(heap, low), low, low + 1)
    holder = engine.holders.get((heap, low))
    if holder is None:
        return f"the lock {name}, which nobody is known to hold", frozenset()
    return f"the lock {name}, which PE {holder} holds", frozenset((holder,))


def _streams(
    engine: Engine, sites: Sites, pe: int, n_pes: int, numbers: tuple[int, ...]
) -> tuple[str, frozenset[int]]:
    """What they wait for themselves has lines of its own."""
    return " and ".join(engine.names[engine.agent(pe, n)] for n in numbers), frozenset()


def _pes(pes: Any) -> str:
    names = [f"PE {pe}" for pe in sorted(pes)]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" or {names[-1]}"


def _pairs(cycle: list[int]) -> list[str]:
    return [f"PE {a} for PE {b}" for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)]


def _cycle(edges: dict[int, frozenset[int]]) -> list[int]:
    """The shortest cycle of the lowest PE that is on one."""
    for start in sorted(edges):
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop(0)
            for pe in sorted(edges.get(path[-1], ())):
                if pe == start:
                    return path
                if pe not in seen:
                    seen.add(pe)
                    paths.append([*path, pe])
    return []


def _other_way(of_pe: dict[int, list[_Wait]], edges: dict[int, frozenset[int]]) -> str:
    """Who is waited for and does not wait."""
    for pe in sorted(of_pe):
        waiting = [other for other in sorted(edges) if pe in edges[other]]
        if waiting and not edges[pe]:
            what = "has ended its job" if any(one.ended for one in of_pe[pe]) else "was elsewhere"
            return f"PE {pe} went another way: {_pes(waiting)} waits for it, and it {what}"
    return ""


def _parted(engine: Engine, sites: Sites) -> list[str]:
    """Side by side: the first collective of a team that its members have called differently."""
    lines = []
    for team, calls in engine.parted.items():
        members = team[0] if isinstance(team[0], tuple) else ()
        lines.append(f"collectives of {len(members) or len(calls)} PEs part")
        for n, (routine, site) in sorted(calls.items()):
            pe = members[n] if n < len(members) else n
            lines.append(f"  PE {pe}: {routine} at {shown(sites.of[site])}")
    return lines
