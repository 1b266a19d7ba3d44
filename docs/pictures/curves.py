# SPDX-License-Identifier: BSD-3-Clause
"""The curves of the page on performance, from raw results in ``bench/results``; losses are shaded."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path

from svg import PALETTES

RESULTS = Path(__file__).parents[2] / "bench" / "results"
#: Files of one run each, in which all that a panel compares was measured.
IN_KERNELS = "2026-11-23-h200-x2/device_x2.jsonl"
ON_STREAMS = "2026-11-22-h200-x2-peers/streams_x2.jsonl"
#: The algorithms of the others' all-reduces; of each library the quickest at a size counts.
ALL_REDUCES = (
    "all_reduce",
    "all_reduce_one_shot",
    "all_reduce_two_shot",
    "all_reduce_ll",
    "all_reduce_ll12",
    "all_reduce_two",
)
#: Title, file, operations, what a row has, the figure's key.
PANELS = (
    ("put, 1 thread", IN_KERNELS, ("put",), {}, "us"),
    ("put, a block of 1024", IN_KERNELS, ("put_work_group",), {"blocks": 1, "threads": 1024}, "us"),
    (
        "put, 32 blocks of 1024",
        IN_KERNELS,
        ("put_work_group",),
        {"blocks": 32, "threads": 1024},
        "us",
    ),
    ("all-reduce in a CUDA graph", ON_STREAMS, ALL_REDUCES, {}, "us_graph"),
)
NAMES = {
    "pyshmem": "pyshmem",
    "nvshmem": "NVSHMEM",
    "cuda": "bare CUDA",
    "nccl": "NCCL",
    "symm_mem": "symm_mem",
}
#: What matplotlib draws in the colour of the words.
INKED = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
#: As a share of the best other library's time: below that much, two times are called equal.
EQUAL = 1.05


def figures(
    file: str, operations: tuple[str, ...], row_has: dict, key: str
) -> dict[str, dict[int, float]]:
    """Of each library, the median time in us of its quickest operation, by size in bytes."""
    times: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for line in (RESULTS / file).read_text().splitlines():
        row = json.loads(line) if line.startswith("{") else {}
        if (
            row.get("op") in operations
            and all(row.get(name) == value for name, value in row_has.items())
            and row.get(key)
            and row.get("peer") in NAMES
        ):
            times[NAMES[row["peer"]], row["bytes"], row["op"]].append(row[key])
    least: dict[str, dict[int, float]] = defaultdict(dict)
    for (who, size, _), found in sorted(times.items()):
        least[who][size] = min(statistics.median(found), least[who].get(size, float("inf")))
    return least


def losses(found: dict[str, dict[int, float]]) -> list[tuple[int, float]]:
    """The sizes at which pyshmem takes more than EQUAL times the best other's time, and the ratio."""
    behind = []
    for size, ours in found["pyshmem"].items():
        others = [sizes[size] for who, sizes in found.items() if who != "pyshmem" and size in sizes]
        if others and ours > EQUAL * min(others):
            behind.append((size, ours / min(others)))
    return behind


def _panel(axes, title: str, found: dict[str, dict[int, float]], colours: dict[str, str]) -> None:
    styles = {
        "pyshmem": (colours["data"], "-", 2.4),
        "bare CUDA": (colours["dim"], ":", 1.6),
        "NVSHMEM": (colours["other"], "-", 1.6),
        "NCCL": (colours["other"], "-.", 1.6),
        "symm_mem": (colours["other"], "--", 1.6),
    }
    for who, sizes in found.items():
        colour, line, width = styles[who]
        axes.plot(list(sizes), list(sizes.values()), line, color=colour, linewidth=width, label=who)
    for size, ratio in losses(found):
        axes.axvspan(size / 1.41, size * 1.41, color=colours["other"], alpha=0.15, linewidth=0)
        axes.text(
            size,
            0.03,
            f"{ratio:.2f}",
            transform=axes.get_xaxis_transform(),
            color=colours["other"],
            ha="center",
            fontsize=9,
        )
    axes.set(xscale="log", yscale="log", title=title)
    ticks = [
        (8, "8 B"),
        (1 << 10, "1 KiB"),
        (1 << 15, "32 KiB"),
        (1 << 20, "1 MiB"),
        (1 << 25, "32 MiB"),
    ]
    axes.set_xticks([size for size, _ in ticks], [name for _, name in ticks])
    axes.minorticks_off()
    axes.set_ylabel("us")
    axes.legend(frameon=False, labelcolor=colours["ink"])


def write(folder: Path) -> None:
    """performance-light.svg and performance-dark.svg; needs matplotlib."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    for palette, colours in PALETTES.items():
        ink = dict.fromkeys(INKED, colours["ink"])
        plain = {
            "svg.fonttype": "none",
            "svg.hashsalt": "pyshmem",
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
        with pyplot.rc_context(ink | plain):
            figure, panels = pyplot.subplots(
                len(PANELS), 1, figsize=(5.2, 3.1 * len(PANELS)), layout="constrained"
            )
            for axes, (title, file, operations, row_has, key) in zip(panels, PANELS, strict=True):
                axes.patch.set_alpha(0)
                _panel(axes, title, figures(file, operations, row_has, key), colours)
            figure.savefig(
                folder / f"performance-{palette}.svg", transparent=True, metadata={"Date": None}
            )
            pyplot.close(figure)
