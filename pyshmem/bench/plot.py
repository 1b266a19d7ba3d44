# SPDX-License-Identifier: BSD-3-Clause
"""Draws what ``put_get`` measured: bandwidth over bytes, a picture a shape, a line a way."""

from __future__ import annotations

from collections.abc import Iterable

import click

from .timing import Row

_LINES = {
    "pyshmem stores": ("stores", "o-"),
    "pyshmem engine": ("copy engine", "s-"),
    "pyshmem": ("chosen", "k--"),
}


def draw(rows: Iterable[Row], path: str, machine: str) -> None:
    """Writes the picture; its kind is that of the file's ending.

    Raises: click.ClickException (no rows of put or get, matplotlib is missing).
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise click.ClickException("--plot needs matplotlib: pip install matplotlib") from error
    transfers = [row for row in rows if row.op.split("_")[0] in ("put", "get")]
    keys = sorted({(row.op.split("_")[0], row.threads, row.blocks) for row in transfers})
    if not keys:
        raise click.ClickException("--plot draws put and get, and neither was measured")
    columns = min(4, len(keys))
    lines = -(-len(keys) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(4 * columns, 3 * lines), squeeze=False, layout="constrained"
    )
    for axis, key in zip(axes.flat, keys, strict=False):
        of_shape = [
            row for row in transfers if (row.op.split("_")[0], row.threads, row.blocks) == key
        ]
        for peer, (label, style) in _LINES.items():
            points = sorted(
                (row.bytes, row.bytes / row.us / 1e3) for row in of_shape if row.peer == peer
            )
            axis.loglog(*zip(*points, strict=True), style, label=label, markersize=3, linewidth=1)
        op, threads, blocks = key
        axis.set_title(f"{op}: {blocks} x {threads} threads", fontsize=9)
        axis.set_xscale("log", base=2)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(keys) :]:
        axis.axis("off")
    axes[0][0].legend(fontsize=8)
    figure.supxlabel("bytes moved by the grid")
    figure.supylabel("GB/s")
    figure.suptitle(f"Kernels' transfers between two PEs, {machine}")
    figure.savefig(path, dpi=110)
