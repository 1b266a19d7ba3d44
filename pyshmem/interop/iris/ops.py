# SPDX-License-Identifier: BSD-3-Clause
"""``ctx.ops``: products of matrices with a collective, by ``pyshmem.fused``; they need torch.

Outputs are contiguous. ``config`` and ``selector`` say how Iris' kernels are tiled, and are not looked
at: the algorithm is chosen by pyshmem's tables. A ``workspace`` is pyshmem's, and is kept between calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._core.errors import UnsupportedError


@dataclass
class FusedConfig:
    """Iris' parameters of fused kernels; without meaning here."""

    block_size_m: int = 256
    block_size_n: int = 64
    block_size_k: int = 64
    group_size_m: int = 1
    num_sms: int | None = None
    num_xcds: int | None = None
    chunk_size: int | None = None
    cache_modifier: str = ".ca"
    allow_tf32: bool = True
    all_reduce_variant: str = "two_shot"


def _fused() -> Any:
    try:
        from ... import fused
    except ImportError as error:
        raise UnsupportedError(f"ctx.ops needs torch and Triton: {error}") from error
    return fused


class Ops:
    """The fused operations of an ``Iris`` object."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def _end(self, output: Any, result: Any, async_op: bool) -> None:
        if result is not output:
            output.copy_(result)
        if not async_op:
            self._owner.barrier()

    def matmul_all_reduce(
        self, output_tensor: Any, A: Any, B: Any, bias: Any = None, async_op: bool = False,
        config: Any = None, workspace: Any = None,
    ) -> Any:  # fmt: skip
        """``A @ B`` of all ranks added up, on all of them; ``bias`` is added once."""
        result = _fused().matmul_all_reduce(A, B, bias=bias, out=output_tensor)
        self._end(output_tensor, result, async_op)
        return workspace

    def matmul_reduce_scatter(
        self, output_tensor: Any, A: Any, B: Any, bias: Any = None, async_op: bool = False,
        config: Any = None, workspace: Any = None,
    ) -> Any:  # fmt: skip
        """``A @ B`` of all ranks added up: Iris fills the rank's tiles of the output, this all."""
        return self.matmul_all_reduce(output_tensor, A, B, bias, async_op, config, workspace)

    def all_gather_matmul(
        self, output_tensor: Any, A_sharded: Any, B: Any, bias: Any = None, async_op: bool = False,
        config: Any = None, workspace: Any = None,
    ) -> Any:  # fmt: skip
        """The ranks' shards, (M, K / ranks), side by side, times ``B``, (K, N)."""
        torch, owner = self._owner._torch, self._owner
        _fused()
        height, width = A_sharded.shape
        if width * owner.num_ranks != B.shape[0]:
            raise ValueError(
                f"A_sharded has {width} columns on each of {owner.num_ranks} ranks, B {B.shape[0]} rows"
            )
        shard = owner._symmetric((height, width), A_sharded.dtype)
        shard.copy_(A_sharded)
        parts = owner._symmetric((owner.num_ranks * height, width), A_sharded.dtype)
        owner.ccl.all_gather(parts, shard, async_op=True)
        whole = parts.view(owner.num_ranks, height, width).transpose(0, 1).reshape(height, -1)
        torch.matmul(whole, B, out=output_tensor)
        if bias is not None:
            output_tensor += bias
        self._end(output_tensor, output_tensor, async_op)
        return workspace

    def matmul_all_gather(
        self, output_tensor: Any, A: Any, B: Any, bias: Any = None, async_op: bool = False,
        config: Any = None, workspace: Any = None,
    ) -> Any:  # fmt: skip
        """The ranks' products ``A @ B``, one below the other; ``B`` is the same on all."""
        result = _fused().all_gather_matmul(A, B, bias=bias, out=output_tensor)
        self._end(output_tensor, result, async_op)
        return workspace
