# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that a kernel takes as they are, because no other member reaches their memory.

All are of bytes, in one dimension. Kernels want memory that begins at a multiple of ``ALIGNMENT``, the
parts of one side one behind the other: what does not lie so is copied by its own PE, and nobody else has
to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch

from ...host.collectives.dispatch import ALIGNMENT


def _in_one(parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """A view of all parts, if they lie one behind the other and begin as kernels want it."""
    first = parts[0]
    if first.data_ptr() % ALIGNMENT:
        return None
    if len(parts) == 1:
        return first
    storage = first.untyped_storage().data_ptr()
    if any(
        after.data_ptr() != before.data_ptr() + before.numel()
        or after.untyped_storage().data_ptr() != storage
        for before, after in pairwise(parts)
    ):
        return None
    return first.as_strided((sum(part.numel() for part in parts),), (1,))


class Place:
    """Where a kernel stores: ``flat``, which ``done`` brings to the parts if they lie elsewhere."""

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        whole = _in_one(parts)
        self._parts = parts if whole is None else ()
        count = sum(part.numel() for part in parts)
        self.flat = parts[0].new_empty(count) if whole is None else whole

    def done(self) -> None:
        """The kernel that sets all of ``flat`` is in the stream."""
        if self._parts:
            rows = self.flat.split([part.numel() for part in self._parts])
            for part, row in zip(self._parts, rows, strict=True):
                part.copy_(row)


def source_of(parts: Sequence[torch.Tensor], dest: torch.Tensor, behind: int = 0) -> torch.Tensor:
    """What a kernel loads that stores to ``dest``: the parts, or a copy of them.

    Args:
        parts: one behind the other.
        dest: from ``Place``.
        behind: bytes behind the beginning of ``dest`` at which the parts may begin; elsewhere they may
            not share memory with it, as a part might be gone before it is sent.
    """
    whole = _in_one(parts)
    if whole is None:
        return torch.cat(list(parts)) if len(parts) > 1 else parts[0].clone()
    begin, to = whole.data_ptr(), dest.data_ptr()
    meets = begin < to + dest.numel() and to < begin + whole.numel()
    return whole.clone() if meets and begin != to + behind else whole
