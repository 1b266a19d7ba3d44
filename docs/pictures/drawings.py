# SPDX-License-Identifier: BSD-3-Clause
"""The pictures that have no curves, each a function that returns a :class:`svg.Picture`."""

from __future__ import annotations

import json
from pathlib import Path

from svg import WIDTH, Picture


def symmetric_memory() -> Picture:
    """The same arrays at the same place in every PE, and one put."""
    p = Picture(
        "symmetric-memory", 208, "Symmetric memory",
        "PE 0 and PE 1 each have a symmetric heap with the arrays mine and arrived at the same "
        "offsets. A put copies mine of PE 0 into arrived of PE 1.",
    )  # fmt: skip
    for pe, x in enumerate((10, 260)):
        p.words(x, 18, f"PE {pe}", bold=True)
        p.box(x, 28, 210, 132, "paper")
        p.words(x + 10, 48, "symmetric heap", "dim", size=13)
        for row, (name, contents) in enumerate(
            (("mine", "777" if pe == 0 else "333"), ("arrived", "000" if pe == 0 else "777"))
        ):
            y = 62 + 46 * row
            sent = (pe, name) in {(0, "mine"), (1, "arrived")}
            p.words(x + 12, y + 19, name)
            p.cells(x + 84, y, list(contents), "data-soft" if sent else "soft", 30)
    p.line(
        (184, 77),
        (240, 77),
        (240, 151),
        (389, 151),
        (389, 139),
        colour="data",
        width=2.2,
        arrow=True,
    )
    p.words(WIDTH / 2, 182, "on PE 0:  put(arrived, mine, 1)", "data", "middle", bold=True)
    p.words(WIDTH / 2, 201, "same name, same place, another owner", "dim", "middle", 13)
    return p


def when_is_data_there() -> Picture:
    """Three ways to know that a put has arrived, as time lines of sender and receiver."""
    p = Picture(
        "when-is-data-there", 372, "When is the data there?",
        "Three time lines. After put and quiet the sender alone knows that the data is there. "
        "After put_signal and signal_wait_until the receiver knows. After barrier_all all PEs "
        "know. While the data is under way nobody may read it.",
    )  # fmt: skip
    # A strip: heading, the sender's marks, end of the way, since when each knows, the receiver's mark.
    strips = (
        ("put, quiet: the sender knows", (("put", 84), ("quiet", 208)), 240, (240, None), None),
        (
            "put_signal: the receiver knows",
            (("put_signal", 84),),
            240,
            (None, 262),
            ("signal_wait_until", 262),
        ),
        (
            "barrier_all: all PEs know",
            (("put", 84), ("barrier_all", 208)),
            240,
            (262, 262),
            ("barrier_all", 208),
        ),
    )
    for k, (heading, marks, end, knows, waits) in enumerate(strips):
        top = 16 + 112 * k
        p.words(8, top, heading, bold=True)
        for lane, (who, since) in enumerate(zip(("sender", "receiver"), knows, strict=True)):
            y = top + 34 + 42 * lane
            p.words(8, y + 5, who, "dim", size=13)
            p.line((76, y), (464, y))
            if since:
                p.box(since, y - 8, 464 - since, 16, "data-soft", "data", 2)
                p.words((since + 464) / 2 + 20, y + 5, "may rely on it", "data", "middle", 12)
        for name, x in marks:
            p.line((x, top + 26), (x, top + 42), colour="ink", width=2)
            p.words(x, top + 22, name, size=13)
        p.line((88, top + 36), (end, top + 74), colour="other", width=2, dashes="5 4", arrow=True)
        if waits:
            name, x = waits
            p.line((x, top + 68), (x, top + 84), colour="ink", width=2)
            p.words(x, top + 98, name, size=13)
    p.line((8, 357), (44, 357), colour="other", width=2, dashes="5 4", arrow=True)
    p.words(52, 362, "under way: nobody may read it, the time is not known", "other", size=13)
    return p


