# SPDX-License-Identifier: BSD-3-Clause
"""Tokens and sums of experts by copy engines: all rows go, and who receives takes its own.

Two GPUs that store to each other at once move fewer bytes over NVLink than copy engines do: 282 and
366 GB/s each way on H200s. So where nearly every token has an expert on every member, it costs less to
send all of them than to choose.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch

from .._core import errors
from ..triton import context
from ..triton.chosen import INTERPRETED
from . import experts_engine_kernels as kernels
from .experts_travel import BLOCK, COLUMNS, LISTERS, lists_of
from .launches import Launch, current_stream
from .links import CHUNKS, Beside, Link, beside
from .powers import power_of_2
from .roads import NEVER, choose
from .slots import LAUNCH, number_of, programs
from .workspace import Workspace, device_heap_is_near

ROADS = "slots", "engine"
_DEFAULT = ((NEVER, "slots"),)
_MOST_SHARE = (
    0.77  # of the tokens go to a member: with fewer, all of them take longer than those do
)
_PIECES = 3 if INTERPRETED else 8  # of a member's rows; a word holds up a copy engine for a moment
_UNIT = (
    4  # rows that the extent of a piece is a multiple of, and so of what a program takes at a time
)


def why_no_engine(space: Workspace) -> str | None:
    """Why copy engines cannot do a call of a team, or None."""
    if not device_heap_is_near():
        return "copies and words of a stream do not reach all peers (PYSHMEM_P2P=0, or other hosts)"
    return None


def road_of(
    space: Workspace, operation: str, most: int, nbytes: int, k: int, why: str | None, road: str | None
) -> str:  # fmt: skip
    """The road of a call with ``most`` rows of ``nbytes`` bytes a member.

    Its rows go by the bytes of the rows, or by 0 where too few tokens go to a member for copy engines.

    Args:
        k: experts of a token.
        why: why copy engines cannot do it, if that is known.
        road: the one that the caller wants.
    """
    share = 1 - (1 - 1 / space.n_pes) ** k
    size = most * nbytes if share >= _MOST_SHARE and space.n_pes > 1 else 0
    can = {"slots": None, "engine": why or why_no_engine(space)}
    return choose(space, operation, size, can, _DEFAULT, road)


class Pieces(NamedTuple):
    """A member's rows as they travel.

    Attributes:
        link: by which they come.
        most: rows of a member, at most.
        step: rows of a piece.
        nbytes: of a row.
    """

    link: Link
    most: int
    step: int
    nbytes: int

    def places(self, dtype: torch.dtype) -> tuple[torch.Tensor, int, torch.Tensor, int]:
        """As kernels see them: the block, elements of a slot, words, rows of a piece."""
        block, slot = self.link.block.view(dtype), self.link.slot // dtype.itemsize
        return block, slot, self.link.full_words(), self.step

    def bounds(self, rows: int) -> list[int]:
        """Where the pieces of so many rows begin, and the end; no piece is empty."""
        return [*range(0, rows, self.step), rows]

    def send(
        self, member: int, piece: int, begin: int, end: int, source: int, side: Beside
    ) -> None:  # fmt: skip
        """One piece, of rows that start at address ``source``, behind what is on ``side``."""
        if piece == 0:
            self.link.claim(member, side.handle)
        at = begin * self.nbytes
        nbytes = (end - begin) * self.nbytes
        self.link.send(member, at, source + at, nbytes, piece, side.handle)

    def end(self, side: Beside, stream: int | None) -> None:
        """Behind the kernel that has taken them all: the next call may send."""
        link = self.link
        link.full_words().zero_()
        for k in range(1, link.n_pes):
            link.release((link.me + k) % link.n_pes, stream)
        side.join(stream)


def pieces_of(space: Workspace, most: int, nbytes: int) -> Pieces | None:
    """For ``most`` rows of ``nbytes`` bytes of each member; None if the device heaps have no room.

    Heaps are alike, so all members come to the same. What was found is kept until the workspace grows.
    """

    def make() -> Pieces | None:
        try:
            link = Link(space, "rows of experts", most * nbytes)
        except errors.HeapExhausted:
            return None
        return Pieces(link, most, -(-most // (_PIECES * _UNIT)) * _UNIT, nbytes)

    made: Pieces | None = space.plan(("rows of experts", most, nbytes), make)
    return made


def send_tokens(pieces: Pieces, x: torch.Tensor, tokens: int) -> None:
    """``tokens`` tokens to all others; ``pieces.end`` follows, behind the kernel that takes theirs."""
    side, link = beside(x.device), pieces.link
    side.fork(current_stream())
    bounds = pieces.bounds(tokens)
    for k in range(1, link.n_pes):
        member = (link.me + k) % link.n_pes
        for piece, (begin, end) in enumerate(itertools.pairwise(bounds)):
            pieces.send(member, piece, begin, end, x.data_ptr(), side)


def combine_by_engine(
    space: Workspace, pieces: Pieces, result: torch.Tensor, y: torch.Tensor, pairs: torch.Tensor,
    weights: torch.Tensor, ids: torch.Tensor, experts: int,
) -> None:  # fmt: skip
    """``expert_combine``: sums for the others leave in pieces; the own ones are made meanwhile."""
    (tokens, k), hidden = ids.shape, y.shape[1]
    stream, side, n = current_stream(), beside(y.device), space.n_pes
    key = (
        "combine by engine", pieces.most, hidden, y.dtype, weights.dtype, ids.dtype, k, experts,
    )  # fmt: skip
    first, rest, last = space.plan(
        key, lambda: _launches(space, pieces, y.dtype, hidden, k, experts)
    )
    sums = y.new_empty((n - 1, pieces.most, hidden))
    sum_up = first
    for i in range(n - 1):
        member, made = (space.me + 1 + i) % n, sums[i]
        for piece, (begin, end) in enumerate(itertools.pairwise(pieces.bounds(pieces.most))):
            sum_up((made, y, pairs, weights), (tokens, begin, end, member))
            sum_up = rest
            side.fork(stream)
            pieces.send(member, piece, begin, end, made.data_ptr(), side)
    last((result, y, pairs, weights, ids), (tokens,))
    pieces.end(side, stream)


def _launches(
    space: Workspace, pieces: Pieces, dtype: torch.dtype, hidden: int, k: int, experts: int
) -> tuple[Launch, Launch, Launch]:
    """Of sums for others, with the exchange of weights and without it, and of the sums of all."""
    most, lists, grid = pieces.most, lists_of(space, pieces.most * k), 2 * programs()
    fixed = {
        "TEAM": number_of(space), "K": k, "PROGRAMS": programs(),
        "TC": min(COLUMNS // 2, power_of_2(hidden)), **LAUNCH,
    }  # fmt: skip
    sending = {"LISTERS": LISTERS, "BLOCK": BLOCK, **fixed}
    behind = most, *lists, hidden, context()
    first, rest = (
        Launch(kernels.sum_for_member, grid, behind, {"FIRST": exchange, **sending})
        for exchange in (True, False)
    )
    places = most, experts, *lists, *pieces.places(dtype), hidden, context()
    constants = {"PIECES": CHUNKS, "PAIR": space.n_pes == 2, **fixed}
    return first, rest, Launch(kernels.add_what_came, grid, places, constants)
