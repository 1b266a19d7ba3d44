# SPDX-License-Identifier: BSD-3-Clause
"""What plug-ins of inference engines have in common: the members of a tensor parallel group as a job."""

from __future__ import annotations

import torch

from .._torch.process_groups import GroupExchange
from .._torch.teams import register_team, staging_of
from ..fused.all_reduce_norm.api import all_reduce_rmsnorm
from ..host.job import runtime

#: What is summed and normalised in one kernel.
FUSED = (torch.float16, torch.bfloat16, torch.float32)
_SUMMED = (*FUSED, torch.float64)


def fusible(part: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether ``all_reduce_rmsnorm`` takes rows of a tensor with that weight."""
    return part.dtype in FUSED and weight.dtype == part.dtype and part.shape[-1] % 8 == 0


class TensorParallel:
    """Sums over the members of a tensor parallel group, each on the current stream.

    The members join in a job where there is none: the ranks of the group are its PEs. ``leave`` ends it.

    Args:
        group: process group of any backend whose members can send each other objects on the CPU.
        device: where the engine has this member's tensors.
        batch_invariant: the bits of a row do not depend on the batch; so tensors of all sizes are taken,
            else those of up to half of the team's staging memory.

    Completes: collective over the group.
    Raises: ValueError (a job that runs already has other PEs, or another GPU), UnsupportedError (members
        on several hosts), and what ``pyshmem.init`` raises.
    """

    def __init__(self, group: object, device: torch.device, batch_invariant: bool = False) -> None:
        self.batch_invariant = batch_invariant
        self._options = {"batch_invariant": True} if batch_invariant else {}
        self.on_gpu = device.type == "cuda"
        exchange = GroupExchange(group, device.index if self.on_gpu else None)
        runtime.init(comm=exchange, device="cuda" if self.on_gpu else None)
        try:
            gpu = runtime.current().gpu
            if self.on_gpu and device.index not in (None, gpu):
                raise ValueError(
                    f"this member's tensors are on {device}, but the job runs with GPU {gpu}"
                )
            self._staged = _staged(torch.empty(0, device=device))
        except BaseException:
            runtime.finalize()
            raise

    def takes(self, x: torch.Tensor) -> bool:
        """The same on all members, whose tensors are of one size and dtype."""
        if x.dtype not in _SUMMED or x.is_cuda != self.on_gpu:
            return False
        return 0 < x.numel() * x.element_size() <= self._staged or self.batch_invariant

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """The members' sum, in the order of the members, as a new tensor. Collective.

        Raises: as ``torch.ops.pyshmem.all_reduce``.
        """
        total: torch.Tensor = torch.ops.pyshmem.all_reduce(x, "sum", 0, True)
        return total

    def sum_and_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The normalised sum of the members' ``x`` and of the residual, and the sum. Collective.

        None: ``all_reduce_rmsnorm`` does not take them, on any member.
        """
        if x.is_cuda != self.on_gpu or not fusible(x, weight):
            return None
        normed, total, _ = all_reduce_rmsnorm(
            x.contiguous(), weight, residual=residual.contiguous(), eps=eps, **self._options
        )
        return normed, total

    def leave(self) -> None:
        """Collective over the members."""
        runtime.finalize()


def _staged(like: torch.Tensor) -> int:
    """Bytes that all PEs' staging takes at once, which is made where there is none.

    Graphs that were captured may have the addresses of what is there.
    """
    try:
        return staging_of(0, like).half
    except ValueError:
        register_team()
        if like.is_cuda:
            _prepare()
        return staging_of(0, like).half


def _prepare() -> None:
    """Load the kernels now, for an engine may capture what it has never run."""
    from ..host.kernels.stream_kernels import prepare

    prepare("sync_all")
    prepare("sum_reduce", dtype=list(_SUMMED))
