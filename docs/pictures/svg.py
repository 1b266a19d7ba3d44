# SPDX-License-Identifier: BSD-3-Clause
"""A drawing of boxes, words and arrows that is written as SVG for light and for dark pages.

A picture names what a part *is* (``data``, ``other``), never its colour: the two palettes give it one.
Lengths are SVG's units; pictures are 480 wide, so that words of 14 are 11 pixels high on a telephone of
390.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

WIDTH = 480
FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
#: What a part is: its colour on light and on dark pages. Two colours beside greys.
PALETTES = {
    "light": {
        "ink": "#1f2328",
        "dim": "#656d76",
        "line": "#8c959f",
        "paper": "#ffffff",
        "soft": "#f0f2f5",
        "data": "#0b6bcb",
        "data-soft": "#cfe4fa",
        "other": "#b35900",
        "other-soft": "#fbe3c8",
    },
    "dark": {
        "ink": "#e6edf3",
        "dim": "#9aa4ae",
        "line": "#6e7681",
        "paper": "#131416",
        "soft": "#23272d",
        "data": "#5cb0ff",
        "data-soft": "#143a5e",
        "other": "#f0a050",
        "other-soft": "#553312",
    },
}


class Picture:
    """A picture in the making; ``title`` and ``text`` are read out to who does not see it."""

    def __init__(self, name: str, height: int, title: str, text: str) -> None:
        self.name, self.height, self.title, self.description = name, height, title, text
        self.parts: list[tuple[str, dict[str, str], str]] = []

    def _add(self, tag: str, words: str = "", **attributes: object) -> None:
        named = {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()}
        self.parts.append((tag, named, words))

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "soft",
        edge: str = "line",
        round_: float = 4,
    ) -> None:
        self._add(
            "rect",
            x=x,
            y=y,
            width=width,
            height=height,
            rx=round_,
            fill=fill,
            stroke=edge,
            stroke_width=1.2,
        )

    def words(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        anchor: str = "start",
        size: int = 14,
        bold: bool = False,
    ) -> None:
        self._add(
            "text",
            text,
            x=x,
            y=y,
            fill=colour,
            text_anchor=anchor,
            font_size=size,
            font_weight="600" if bold else "400",
        )

    def line(
        self,
        *points: tuple[float, float],
        colour: str = "line",
        width: float = 1.5,
        dashes: str = "",
        arrow: bool = False,
    ) -> None:
        """A line through the points; with ``arrow``, its head is at the last."""
        drawn = " ".join(f"{x:g},{y:g}" for x, y in points)
        more = {"stroke_dasharray": dashes} if dashes else {}
        self._add("polyline", points=drawn, fill="none", stroke=colour, stroke_width=width, **more)
        if arrow:
            (x0, y0), (x, y) = points[-2:]
            length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            ux, uy = (x - x0) / length, (y - y0) / length
            corners = [
                (x, y),
                (x - 9 * ux - 4 * uy, y - 9 * uy + 4 * ux),
                (x - 9 * ux + 4 * uy, y - 9 * uy - 4 * ux),
            ]
            self._add(
                "polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), fill=colour
            )

    def cells(
        self, x: float, y: float, contents: list[str], kind: str = "soft", size: float = 26
    ) -> None:
        """A row of an array's elements, each in a square of ``size``."""
        for k, content in enumerate(contents):
            self.box(x + k * size, y, size, size, kind, round_=0)
            self.words(x + (k + 0.5) * size, y + size / 2 + 5, content, anchor="middle")

    def svg(self, palette: str) -> str:
        """The picture's file on a page of this palette."""
        colours = PALETTES[palette]
        root = ET.Element(
            "svg",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {self.height}",
            role="img",
        )
        root.set("font-family", FONT)
        ET.SubElement(root, "title").text = self.title
        ET.SubElement(root, "desc").text = self.description
        for tag, attributes, words in self.parts:
            element = ET.SubElement(
                root, tag, {key: colours.get(value, value) for key, value in attributes.items()}
            )
            element.text = words or None
        ET.indent(root, " ")
        return ET.tostring(root, encoding="unicode") + "\n"

    def write(self, folder: Path) -> None:
        for palette in PALETTES:
            (folder / f"{self.name}-{palette}.svg").write_text(self.svg(palette), encoding="utf-8")
