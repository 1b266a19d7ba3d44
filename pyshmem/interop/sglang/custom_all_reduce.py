# SPDX-License-Identifier: BSD-3-Clause
"""The interface of SGLang's custom all-reduce, and where SGLang is told of it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..engine import TensorParallel

#: SGLang's function that gives a group the class of its custom all-reduce.
TARGET = "sglang.srt.distributed.device_communicators.custom_all_reduce.dispatch_custom_allreduce"
_GROUP = "tp:cpu"  # what SGLang calls the group for objects of its tensor parallel group


def register() -> None:
    """Tell SGLang of ``dispatch``; what its plug-in is. SGLang applies it when all plug-ins are loaded.

    Raises: ImportError (no SGLang, or one before plug-ins).
    Extension.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(TARGET, dispatch, HookType.AROUND)


def dispatch(plain: Callable[..., Any], group: Any, device: Any) -> Any:
    """The class of a group's custom all-reduce.

    Args:
        plain: SGLang's own function.
        group: SGLang's group for objects on the CPU.
        device: this member's.

    Returns: ``AllReduce`` for the tensor parallel group, batch invariant in SGLang's deterministic
        inference; for others what ``plain`` gives.
    Extension.
    """
    if getattr(group, "group_desc", "") == _GROUP:
        from sglang.srt.environ import envs

        deterministic = bool(envs.SGLANG_ENABLE_DETERMINISTIC_INFERENCE.get())
        return functools.partial(AllReduce, batch_invariant=deterministic)
    return plain(group=group, device=device)


class AllReduce:
    """What a group of SGLang calls its custom all-reduce; the members become a job.

    Tensors of floating-point numbers up to half of the staging memory (8 MiB) are summed here, others
    where SGLang sums what its custom all-reduce does not take.

    Args:
        group: SGLang's group for objects on the CPU.
        device: this member's: a device of torch, its name, or the number of a GPU.
        batch_invariant: the bits of a row do not depend on the batch, so tensors of all sizes are taken.
        options: sizes that SGLang may give its own class; they are not looked at.

    Attributes:
        disabled: SGLang sets it for a time.

    Completes: in the order of the current stream; may be captured in CUDA graphs.
    Raises: as ``pyshmem.init``; SGLang then says so and adds by NCCL.
    Extension.
    """

    def __init__(
        self, group: Any, device: Any, *, batch_invariant: bool = False, **options: Any
    ) -> None:
        named = f"cuda:{device}" if isinstance(device, int) else device
        self._members: TensorParallel | None = TensorParallel(
            group, torch.device(named), batch_invariant
        )
        self.disabled = self.original_disabled = False

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Around SGLang's captures; nothing has to be done for them."""
        yield

    def should_custom_ar(self, inp: torch.Tensor) -> bool:
        """Whether ``custom_all_reduce`` takes a tensor; the same on all members."""
        return not self.disabled and self._members is not None and self._members.takes(inp)

    def custom_all_reduce(self, input: torch.Tensor) -> torch.Tensor | None:
        """The members' sum, as a new tensor; None: it is not taken. Collective over the group."""
        if self._members is None or not self.should_custom_ar(input):
            return None
        return self._members.sum(input)

    def fused_allreduce_rmsnorm(
        self, input_: torch.Tensor, residual_inp_: torch.Tensor, weight_: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The normalised sum of the members' rows and of the residual, and the sum, by one kernel.

        None: it is not taken. Collective over the group. SGLang asks its custom all-reduce for it
        with AMD's GPUs alone.
        """
        if self._members is None or self.disabled:
            return None
        return self._members.sum_and_norm(input_, residual_inp_, weight_, eps)

    def close(self) -> None:
        """Leave the job. Collective over the group."""
        if self._members is not None:
            self._members.leave()
            self._members = None
            self.disabled = True
