# SPDX-License-Identifier: BSD-3-Clause
"""Draws a timeline: a strip a PE, a line a track in it, colours by name."""

from __future__ import annotations

from typing import Any

import click

from .trace_report import Event, slices_of

_TRACKS = 24  # of a PE that are drawn: a GPU has more than a picture has room for
_LEGEND = 16


def _tracks(document: dict[str, Any]) -> tuple[list[tuple[int, int, str]], int]:
    """PE, tid and name of the tracks that are drawn, in their order; and how many are not.

    Of a PE with too many, those that bring a name which no track before has come first: a copy by one
    block is seen beside the products of a hundred.
    """
    shown: dict[tuple[int, int], set[str]] = {}
    for event in slices_of(document):
        shown.setdefault((event["pid"], event["tid"]), set()).add(event["name"])
    tracks_of: dict[int, list[tuple[int, int, str]]] = {}
    names = [event for event in document["traceEvents"] if event["name"] == "thread_name"]
    for event in sorted(names, key=lambda e: (e["pid"], e["tid"])):
        track = event["pid"], event["tid"], event["args"]["name"]
        tracks_of.setdefault(event["pid"], []).append(track)
    chosen: list[tuple[int, int, str]] = []
    for tracks in tracks_of.values():
        seen: set[str] = set()
        first: list[tuple[int, int, str]] = []
        others: list[tuple[int, int, str]] = []
        for track in tracks:
            brought = shown.get(track[:2], set())
            (others if brought <= seen else first).append(track)
            seen |= brought
        chosen += sorted((first + others)[:_TRACKS])
    return chosen, len(names) - len(chosen)


def _by_name(events: list[Event]) -> list[str]:
    """Names, those with most time first."""
    totals: dict[str, float] = {}
    for event in events:
        totals[event["name"]] = totals.get(event["name"], 0) + event["dur"]
    return sorted(totals, key=lambda name: -totals[name])


def draw(document: dict[str, Any], path: str, title: str) -> None:
    """Writes the picture; its kind is that of the file's ending.

    Raises: click.ClickException (nothing to draw, matplotlib is missing or does not know the ending).
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise click.ClickException("--plot needs matplotlib: pip install matplotlib") from error
    events, (tracks, left_out) = slices_of(document), _tracks(document)
    if not events:
        raise click.ClickException("--plot has nothing to draw: the timeline has no slices")
    row = {(pe, tid): number for number, (pe, tid, _) in enumerate(tracks)}
    names = _by_name(events)
    palette = pyplot.get_cmap("tab20")
    figure, axis = pyplot.subplots(figsize=(12, 1.2 + 0.24 * len(tracks)), layout="constrained")
    bars: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for event in events:
        if (place := row.get((event["pid"], event["tid"]))) is not None:
            bar = event["ts"] / 1e3, event["dur"] / 1e3
            bars.setdefault((event["name"], place), []).append(bar)
    for (name, place), of_track in sorted(bars.items(), key=lambda item: names.index(item[0][0])):
        number = names.index(name)
        label = name if number < _LEGEND else None
        colour = palette(number % 20)
        # The border leaves a line of a slice that is shorter than a point of the picture.
        axis.broken_barh(of_track, (place - 0.4, 0.8), color=colour, linewidth=0.6, label=label)
    _mark_faults(axis, document)
    _write_tracks(axis, tracks)
    handles, texts = axis.get_legend_handles_labels()
    once = dict(zip(texts, handles, strict=True))
    axis.legend(once.values(), once.keys(), fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    axis.set_xlabel("ms")
    more = f", {left_out} tracks not drawn" if left_out else ""
    axis.set_title(title + more, fontsize=9)
    try:
        figure.savefig(path, dpi=110)
    except ValueError as error:
        raise click.ClickException(f"--plot {path}: {error}") from error
    finally:
        pyplot.close(figure)


def _mark_faults(axis: Any, document: dict[str, Any]) -> None:
    for event in document["traceEvents"]:
        if event["ph"] == "i":
            axis.axvline(event["ts"] / 1e3, color="red", linewidth=1)


def _write_tracks(axis: Any, tracks: list[tuple[int, int, str]]) -> None:
    axis.set_yticks(range(len(tracks)), [f"PE {pe}  {name}" for pe, _, name in tracks], fontsize=7)
    for number in range(1, len(tracks)):
        if tracks[number][0] != tracks[number - 1][0]:
            axis.axhline(number - 0.5, color="black", linewidth=0.6)
    axis.set_ylim(len(tracks) - 0.5, -0.5)
