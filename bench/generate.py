# SPDX-License-Identifier: BSD-3-Clause
"""Tokens a second of examples/25_torch_generate.py, batch 1: fused operations beside NCCL.

Run: python -m pyshmem run -n 2 bench/generate.py [--hidden 2048,4096] [--layers N] [--invariant].
PE 0 prints JSON lines: the median and all rounds of each way, then how many times NCCL's the rate in
graphs is. Ways take turns; a graph that writes other tokens than eager calls do raises. NCCL's way has
one kernel of torch.compile for residual and norm. Where there is no GPU the tiny model is written
eagerly.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
from options import some_of

import pyshmem
import pyshmem.interop.torch as symmetric

EXAMPLE = Path(__file__).parents[1] / "examples" / "25_torch_generate.py"
STEPS = 128


def the_example() -> Any:
    spec = importlib.util.spec_from_file_location("generate_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@click.command()
@some_of("--hidden", ("2048", "4096"), "Sizes of the models")
@click.option("--layers", type=int, default=None, help="Fewer than the models have.")
@click.option("--invariant", is_flag=True, help="Also the batch-invariant way.")
def main(hidden: tuple[str, ...], layers: int | None, invariant: bool) -> None:
    """Measure, and say each figure."""
    example = the_example()
    torch.set_num_threads(1)  # of each PE
    with pyshmem.init(device_heap_size="1G") as job, torch.no_grad():
        here = torch.device("cuda", job.gpu) if job.device == "cuda" else torch.device("cpu")
        if here.type == "cuda":
            torch.cuda.set_device(here)
        symmetric.init_process_group("nccl" if here.type == "cuda" else "gloo")
        for size in map(int, hidden) if here.type == "cuda" else (64,):
            steps = STEPS if here.type == "cuda" else 4
            rates = example.compare(size, layers, here, steps, invariant)
            medians = {way: round(statistics.median(found), 1) for way, found in rates.items()}
            if job.my_pe == 0:
                for way, found in rates.items():
                    backend, _, how = way.rpartition(", ")
                    row = {"what": "generate", "backend": backend, "pes": job.n_pes, "hidden": size}
                    row |= {"how": how, "tokens_s": medians[way]}
                    print(
                        json.dumps(row | {"rounds": [round(one, 1) for one in found]}), flush=True
                    )
                if here.type == "cuda":
                    times = medians["pyshmem, graph"] / medians["nccl, graph"]
                    row = {"what": "generate", "pes": job.n_pes, "hidden": size}
                    print(json.dumps(row | {"graph_times_nccl": round(times, 3)}), flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
