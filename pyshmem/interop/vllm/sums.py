# SPDX-License-Identifier: BSD-3-Clause
"""A device communicator of vLLM whose tensor parallel group adds by pyshmem."""

from __future__ import annotations

from typing import Any

import torch

from ..engine import TensorParallel

_GROUP = "tp"  # vLLM calls groups "tp:0" and the like


class TensorParallelSums:
    """Goes before a device communicator of vLLM among the bases of a class, and does its ``all_reduce``.

        class Communicator(TensorParallelSums, CudaCommunicator):
            pass

    For the group that vLLM calls ``tp``, which becomes a job; other groups, tensors of whole numbers and
    those of more than half of the staging memory (8 MiB) are left to the other base.

    Args:
        given: those of vLLM's ``DeviceCommunicatorBase``.

    Attributes:
        batch_invariant: of the class: the bits of a row do not depend on the batch, so floating-point
            tensors of all sizes are summed here. In vLLM it is ``VLLM_BATCH_INVARIANT``.

    Completes: in the order of the current stream; may be captured in CUDA graphs.
    Raises: as ``pyshmem.init``, among them UnsupportedError for members on several hosts.
    Example: ``pyshmem.interop.vllm.communicator.Communicator``
    Extension.
    """

    batch_invariant = False

    def __init__(
        self, cpu_group: Any, device: Any = None, device_group: Any = None, unique_name: str = "",
        *given: Any, **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(cpu_group, device, device_group, unique_name, *given, **named)  # type: ignore[call-arg]
        self._members: TensorParallel | None = None
        if unique_name.partition(":")[0] == _GROUP and self.world_size > 1:  # type: ignore[attr-defined]
            self._members = TensorParallel(
                cpu_group, torch.device(device or "cpu"), self.batch_invariant
            )

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The members' sum, as a new tensor. Collective over the group."""
        if self._members is not None and self._members.takes(input_):
            return self._members.sum(input_)
        total: torch.Tensor = super().all_reduce(input_)  # type: ignore[misc]
        return total

    def destroy(self) -> None:
        """Leave the job, and what the other base does. Collective over the group."""
        if self._members is not None:
            self._members.leave()
            self._members = None
        super().destroy()  # type: ignore[misc]
