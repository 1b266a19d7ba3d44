# SPDX-License-Identifier: BSD-3-Clause
"""pyshmem.fused: the bits of a row do not depend on the batch, by random splits of a batch.

    batch_splits.py KINDS [SPLITS] [NUMBERS]

The pool of rows is shuffled and cut in two, three or four, and each part is a call of its own: each row
has the bits that it has in the call for the whole pool. On GPUs also in CUDA graphs, one for each of
some numbers of rows, that are replayed with other rows. Prints what was compared.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from batch_cases import LARGE, SMALL, Case, Maker, counts_of

import pyshmem
import pyshmem.interop.torch as symmetric
from pyshmem.host.job.runtime import gpu_count

#: Rows of the smaller part of a split in a graph; the other part has the rest of the pool.
CUTS = (1, 3, 16, 33, 80)


def eagerly(case: Case, drawn: random.Random) -> torch.Tensor:
    """How many results of a split have other bits."""
    pool, wrong = list(range(sizes.pool)), 0
    drawn.shuffle(pool)
    ends = sorted(drawn.sample(range(1, sizes.pool), drawn.randint(1, 3)))
    for first, end in zip([0, *ends], [*ends, sizes.pool], strict=True):
        batch, counts = pool[first:end], None
        if case.takes_rows and drawn.random() < 0.3:
            counts = counts_of([drawn.randint(0, len(batch)) for _ in range(n - 1)], len(batch))
        index = index_of(case.given(batch, counts))
        options = {"rows": counts} if case.takes_rows else case.options(batch)
        wrong += case.differs(case.call(index, **options), batch, counts)
    return torch.as_tensor(wrong)


def index_of(rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int64).to(device)


def graph_of(case: Case, rows: int) -> Callable[[list[int]], Any]:
    """A captured call for batches of so many rows, as a function of the batch; on ``stream``."""
    index = index_of(case.given(list(range(rows)), None))
    with torch.cuda.stream(stream):
        case.call(index)  # the workspace grows, and kernels are compiled, outside the capture
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        got = case.call(index)

    def replay(batch: list[int]) -> Any:
        index.copy_(index_of(case.given(batch, None)))
        graph.replay()
        return case.differs(got, batch, None)

    return replay


def in_graphs(case: Case, drawn: random.Random, splits: int) -> torch.Tensor:
    graphs = {rows: graph_of(case, rows) for cut in CUTS for rows in {cut, sizes.pool - cut}}
    pool, wrong = list(range(sizes.pool)), 0
    with torch.cuda.stream(stream):
        for _ in range(splits):
            cut = drawn.choice(CUTS)
            drawn.shuffle(pool)
            wrong += graphs[cut](pool[:cut]) + graphs[sizes.pool - cut](pool[cut:])
    torch.cuda.synchronize()
    pyshmem.barrier_all()
    return torch.as_tensor(wrong)


def compare(case: Case, splits: int) -> int:
    """Prints how many splits gave other bits; the same calls on all members."""
    drawn, ways = random.Random(f"{case.name} {case.what}"), {}
    ways["eager"] = int(sum(eagerly(case, drawn) for _ in range(splits)))
    if device.type == "cuda" and case.in_graphs:
        ways["graph"] = int(in_graphs(case, drawn, splits))
    print(f"{case.name} {case.what}: {splits} splits, results that differ {ways}", flush=True)
    return sum(ways.values())


with pyshmem.init(device_heap_size="4G" if gpu_count() else "64M") as job:
    n = job.n_pes
    kinds = sys.argv[1].split(",")
    splits = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    numbers = map(int, sys.argv[3].split(",")) if len(sys.argv) > 3 else (0, 1, 2)
    symmetric.register_team()
    device, sizes = torch.device("cpu"), SMALL
    if job.device == "cuda":
        device, sizes = torch.device("cuda", job.gpu), LARGE
        torch.cuda.set_device(device)
        stream = torch.cuda.Stream()
    maker, wrong = Maker(job, sizes, device), 0
    for number in numbers:
        wrong += sum(compare(case, splits) for kind in kinds for case in maker.cases(kind, number))
    assert not wrong, wrong
print("ok", flush=True)
