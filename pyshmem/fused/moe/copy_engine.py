# SPDX-License-Identifier: BSD-3-Clause
"""Tokens by copy engines: all go to all members, and who receives takes those for its experts.

Two GPUs that store to each other at once move fewer bytes over NVLink than copy engines do: 282 and
366 GB/s each way on H200s. So where nearly every token has an expert on every member, it costs less to
send all of them than to choose. (Sums on their way back gain nothing by this: what engines and kernels
then read and write of their own memory takes longer than the link.)
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch

from ..._core import errors
from ..._torch.launches import current_stream
from ...triton.primitives.backend import INTERPRETED
from .._shared.algorithm import NEVER, choose
from .._shared.copy_engine import CopyChannel, side_stream
from .._shared.workspace import Workspace, device_heap_is_p2p
from .copy_engine_kernels import Arrivals

_DEFAULT = ((NEVER, "simple"),)
#: The least part of the tokens that has to go to a member: of fewer, slots move fewer bytes.
_SHARE = 0.77
#: Chunks of a member's tokens, at most ``CHUNKS``: a word holds up a copy engine for a moment.
_CHUNKS = 3 if INTERPRETED else 6
#: What the tokens of a chunk are a multiple of, and so of those that a program takes at a time.
_UNIT = 4


def algorithm_of(
    space: Workspace, most: int, nbytes: int, k: int, why: str | None, algorithm: str | None
) -> str:
    """The algorithm of a dispatch of at most ``most`` tokens of ``nbytes`` bytes a member.

    Rows of its table go by the bytes of all these, or by 0 where too few of them go to a member.

    Args:
        k: experts of a token.
        why: why copy engines cannot do it, if there is a reason in the call.
        algorithm: the one that the caller wants.
    """
    if not device_heap_is_p2p():
        why = "copies and words of a stream do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    n = space.n_pes
    share = 1 - (1 - 1 / n) ** k if n > 1 else 0
    size = most * nbytes if share >= _SHARE else 0
    can = {"simple": None, "copy_engine": why}
    return choose(space, "expert_dispatch", size, can, _DEFAULT, algorithm)


class TokenCopies(NamedTuple):
    """A member's tokens as copy engines move them.

    Attributes:
        channel: by which they come.
        most: how many at most.
        step: how many in a chunk.
        nbytes: of a token.
    """

    channel: CopyChannel
    most: int
    step: int
    nbytes: int

    def arrivals(self, dtype: torch.dtype) -> Arrivals:
        """As kernels see them."""
        block, slot = self.channel.block.view(dtype), self.channel.slot // dtype.itemsize
        return Arrivals(block, slot, self.channel.full_words())

    def send(self, x: torch.Tensor, tokens: int) -> None:
        """The first ``tokens`` tokens to all others. No chunk is empty: nobody would await its word."""
        side, channel, source = side_stream(x.device).handle, self.channel, x.data_ptr()
        side_stream(x.device).fork(current_stream())
        for k in range(1, channel.n_pes):
            member = (channel.me + k) % channel.n_pes
            channel.claim(member, side)  # without tokens, too: the member releases what it was sent
            bounds = itertools.pairwise([*range(0, tokens, self.step), tokens])
            for chunk, (begin, end) in enumerate(bounds):
                at, nbytes = begin * self.nbytes, (end - begin) * self.nbytes
                channel.send(member, at, source + at, nbytes, chunk, side)
        if not tokens:  # the kernel's numbers tell others that they may release: behind the claims
            side_stream(x.device).join(current_stream())

    def end(self, x: torch.Tensor) -> None:
        """Behind the kernel that has taken the others': they may send again."""
        stream, channel = current_stream(), self.channel
        channel.full_words().zero_()
        for k in range(1, channel.n_pes):
            channel.release((channel.me + k) % channel.n_pes, stream)
        side_stream(x.device).join(stream)


def copies_of(space: Workspace, most: int, nbytes: int) -> TokenCopies | None:
    """For ``most`` tokens of ``nbytes`` bytes of each member; None if the device heap has no room.

    Heaps are alike, so all members come to the same. What was found is kept until the workspace grows.
    """

    def make() -> TokenCopies | None:
        try:
            channel = CopyChannel(space, "tokens of experts", most * nbytes)
        except errors.HeapExhausted:
            return None
        return TokenCopies(channel, most, -(-most // (_CHUNKS * _UNIT)) * _UNIT, nbytes)

    made: TokenCopies | None = space.plan(("tokens of experts", most, nbytes), make)
    return made
