# SPDX-License-Identifier: BSD-3-Clause
"""What each PE of a job gets of this machine: GPU, link to the others, cores, rows of choices."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from ..host.job import runtime
from ..host.tuning import gpus
from ..launcher import binding
from . import facts


def table(n_pes: int, device: str) -> Table:
    """A line for each PE of a job of ``run -n n_pes``, as it would be bound by default.

    Args:
        n_pes: number of PEs.
        device: the accelerator that the job would have.

    Raises: LaunchError, ShmemError.
    """
    shown = Table(title=_title(n_pes), title_justify="left", header_style="bold")
    for name in ("PE", "GPU", "link to the others", "cores", "choices between stores and engines"):
        shown.add_column(name, overflow="fold")
    for line in lines(n_pes, device):
        shown.add_row(*map(escape, line))
    return shown


def _title(n_pes: int) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"A job of {n_pes} PEs" + (
        f"; GPUs by CUDA_VISIBLE_DEVICES={visible}" if visible is not None else ""
    )


def lines(n_pes: int, device: str) -> Iterator[tuple[str, str, str, str, str]]:
    """The same as texts: PE, GPU, link, cores, choices."""
    shares = binding.shares(n_pes, None, device, finer=True)
    count = runtime.gpu_count() if device == "cuda" else 0
    for pe, share in enumerate(shares):
        cores = binding.described(share.cpus)
        if not count:
            yield str(pe), "none", "shared memory", cores, "-"
            continue
        ordinal = pe % count  # as init chooses it
        gpu = gpus.ask(ordinal)
        sharing = [str(other) for other in range(ordinal, n_pes, count) if other != pe]
        yield (
            str(pe),
            f"{ordinal}: {gpu.name} ({gpus.bus_address(ordinal)})",
            _link(gpu, sharing, len(shares), count),
            cores,
            facts.describe_choices(gpu, max(n_pes - 1, 1)),
        )


def _link(gpu: gpus.Gpu, sharing: list[str], n_pes: int, count: int) -> str:
    """To PEs of other GPUs, and with whom the GPU is shared."""
    parts = []
    if min(n_pes, count) > 1 or not sharing:
        parts.append(f"{gpu.kind.link}, {gpu.kind.gbps:g} GB/s")
    if sharing:
        parts.append(f"on one GPU with PE {', '.join(sharing)}")
    if " MIG " in gpu.name:
        parts.append("a MIG slice: it reaches no other slice")
    return "; ".join(parts)
