# SPDX-License-Identifier: BSD-3-Clause
"""A training step of DistributedDataParallel as torch's profiler sees it; a JSON line for each span.

    python -m pyshmem run -n 2 --device none bench/torch_trace.py --out ddp_step.jsonl

PE 0's spans: "what" of the step's parts ("forward", "backward" of a layer, "all_reduce", "optimiser"),
"us_begin" since the step began and "us" in microseconds, "bytes" of a collective. The model has four
layers of 1024 x 1024, each in a bucket of its own; ``docs/pictures`` draws the file.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import pyshmem.interop.torch as symmetric

LAYERS, WIDTH, BATCH = 4, 1024, 256
#: What a span of torch's is, by the end or the whole of its name.
PARTS = {
    "DistributedDataParallel.forward": "forward",
    "MmBackward0": "backward",
    "pyshmem:all_reduce": "all_reduce",
    "Optimizer.step#SGD.step": "optimiser",
}
#: Steps before: in the first calls of a group its members compare what they call.
_FIRST = 40


def spans(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of the step out of what the profiler has written, in order."""
    found = [event for event in trace["traceEvents"] if event.get("name") in PARTS]
    start = min(event["ts"] for event in found)
    rows = []
    for event in sorted(found, key=lambda event: event["ts"]):
        what = PARTS[event["name"]]
        row = {"what": what, "us_begin": round(event["ts"] - start), "us": round(event["dur"])}
        if what == "all_reduce":
            row["bytes"] = 4 * sum(size[0] for size in event["args"]["Input Dims"])
        rows.append(row)
    return rows


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file of spans.")
def main(out: Path) -> None:
    """Run on all PEs."""
    torch.set_num_threads(1)
    symmetric.init_process_group()
    layers: list[torch.nn.Module] = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.ReLU()]
    model = DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=4, gradient_as_bucket_view=True
    )
    optimiser, batch = torch.optim.SGD(model.parameters(), 0.01), torch.randn(BATCH, WIDTH)

    def step() -> None:
        optimiser.zero_grad()
        model(batch).square().mean().backward()
        optimiser.step()

    for _ in range(_FIRST):
        step()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        step()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(file))
        rows = spans(json.loads(file.read_text()))
    if dist.get_rank() == 0:
        out.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