def what_carries_it() -> Picture:
    """Which way a kernel's put goes, as a tree of questions with what each way costs."""
    p = Picture(
        "what-carries-it", 356, "What carries a kernel's put?",
        "If the other PE is on the same host and its memory is mapped, few bytes are stored by "
        "the kernel's threads over NVLink, about 0.2 microseconds, and many bytes go through the "
        "ring to the proxy and a copy engine. Without a mapping the ring and the proxy copy "
        "through host memory; to another host both hosts' proxies and the network carry them.",
    )  # fmt: skip

    def question(y: float, text: str) -> None:
        p.box(8, y, 186, 40, "paper", "ink", 20)
        p.words(101, y + 25, text, anchor="middle")

    def way(y: float, kind: str, first: str, second: str) -> None:
        p.box(236, y - 8, 236, 56, f"{kind}-soft", kind)
        p.words(246, y + 15, first, size=13, bold=True)
        p.words(246, y + 35, second, size=12)

    question(52, "on this host?")
    question(142, "mapped (P2P)?")
    question(232, "below the cutover?")
    p.words(101, 20, "a kernel calls put", anchor="middle", bold=True)
    for y, end in ((28, 52), (92, 142), (182, 232), (272, 302)):
        p.line((101, y), (101, end), arrow=True)
    for y in (52, 142, 232):
        p.line((194, y + 20), (236, y + 20), arrow=True)
        p.words(202, y + 12, "no", "dim", size=13)
    for y in (112, 202, 292):
        p.words(108, y + 4, "yes", "dim", size=13)
    way(52, "other", "ring, both proxies, network", "the proxy of each host works")
    way(142, "other", "ring, proxy, host memory", "the thread that asks waits at quiet")
    way(232, "data", "ring, proxy, copy engine", "10 us to start, then full speed")
    p.box(8, 302, 464, 46, "data-soft", "data")
    p.words(18, 321, "the threads store over NVLink", size=13, bold=True)
    p.words(18, 339, "0.2 us for a few bytes; the threads are busy until all are stored", size=12)
    return p


#: Of each collective: what PE i of four has afterwards. A cell is the PE whose data it is, and a letter.
_AFTER = {
    "broadcast from PE 0": lambda i: [(0, "a")],
    "fcollect": lambda i: [(j, "a") for j in range(4)],
    "alltoall": lambda i: [(j, "abcd"[i]) for j in range(4)],
    "sum_reduce": lambda i: [(None, "Σ" + k) for k in "ab"],
    "sum_reduce_scatter": lambda i: [(None, "Σ" + "abcd"[i])],
}
_BEFORE = {
    "broadcast from PE 0": 1,
    "fcollect": 1,
    "alltoall": 4,
    "sum_reduce": 2,
    "sum_reduce_scatter": 4,
}
_OF_PE = ("data-soft", "other-soft", "soft", "paper")


def collectives() -> Picture:
    """What four PEs have before and after each collective."""
    height, block = 26, 142
    p = Picture(
        "collectives", 14 + block * len(_AFTER) - 8, "Collectives of four PEs",
        "For each collective a row for each of four PEs, before and after. broadcast: all have PE "
        "0's element. fcollect: all have one element of each PE. alltoall: PE i has element i of "
        "each. sum_reduce: all have the sums. sum_reduce_scatter: PE i has sum i.",
    )  # fmt: skip
    for k, (name, after) in enumerate(_AFTER.items()):
        top = 18 + block * k
        p.words(8, top, name, bold=True)
        for pe in range(4):
            y = top + 8 + height * pe
            p.words(8, y + 18, f"PE {pe}", "dim", size=13)
            for j in range(_BEFORE[name]):
                p.box(58 + 36 * j, y, 36, height - 2, _OF_PE[pe], round_=0)
                p.words(76 + 36 * j, y + 17, f"{'abcd'[j]}{pe}", anchor="middle")
            for j, (owner, letter) in enumerate(after(pe)):
                p.box(
                    298 + 40 * j,
                    y,
                    40,
                    height - 2,
                    "data-soft" if owner is None else _OF_PE[owner],
                    "data" if owner is None else "line",
                    0,
                )
                p.words(
                    318 + 40 * j,
                    y + 17,
                    letter if owner is None else f"{letter}{owner}",
                    anchor="middle",
                )
        p.line((222, top + 60), (278, top + 60), width=2, arrow=True)
    return p


