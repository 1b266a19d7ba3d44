# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.language``, commonly ``dl``: ranks, a peer's pointers, notify and wait."""

from typing import Any

from ...._core.other_names import absent
from ....triton.dist import consume_token, notify, num_ranks, rank, symm_at, wait
from . import extra

__all__ = ["consume_token", "extra", "notify", "num_ranks", "rank", "symm_at", "wait"]

_ABSENT = (
    "simt_exec_region", "extract", "insert", "vector", "make_vector", "zeros_vector", "ld_vector",
    "st_vector", "SharedMemoryDesc", "allocate_smem", "smem_index", "smem_load", "smem_store",
    "smem_get_ptr", "smem_dealloc", "tma", "extern_call",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise absent(
            f"dl.{name}",
            "it needs Triton-distributed's compiler. In stock Triton a program works on tiles; "
            "lanes of tl.arange stand for threads, and pyshmem.gluon has partitions of warps",
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
