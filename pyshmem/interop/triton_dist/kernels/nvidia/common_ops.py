# SPDX-License-Identifier: BSD-3-Clause
"""``common_ops``: barriers of all ranks, searches in sorted lists.

The barriers of pyshmem keep their flags themselves, so the flags that are given are not touched.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from .....triton.dist import barrier_all_block
from .....triton.ordering import barrier_grid
from .....triton.primitives.job_constants import running_job
from ... import utils

__all__ = [
    "BarrierAllContext", "barrier_all_intra_node_atomic_cas_block", "barrier_all_intra_node_non_atomic",
    "barrier_all_intra_node_non_atomic_block", "barrier_all_on_stream", "bisect_left_kernel",
    "bisect_left_kernel_aligned", "bisect_right_kernel", "bisect_right_kernel_aligned",
    "next_power_of_2",
]  # fmt: skip


@triton.jit(do_not_specialize=["local_rank", "rank", "local_world_size"])
def barrier_all_intra_node_atomic_cas_block(local_rank, rank, local_world_size, symm_flag_ptr):
    """All ranks meet, by one program each."""
    barrier_all_block()


@triton.jit(do_not_specialize=["local_rank", "rank", "num_ranks", "target_value"])
def barrier_all_intra_node_non_atomic_block(local_rank, rank, num_ranks, symm_flags, target_value):
    """All ranks meet, by one program each."""
    barrier_all_block()


@triton.jit(do_not_specialize=["local_rank", "rank", "num_ranks", "target_value"])
def barrier_all_intra_node_non_atomic(
    local_rank, rank, num_ranks, symm_flags, target_value, use_cooperative: tl.constexpr
):
    """All programs of the grids of all ranks meet."""
    barrier_grid(running_job())


class BarrierAllContext:
    """What ``barrier_all_on_stream`` takes; it holds nothing but the ranks.

    Attributes:
        rank, local_rank, num_local_ranks: of the caller.
    """

    def __init__(self, is_intra_node: bool) -> None:
        world = utils.get_triton_dist_world()
        self.is_intra_node = is_intra_node
        self.rank = self.local_rank = world.rank()
        self.num_local_ranks = world.size()


def barrier_all_on_stream(ctx: BarrierAllContext | None, stream: Any = None) -> None:
    """All ranks' streams meet; the host does not wait."""
    utils.nvshmem_barrier_all_on_stream(stream)


@triton.jit
def bisect_left_kernel(sorted_values_ptr, target_values, N: tl.constexpr):
    """For each target how many of ``N`` sorted values are less."""
    count = tl.zeros(target_values.shape, tl.int32)
    for place in range(N):
        count += (tl.load(sorted_values_ptr + place) < target_values).to(tl.int32)
    return count


@triton.jit
def bisect_right_kernel(sorted_values_ptr, target_values, N: tl.constexpr):
    """For each target how many of ``N`` sorted values are not greater."""
    count = tl.zeros(target_values.shape, tl.int32)
    for place in range(N):
        count += (tl.load(sorted_values_ptr + place) <= target_values).to(tl.int32)
    return count


# They differ from the others in what they ask of N alone.
bisect_left_kernel_aligned, bisect_right_kernel_aligned = bisect_left_kernel, bisect_right_kernel


@triton.constexpr_function
def next_power_of_2(n):
    """The least power of two that is not less."""
    return triton.next_power_of_2(n)
