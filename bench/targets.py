# SPDX-License-Identifier: BSD-3-Clause
"""What pyshmem's figures must reach beside the peers': ratios and limits, each passed or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

#: (op, bytes, pes, blocks, threads) -> peer -> microseconds
Figures = dict[tuple[str, int, int, int, int], dict[str, float]]

COLLECTIVES = ("fcollect", "broadcast", "alltoall", "sum_reduce")
US_OF_25_MILLION = 0.04
PUT_THREAD_PEER_GB_S = 0.57


class Verdict(NamedTuple):
    """``value`` must not be above ``limit``; without a value there was nothing to compare."""

    target: str
    value: float | None
    limit: float
    where: str = ""

    @property
    def passed(self) -> bool:
        return self.value is not None and self.value <= self.limit


def _worst(target: str, limit: float, values: dict[str, float]) -> Verdict:
    if not values:
        return Verdict(target, None, limit)
    where = max(values, key=lambda key: values[key])
    return Verdict(target, values[where], limit, where)


def _ratios(
    figures: Figures, ours: str, theirs: str, chosen: Callable[..., bool]
) -> dict[str, float]:
    """Our time over theirs, where both were measured."""
    return {
        f"{op} {nbytes} B, {pes} PEs, {blocks}x{threads}": row[ours] / row[theirs]
        for (op, nbytes, pes, blocks, threads), row in figures.items()
        if ours in row and theirs in row and chosen(op, nbytes, pes, blocks, threads)
    }


def _ring(figures: Figures) -> Iterator[Verdict]:
    ours = {op: [] for op in ("ring_request", "ring_credits_per_request", "fence", "quiet")}
    for (op, *_), row in figures.items():
        if op in ours and "pyshmem" in row:
            ours[op].append(row["pyshmem"])
    null: dict[str, list[float]] = {"cuda": [], "pyshmem": []}  # however many PEs the job had
    for (op, *_), row in figures.items():
        for peer in null if op == "ring_null" else ():
            null[peer] += [row[peer]] if peer in row else []
    both = min(null["pyshmem"]) / min(null["cuda"]) if all(null.values()) else None
    yield Verdict("null round trip / bare CUDA's", both, 1.15)
    requests = min(ours["ring_request"], default=None)
    yield Verdict("us a request (25 million/s)", requests, US_OF_25_MILLION)
    yield Verdict("credits a request", max(ours["ring_credits_per_request"], default=None), 0.016)
    for op in ("fence", "quiet"):
        yield Verdict(f"{op} with nothing offloaded, us", max(ours[op], default=None), 1.5)


def _put(figures: Figures) -> Iterator[Verdict]:
    for nbytes, times in ((2 << 20, 3), (16 << 20, 6)):
        row = figures.get(("put_work_group", nbytes, 2, 1, 1024), {})
        value = row["pyshmem"] / row["nvshmem"] if {"pyshmem", "nvshmem"} <= row.keys() else None
        yield Verdict(f"put 1x1024 {nbytes >> 20} MiB / NVSHMEM's", value, round(1 / times, 3))
    better = {
        f"{op} {nbytes} B, {blocks}x{threads}": row["pyshmem"]
        / min(row["pyshmem stores"], row["pyshmem engine"])
        for (op, nbytes, _, blocks, threads), row in figures.items()
        if {"pyshmem", "pyshmem stores", "pyshmem engine"} <= row.keys()
    }
    yield _worst("chosen way / the better of the two", 1.1, better)
    engine = _ratios(figures, "pyshmem engine", "cuda engine", lambda *_: True)
    yield _worst("put 1x1024 by copy engine / bare CUDA's", 1.1, engine)
    row = figures.get(("put", 4096, 2, 1, 1), {})
    peer = row.get("nvshmem", 4096 / PUT_THREAD_PEER_GB_S / 1e3)
    value = row["pyshmem"] / peer if "pyshmem" in row else None
    yield Verdict("put of 4 KiB by one thread / NVSHMEM's", value, 0.333)


def _together(figures: Figures) -> Iterator[Verdict]:
    fetch = _ratios(figures, "pyshmem", "nvshmem", lambda op, *_: op == "fetch_add")
    yield _worst("fetch_add / NVSHMEM's", 1.0, fetch)
    for name in ("sync_all", "barrier_all"):
        ratios = _ratios(
            figures, "pyshmem", "nvshmem", lambda op, *_, name=name: op.startswith(name)
        )
        yield _worst(f"{name} at every scope / NVSHMEM's", 1.0, ratios)
    for name in COLLECTIVES:
        ratios = _ratios(
            figures, "pyshmem", "nvshmem", lambda op, *_, name=name: op.startswith(name)
        )
        yield _worst(f"{name} / NVSHMEM's", 1.0, ratios)
    large = _ratios(
        figures,
        "pyshmem",
        "nvshmem",
        lambda op, nbytes, pes, *_: op.startswith("sum_reduce") and nbytes >= 32768 and pes >= 4,
    )
    yield _worst("sum_reduce from 32 KiB up on 4 or 8 PEs / NVSHMEM's", 0.25, large)


def judge(figures: Figures) -> list[Verdict]:
    """All targets."""
    return [*_ring(figures), *_put(figures), *_together(figures)]
