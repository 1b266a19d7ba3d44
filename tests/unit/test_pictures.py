# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of the pages are what their program draws, can be read small, and have a text."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "pictures"


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The modules that draw, which import each other by their short names."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    import curves
    import drawings
    import svg

    yield {"curves": curves, "drawings": drawings, "svg": svg}
    for name in {"curves", "drawings", "svg"} - before:
        del sys.modules[name]


def test_the_files_are_what_the_program_draws(programs: dict[str, Any]) -> None:
    for draw in programs["drawings"].ALL:
        picture = draw()
        for palette in programs["svg"].PALETTES:
            file = FOLDER / f"{picture.name}-{palette}.svg"
            assert file.read_text(encoding="utf-8") == picture.svg(palette), (
                f"run: python docs/pictures ({file.name})"
            )


def test_words_are_large_enough_and_within_the_picture(programs: dict[str, Any]) -> None:
    for draw in programs["drawings"].ALL:
        picture = draw()
        for element in ET.fromstring(picture.svg("light")).iter("{http://www.w3.org/2000/svg}text"):
            size, words = float(element.get("font-size")), element.text or ""
            assert size * 390 / programs["svg"].WIDTH >= 9.5, words
            width = 0.55 * size * len(words)
            left = (
                float(element.get("x"))
                - width * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
            )
            assert left >= -2, f"{picture.name}: {words}"
            assert left + width <= programs["svg"].WIDTH + 2, f"{picture.name}: {words}"
            assert float(element.get("y")) <= picture.height, f"{picture.name}: {words}"


def test_every_picture_stands_on_a_page_in_both_palettes_with_a_text() -> None:
    there = {file.stem for file in FOLDER.glob("*.svg")}
    used: set[str] = set()
    for page in DOCS.rglob("*.md"):
        blocks = re.findall(
            r"```\{image\} \S*pictures/(\S+)\.svg\n:class: only-(\w+)\n:alt: (.+)\n```",
            page.read_text(encoding="utf-8"),
        )
        for name, palette, text in blocks:
            assert name.endswith(palette), (page.name, name)
            assert len(text) > 30, (page.name, name)
        used |= {name for name, _, _ in blocks}
    assert used == there


def test_curves_know_where_pyshmem_is_behind(programs: dict[str, Any]) -> None:
    found = {
        "pyshmem": {8: 1.0, 64: 3.0, 512: 2.0},
        "a": {8: 1.0, 64: 2.0},
        "b": {8: 2.0, 64: 2.5, 4096: 1.0},
    }
    assert programs["curves"].losses(found) == [(64, 1.5)]


def test_curves_have_the_figures_of_the_raw_results(programs: dict[str, Any]) -> None:
    for title, file, operations, row_has, key in programs["curves"].PANELS:
        found = programs["curves"].figures(file, operations, row_has, key)
        assert len(found["pyshmem"]) >= 7, title
        assert len(found) >= 2, title
