# SPDX-License-Identifier: BSD-3-Clause
"""Programs written for torchrun, under ``python -m pyshmem run``."""

from __future__ import annotations

from collections.abc import Callable

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