def halo() -> Picture:
    """The borders that four PEs of a stencil exchange, and how the interior's time covers them."""
    p = Picture(
        "halo", 330, "Halo exchange",
        "A plate in four blocks of rows, one a PE. Each PE puts its first and its last row into "
        "its neighbours' halo rows. Below, a time line: the borders travel while the interior is "
        "computed; then the signal is there and the border rows follow.",
    )  # fmt: skip
    for pe in range(4):
        y = 10 + 52 * pe
        p.words(8, y + 26, f"PE {pe}", "dim", size=13)
        p.box(58, y, 250, 42, "soft", round_=0)
        p.box(58, y, 250, 9, "data-soft", "data", 0)
        p.box(58, y + 33, 250, 9, "data-soft", "data", 0)
        if pe < 3:
            p.line((150, y + 38), (150, y + 58), colour="data", width=2, arrow=True)
            p.line((220, y + 56), (220, y + 36), colour="data", width=2, arrow=True)
    p.words(324, 30, "border rows:", "data", size=13, bold=True)
    p.words(324, 48, "put_signal into the", size=13)
    p.words(324, 65, "neighbour's halo", size=13)
    p.words(324, 100, "interior: needs", size=13)
    p.words(324, 117, "nobody's rows", size=13)
    p.words(8, 250, "one step of one PE", bold=True)
    p.line((8, 312), (464, 312), arrow=True)
    p.words(464, 328, "time", "dim", "end", 12)
    for x, width, kind, text in (
        (8, 60, "data", "put"),
        (70, 262, "line", "interior"),
        (334, 26, "other", ""),
        (362, 96, "line", "border rows"),
    ):
        p.box(x, 260, width, 22, "soft" if kind == "line" else f"{kind}-soft", kind, 2)
        p.words(x + width / 2, 276, text, anchor="middle", size=13)
    p.box(70, 286, 200, 18, "data-soft", "data", 2)
    p.words(170, 300, "rows travel", "data", "middle", 12)
    p.words(347, 300, "wait", "other", "middle", 12)
    return p


#: The raw results that ``tokens_a_second`` draws.
GENERATED = Path(__file__).parents[2] / "bench/results/2026-11-27-h200-x2-generate/generate_1.jsonl"


def tokens_a_second() -> Picture:
    rows = [json.loads(line) for line in GENERATED.read_text(encoding="utf-8").splitlines()]
    found = {
        (row["hidden"], row["how"], row["backend"]): row["tokens_s"]
        for row in rows
        if "backend" in row
    }
    most = max(found.values())
    p = Picture(
        "tokens-a-second",
        218,
        "Tokens a second at batch 1 on two H200s",
        "Bars: tokens a second of models of hidden 2048 and 4096, in CUDA graphs and eager, by fused "
        "operations of pyshmem and by NCCL with a compiled norm.",
    )
    y = 6
    for how in ("graph", "eager"):
        for hidden in (2048, 4096):
            p.words(0, y + 14, f"{how}, {hidden}", bold=True)
            for backend, name, colour in (
                ("pyshmem", "pyshmem", "data"),
                ("nccl", "NCCL", "other"),
            ):
                rate = found[hidden, how, backend]
                p.words(218, y + 14, name, "dim", anchor="end")
                p.box(226, y + 2, 190 * rate / most, 16, colour, colour, round_=2)
                p.words(232 + 190 * rate / most, y + 14, f"{rate:.0f}")
                y += 22
            y += 10
    return p


#: The trace that ``ddp_step`` draws.
TRACED = Path(__file__).parents[2] / "bench/results/2026-11-27-cpu-torch/ddp_step.jsonl"


def ddp_step() -> Picture:
    """A step of DistributedDataParallel by torch's profiler: all-reduces beside the backward pass."""
    rows = [json.loads(line) for line in TRACED.read_text(encoding="utf-8").splitlines()]
    p = Picture(
        "ddp-step", 198, "A training step of DDP in torch's profiler",
        "Four lanes over time. The forward pass, then the backward pass of four layers; the all-reduce "
        "of a layer's gradients runs beside the backward pass of the next one, the last two one "
        "behind the other; then the optimiser.",
    )  # fmt: skip
    left, right = 108, WIDTH - 10
    whole = max(row["us_begin"] + row["us"] for row in rows)
    lanes = (
        ("forward", "forward", "soft", "line"),
        ("backward", "backward", "other-soft", "other"),
        ("all_reduce", "all_reduce", "data-soft", "data"),
        ("optimiser", "optimiser", "soft", "line"),
    )
    for k, (what, words, fill, edge) in enumerate(lanes):
        y = 8 + 34 * k
        p.words(0, y + 17, words, bold=what == "all_reduce", size=13)
        p.line((left, y + 28), (right, y + 28), width=0.5)
        for row in rows:
            if row["what"] == what:
                scale = (right - left) / whole
                p.box(
                    left + scale * row["us_begin"], y + 2, max(scale * row["us"], 2), 22,
                    fill, edge, 1,
                )  # fmt: skip
    for ms in range(0, whole // 1000 + 1, 20):
        x = left + (right - left) * ms * 1000 / whole
        p.line((x, 144), (x, 149))
        p.words(x, 163, f"{ms} ms" if ms == 0 else str(ms), "dim", "middle", 12)
    p.words(left, 188, "pyshmem:all_reduce, 4 MiB each", "data", size=13)
    return p


ALL = (
    symmetric_memory, when_is_data_there, what_carries_it, collectives, halo, tokens_a_second, ddp_step,
)  # fmt: skip
