# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of a dispatch that the host waits for, and what it guesses of the next call."""

from __future__ import annotations

import collections
import time

import torch

from ..._torch.launches import current_stream, torch_stream
from ...triton import context
from .._shared.slots import gather_numbers
from .._shared.workspace import Workspace

_CALLS = 8  # of which a guess is made; as many numbers are kept apart
_NUMBERS = 4
_PATIENCE = 1e-3  # seconds of polling without a pause


class Numbers:
    """Memory of the host that kernels write to: the numbers of a call, each with one more, 0 before.

    Calls have places in turn, so that a call that was interrupted writes to none of the next ones'.
    """

    def __init__(self) -> None:
        self._on_gpu = torch.cuda.is_initialized()
        size = _CALLS, _NUMBERS
        whole = torch.zeros(size, dtype=torch.int64, device="cpu", pin_memory=self._on_gpu)
        self._places = [(row, memoryview(row.numpy())) for row in whole]
        self._turn = self._stream = 0

    def next(self) -> torch.Tensor:
        """Where the kernel of the next call writes."""
        self._turn = (self._turn + 1) % _CALLS
        row, seen = self._places[self._turn]
        self._stream = current_stream() or 0
        for k in range(_NUMBERS):
            seen[k] = 0
        return row

    def wait(self) -> list[int]:
        """The numbers of the last call; its kernel goes on, and what was launched behind it.

        Who is interrupted while it waits may wait for them again.

        Raises: KernelFault, RuntimeError (a kernel ended without them).
        """
        seen = self._places[self._turn][1]
        patient = time.perf_counter() + _PATIENCE
        while not (seen[0] and seen[1] and seen[2] and seen[3]):
            if time.perf_counter() > patient:
                ended = not self._on_gpu or torch_stream(self._stream).query()
                if ended and not all(seen):
                    context().data_ptr()  # raises what the kernel has recorded
                    raise RuntimeError("a kernel of expert_dispatch ended before it had counted")
                time.sleep(2e-5)
            else:
                time.sleep(0)  # other threads may have Python
        context().data_ptr()  # a kernel whose wait has expired has counted wrong, and said so
        return [number - 1 for number in seen]


def numbers_of(space: Workspace) -> Numbers:
    """Those of a team."""
    kept: Numbers = space.thing("numbers of experts", 0, Numbers)
    return kept


class Recent:
    """The most tokens that a member had in each of the last calls, which is the same on all members."""

    def __init__(self) -> None:
        self._most: collections.deque[int] = collections.deque(maxlen=_CALLS)

    def guess(self, space: Workspace, tokens: int) -> int:
        """For how many tokens of a member a call has room, at least 1; collective the first time."""
        if not self._most:
            self.add(int(gather_numbers(space, tokens).max()))
        most = max(self._most)
        step = max(1, (1 << most.bit_length()) >> 4)
        return max(1, -(-most // step) * step)

    def add(self, most: int) -> None:
        """A call had them."""
        self._most.append(most)


def recent_of(space: Workspace) -> Recent:
    """That of a team."""
    kept: Recent = space.thing("recent tokens", 0, Recent)
    return kept
