# SPDX-License-Identifier: BSD-3-Clause
"""Programs written for torchrun, under ``python -m pyshmem run``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("backend", ["pyshmem", "gloo"])
def test_a_process_group_needs_no_other_launcher(backend: str, run_pes: Callable) -> None:
    run_pes(
        3,
        f"""
        import os
        import torch
        import torch.distributed as dist
        import pyshmem.interop.torch

        dist.init_process_group("{backend}")
        total = torch.ones(3)
        dist.all_reduce(total)
        assert (total == 3).all()
        assert (dist.get_rank(), dist.get_world_size()) == (int(os.environ["PYSHMEM_PE"]), 3)
        dist.destroy_process_group()
        """,
        check=True,
    )


#: The workers are children that a PE forks, while UCX is open.
LOADER = """
import pyshmem, torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, k):
        return torch.full((100,), float(k * k))

if __name__ == "__main__":
    job = pyshmem.init(heap_size="8M", device="none")
    box, total = pyshmem.zeros(1), 0.0
    for batch in DataLoader(Squares(), batch_size=4, num_workers=2):
        total += float(batch[:, 0].sum())
        box[0] = total
        pyshmem.sum_reduce(box, box)
        assert box[0] == total * job.n_pes
    assert total == sum(k * k for k in range(40))
    pyshmem.finalize()
    print("loaded")
"""


def test_workers_of_a_data_loader_beside_ucx(run_command: Callable, tmp_path: Path) -> None:
    script = tmp_path / "loader.py"
    script.write_text(LOADER)
    command = [sys.executable, "-m", "pyshmem", "run", "--hosts", "localhost:1,localhost:1"]
    done = run_command([*command, "--device", "none", str(script)], 200, check=True)
    assert done.stdout == "loaded\n" * 2
