# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that a kernel takes as they are, because no other member reaches their memory; and rows.

All are of bytes, in one dimension. Kernels want memory that begins at a multiple of ``ALIGNMENT``, the
parts of one side one behind the other: what does not lie so is copied by its own PE, and nobody else has
to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch

from ..host.collectives.dispatch import ALIGNMENT

_WIDE = torch.complex128  # for 16 bytes, whatever they are
_LONG = 1 << 20  # bytes of a row, from which on a launch for each costs little


def _in_one(parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """A view of all parts, if they lie one behind the other."""
    first = parts[0]
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


def _for_kernels(parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The same, if it begins where kernels want it, too."""
    return None if parts[0].data_ptr() % ALIGNMENT else _in_one(parts)


class Place:
    """Where a kernel stores: ``flat``, which ``done`` brings to the parts if they lie elsewhere."""

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        whole = _for_kernels(parts)
        self._parts = parts if whole is None else ()
        count = sum(part.numel() for part in parts)
        self.flat = parts[0].new_empty(count) if whole is None else whole

    def done(self) -> None:
        """The kernel that sets all of ``flat`` is in the stream."""
        if self._parts:
            rows = self.flat.split([part.numel() for part in self._parts])
            for part, row in zip(self._parts, rows, strict=True):
                part.copy_(row)


def source_of(
    parts: Sequence[torch.Tensor], dest: torch.Tensor | None = None, behind: int = 0
) -> torch.Tensor:
    """What a kernel loads that stores to ``dest``: the parts, or a copy of them.

    Args:
        parts: one behind the other.
        dest: from ``Place``; None: memory that parts are never in.
        behind: bytes behind the beginning of ``dest`` at which the parts may begin; elsewhere they may
            not share memory with it, as a part might be gone before it is sent.
    """
    whole = _for_kernels(parts)
    if whole is None:
        return torch.cat(list(parts)) if len(parts) > 1 else parts[0].clone()
    if dest is None:
        return whole
    begin, to = whole.data_ptr(), dest.data_ptr()
    overlaps = begin < to + dest.numel() and to < begin + whole.numel()
    return whole.clone() if overlaps and begin != to + behind else whole


class Rows:
    """Parts of one length, of which the same columns are copied at a time.

    Short ones that adjoin are copied by one kernel, 16 bytes a thread; others each by itself, which is
    as fast as memory is.
    """

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        whole = _in_one(parts)
        self._parts = parts
        self._matrix = None if whole is None else whole.view(len(parts), -1)

    def load(self, begin: int, end: int, block: torch.Tensor) -> None:
        """Columns ``begin`` to ``end`` into ``block``, row by row."""
        for part, row in self._pairs(begin, end, block):
            row.copy_(part)

    def store(self, begin: int, end: int, block: torch.Tensor) -> None:
        """The other way."""
        for part, row in self._pairs(begin, end, block):
            part.copy_(row)

    def _pairs(
        self, begin: int, end: int, block: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The columns of each part beside their row of ``block``, or all of them as one."""
        matrix, n = self._matrix, len(self._parts)
        if matrix is not None and end - begin < _LONG:
            odd = begin | end | matrix.shape[1] | matrix.data_ptr() | block.data_ptr()
            if odd % _WIDE.itemsize == 0:
                yield matrix[:, begin:end].view(_WIDE), block.view(_WIDE).view(n, -1)
                return
        for part, row in zip(self._parts, block.split(end - begin), strict=True):
            yield part[begin:end], row
