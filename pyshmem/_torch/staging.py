# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on any tensors: copied to symmetric memory of their own, combined there, copied back.

A ``Staging`` is a team and a block at the same place on all its members. Tensors of any size go through
it in pieces. On the host a call is done on return; with a stream all of it, copies too, is in the
stream's order, and the caller has made that stream torch's current one.

The block has two halves, used in turn: a kernel's broadcast may store into the ``dest`` of a member that
is not in the call yet (docs/collectives.md), which therefore may not be what that member still copies
from. Who is in call e + 2 has heard in e + 1 of all members, who began it after their copies of e.

On a stream kernels take as it is what no other member reaches: of few bytes all, as members reach only
each other's slots then, else one of the two sides of most routines (``unstaged``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .._core.arrays.checks import StreamLike
from .._core.dtypes import as_dtype, kind_of
from .._core.errors import MismatchError
from ..host.collectives.arguments import REDUCE, element_of
from ..host.collectives.dispatch import do, sides_reached
from ..host.kernels.stream_kernels import prepare
from ..host.teams.team import Team
from .arguments import as_bytes, in_one_row
from .direct import Place, Rows, source_of

_ALIGNMENT = 256  # of a half and of what it is divided into

#: What stands for a reduction of bool, whose bytes are 0 and 1.
_OF_BOOL = {
    "sum": "max", "max": "max", "or": "max", "prod": "min", "min": "min", "and": "min",
    "xor": "xor",
}  # fmt: skip


class Reduction:
    """What to do to elements of a dtype: scale them, combine them, scale the result."""

    def __init__(self, op: str, dtype: torch.dtype, factor: Any = None) -> None:
        """``op``: a reduction of pyshmem, or ``"avg"``; ``factor``: what sources are multiplied by.

        Raises: TypeError (dtype), ValueError (op).
        """
        self.op, self.mean = op, op == "avg"
        self.factor = factor
        name = "sum" if self.mean else op
        if name not in REDUCE:
            raise ValueError(f"op is {op!r}; the reductions are {', '.join([*REDUCE, 'avg'])}")
        if (self.mean or factor is not None) and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"{op} of {dtype}: a mean needs a floating-point or complex dtype")
        self.dtype = dtype
        if dtype == torch.bool:
            name, dtype = _OF_BOOL[name], torch.uint8
        self.number = REDUCE[name]
        self.element = element_of(name, kind_of(as_dtype(dtype)))

    def scaled(self, source: torch.Tensor) -> torch.Tensor:
        """``source``, of bytes, times the factor: itself where there is none."""
        return source if self.factor is None else as_bytes(source.view(self.dtype) * self.factor)

    def scale(self, box: torch.Tensor) -> None:
        """The same in place."""
        if self.factor is not None:
            box.view(self.dtype).mul_(self.factor)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one dimension; a copy where they are not contiguous."""
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return in_one_row(tensor.data)  # nothing to resolve: what else does it takes microseconds
    return in_one_row(tensor.data.resolve_conj().resolve_neg().contiguous())


class Target:
    """A tensor to be set in one dimension, and from there, where it is not contiguous, as it is."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # .data: what a collective writes is no change that autograd should count, as with NCCL.
        self._tensor = tensor.data
        whole = self._tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
        self._whole = whole
        self.flat = in_one_row(self._tensor) if whole else self._tensor.new_empty(tensor.numel())

    def done(self) -> None:
        """All of ``flat`` is set."""
        if not self._whole:
            self._tensor.copy_(self.flat.view(self._tensor.shape))


class Staging:
    """A team with a block of symmetric memory; one collective at a time.

    Args:
        team: the PEs; its members make the same calls in the same order.
        block: bytes on one of the heaps, at the same place on all members.
    """

    def __init__(self, team: Team, block: torch.Tensor) -> None:
        self.team = team
        self.me, self.n_pes = team.my_pe(), team.n_pes()
        half = block.numel() // 2 // _ALIGNMENT * _ALIGNMENT
        self._halves = block[:half], block[half : 2 * half]
        self.half = half  # bytes
        self._turn = ctypes.c_int64(0)  # of which C++ knows the address
        self._prepared = False
        if half < 2 * self.n_pes * _ALIGNMENT:
            raise ValueError(f"{block.numel()} bytes are too few to stage for {self.n_pes} PEs")

    def halves(self) -> list[int]:
        """The addresses of the block's halves."""
        return [int(half.data_ptr()) for half in self._halves]

    def turn_address(self) -> int:
        """Where the number of the half that was used last is, an int64 that lives as long as this."""
        return ctypes.addressof(self._turn)

    # ---- pieces ------------------------------------------------------------------------------------

    def _pieces(
        self, n_rows: int, nbytes: int, width: int = 1, stream: StreamLike = None
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Pieces of ``nbytes`` bytes: begin and end of each, and ``n_rows`` rows as long, side by side.

        ``stream``: given where members store into each other's rows. Captured calls then begin and end
        with a sync, as a replay does not know which half the calls around it use.
        """
        most = self._longest_piece(n_rows) // width * width
        alone = stream is not None and capturing()
        if stream is not None and not alone:
            self.prepare_captures()
        if alone:
            self.team.sync(stream=stream)
        for begin in range(0, nbytes, most):
            length = min(most, nbytes - begin)
            self._turn.value ^= 1
            yield begin, begin + length, self._halves[self._turn.value][: n_rows * length]
        if alone:
            self.team.sync(stream=stream)

    def prepare_captures(self) -> None:
        """Load what calls need in captures, which come behind a call that warms up."""
        if not self._prepared:
            prepare("sync")
            self._prepared = True

    def _longest_piece(self, n_rows: int) -> int:
        return self.half // n_rows // _ALIGNMENT * _ALIGNMENT

    def _apart(
        self, given: list[torch.Tensor], results: list[torch.Tensor], n_rows: int
    ) -> list[torch.Tensor]:
        """``given``, with a copy in place of what a piece of a result would overwrite before it is read.

        A piece is read before the same bytes of results are written. So what begins where a result
        begins may lie there, and what goes in one piece may lie anywhere.
        """
        if max(one.numel() for one in given) <= self._longest_piece(n_rows):
            return given
        spans = [(one.data_ptr(), one.data_ptr() + one.numel()) for one in results]

        def overlaps(one: torch.Tensor) -> bool:
            begin, end = one.data_ptr(), one.data_ptr() + one.numel()
            return any(first < end and begin < last and first != begin for first, last in spans)

        return [one.clone() if overlaps(one) else one for one in given]

    def _reached(self, routine: str, nbytes: int, stream: StreamLike) -> tuple[bool, bool]:
        """Whether other members reach dest and source, of ``nbytes`` from each to each; the same on all.

        Of less than ``nbytes`` they reach no more.
        """
        if stream is None or not nbytes:
            return True, True
        return sides_reached(routine, self.team.handle, nbytes)

    def _combine(
        self, routine: str, what: Reduction, dest: torch.Tensor, source: torch.Tensor,
        stream: StreamLike,
    ) -> None:  # fmt: skip
        """A reduction of what has been scaled."""
        where = dest.data_ptr(), source.data_ptr(), dest.numel() // what.dtype.itemsize
        do(routine, 3, (self.team.handle, what.number, what.element, *where), stream)
        if what.mean:
            dest.view(what.dtype).div_(self.n_pes)

    # ---- collectives -------------------------------------------------------------------------------

    def all_reduce(
        self, dest: torch.Tensor, source: torch.Tensor, what: Reduction, stream: StreamLike = None,
        root: int | None = None,
    ) -> None:  # fmt: skip
        """Combine ``source`` of all PEs into ``dest``, on all or on ``root`` alone."""
        given, target = as_bytes(flat(source)), Target(dest)
        result, wanted = as_bytes(target.flat), root in (None, self.me)
        if self._reached("reduce", given.numel(), stream) == (False, False):
            place = Place([result if wanted else torch.empty_like(given)])
            sent = what.scaled(source_of([given], place.flat))
            self._combine("reduce", what, place.flat, sent, stream)
            place.done()
        else:
            (given,) = self._apart([given], [result], 1)
            for begin, end, box in self._pieces(1, given.numel(), what.dtype.itemsize):
                what.scale(box.copy_(given[begin:end]))
                self._combine("reduce", what, box, box, stream)
                if wanted:
                    result[begin:end].copy_(box)
        if wanted:
            target.done()

    def broadcast(
        self, dest: torch.Tensor, source: torch.Tensor, root: int, stream: StreamLike = None
    ) -> None:
        """Copy ``source`` of ``root`` into ``dest`` of all."""
        given, target = as_bytes(flat(source)), Target(dest)
        result, length = as_bytes(target.flat), given.numel()
        dest_reached, source_reached = self._reached("broadcast", length, stream)
        if not dest_reached:
            self._at_once("broadcast", [result], [given], length, stream, root)
            target.done()
            return
        if self.me == root and not source_reached:
            given = source_of([given])
        (given,) = self._apart([given], [result], 1 + source_reached)
        for begin, end, block in self._pieces(1 + source_reached, length, 1, stream):
            out, box = block[: end - begin], block[-(end - begin) :]
            if self.me == root and source_reached:
                box.copy_(given[begin:end])
            elif self.me == root:
                box = given[begin:end]
            self._bytes("broadcast", out, box, end - begin, stream, root)
            if self.me != root or result.data_ptr() != given.data_ptr():
                result[begin:end].copy_(out)
        target.done()

    def all_gather(
        self, dests: Sequence[torch.Tensor], source: torch.Tensor, stream: StreamLike = None,
        root: int | None = None,
    ) -> None:  # fmt: skip
        """Copy ``source`` of each PE into its ``dests``, as long, on all or on ``root`` alone."""
        given = as_bytes(flat(source))
        wanted, length = root in (None, self.me), given.numel()
        targets = [Target(dest) for dest in dests] if wanted else []
        name = "all_gather" if root is None else "gather"
        self._check_sizes(name, given, targets, self.n_pes if wanted else 0)
        results = [as_bytes(target.flat) for target in targets]
        dest_reached, source_reached = self._reached("fcollect", length, stream)
        if not dest_reached:
            results = results or [given.new_empty(self.n_pes * length)]
            behind = self.me * length  # where the own part may be
            self._at_once("fcollect", results, [given], length, stream, behind=behind)
        else:
            given = given if source_reached else source_of([given])
            rows = Rows(results) if wanted else None
            n_rows = self.n_pes + source_reached
            (given,) = self._apart([given], results, n_rows)
            for begin, end, block in self._pieces(n_rows, length, 1, stream):
                out, box = block[: self.n_pes * (end - begin)], given[begin:end]
                if source_reached:
                    box = block[-(end - begin) :].copy_(box)
                self._bytes("fcollect", out, box, end - begin, stream)
                if rows is not None:
                    rows.store(begin, end, out)
        for target in targets:
            target.done()

    def reduce_scatter(
        self, dest: torch.Tensor, sources: Sequence[torch.Tensor], what: Reduction,
        stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """Combine the caller's one of ``sources`` of all PEs into ``dest``."""
        target, given = Target(dest), [as_bytes(flat(source)) for source in sources]
        result = as_bytes(target.flat)
        length = result.numel()
        if len(given) != self.n_pes or any(g.numel() != length for g in given):
            raise ValueError(
                f"reduce_scatter: {len(given)} inputs of {[g.numel() for g in given]} bytes for "
                f"{self.n_pes} PEs and an output of {length} bytes"
            )
        dest_reached, source_reached = self._reached("reduce_scatter", length, stream)
        place = None if dest_reached else Place([result])
        if place is not None and not source_reached:
            sent = what.scaled(source_of(given, place.flat, -self.me * length))
            self._combine("reduce_scatter", what, place.flat, sent, stream)
        else:
            n_rows = self.n_pes + dest_reached
            rows = Rows(self._apart(given, [result if place is None else place.flat], n_rows))
            for begin, end, block in self._pieces(n_rows, length, what.dtype.itemsize):
                sent = block[: self.n_pes * (end - begin)]
                rows.load(begin, end, sent)
                what.scale(sent)
                out = block[-(end - begin) :] if place is None else place.flat[begin:end]
                self._combine("reduce_scatter", what, out, sent, stream)
                if place is None:
                    result[begin:end].copy_(out)
        if place is not None:
            place.done()
        target.done()

    def all_to_all(
        self, dests: Sequence[torch.Tensor], sources: Sequence[torch.Tensor],
        stream: StreamLike = None, longest: int | None = None,
    ) -> None:  # fmt: skip
        """Copy one of ``sources`` to each PE, into the sender's one of ``dests``.

        ``longest``: bytes of the longest on any PE, where they differ; equal on all PEs.
        """
        self._check_parts(dests, sources)
        given, targets = [as_bytes(flat(one)) for one in sources], [Target(one) for one in dests]
        results = [as_bytes(target.flat) for target in targets]
        if longest is not None:
            self._exchange(results, given, longest, stream)
        else:
            length = given[0].numel()
            self._check_sizes("all_to_all", given[0], targets, self.n_pes)
            if not self._reached("alltoall", length, stream)[0]:
                self._at_once("alltoall", results, given, length, stream)
            else:
                come, go = Rows(results), Rows(self._apart(given, results, 2 * self.n_pes))
                for begin, end, block in self._pieces(2 * self.n_pes, length, 1, stream):
                    box, out = block.view(2, -1)
                    go.load(begin, end, box)
                    self._bytes("alltoall", out, box, end - begin, stream)
                    come.store(begin, end, out)
        for target in targets:
            target.done()

    def _exchange(
        self, results: list[torch.Tensor], given: list[torch.Tensor], longest: int,
        stream: StreamLike,
    ) -> None:  # fmt: skip
        """Parts that are not as long as each other, by pieces as long as those of the longest."""
        given = self._apart(given, results, 2 * self.n_pes)
        for begin, end, block in self._pieces(2 * self.n_pes, longest, 1, stream):
            rows = block.split(end - begin)
            for row, one in zip(rows[: self.n_pes], given, strict=True):
                row[: max(one.numel() - begin, 0)].copy_(one[begin:end])
            self._bytes("alltoall", rows[self.n_pes], rows[0], end - begin, stream)
            for row, one in zip(rows[self.n_pes :], results, strict=True):
                one[begin:end].copy_(row[: max(one.numel() - begin, 0)])

    def scatter(
        self, dest: torch.Tensor, sources: Sequence[torch.Tensor], root: int,
        stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """Copy the caller's one of ``sources`` of ``root`` into ``dest``."""
        target = Target(dest)
        result = as_bytes(target.flat)
        given = [as_bytes(flat(source)) for source in sources] if self.me == root else []
        if self.me == root:
            self._check_sizes("scatter", result, [Target(s) for s in sources], self.n_pes)
        rows = Rows(self._apart(given, [result], 2 * self.n_pes)) if given else None
        for begin, end, block in self._pieces(2 * self.n_pes, result.numel(), 1, stream):
            box, out = block.view(2, -1)
            if rows is not None:
                rows.load(begin, end, box)
            self._bytes("broadcast", out, box, box.numel(), stream, root)
            result[begin:end].copy_(out.view(self.n_pes, -1)[self.me])
        target.done()

    def longest(
        self, dests: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], compares: bool
    ) -> int:
        """Bytes of the longest part of an ``all_to_all`` on any PE; on the host.

        Raises: where it ``compares`` MismatchError, on all PEs (one expects another length than it is
            sent), else ValueError (it expects another than it sends itself).
        """
        self._check_parts(dests, sources)
        if compares:
            self._compare_parts(dests, sources)
        elif dests[self.me].nbytes != sources[self.me].nbytes:
            raise ValueError(
                f"all_to_all: this rank, {self.me}, sends itself {sources[self.me].nbytes} bytes and "
                f"expects {dests[self.me].nbytes}"
            )
        box = torch.tensor([max(one.nbytes for one in [*dests, *sources])])
        self.all_reduce(box, box, Reduction("max", box.dtype))
        return int(box)

    def _compare_parts(
        self, dests: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]
    ) -> None:
        sent, expected = every = torch.zeros(2, self.n_pes, self.n_pes, dtype=torch.int64)
        sent[self.me] = torch.tensor([one.nbytes for one in sources])  # [by whom, to whom]
        expected[:, self.me] = torch.tensor([one.nbytes for one in dests])
        self.all_reduce(every, every, Reduction("max", every.dtype))
        for a, b in (sent != expected).nonzero().tolist():
            raise MismatchError(
                f"all_to_all: rank {a} sends {sent[a, b]} bytes to rank {b}, which expects "
                f"{expected[a, b]}; output splits of a rank are what the others' input splits say"
            )

    def _bytes(
        self, routine: str, dest: torch.Tensor, source: torch.Tensor, nbytes: int,
        stream: StreamLike, *root: int,
    ) -> None:  # fmt: skip
        where = dest.data_ptr(), source.data_ptr()
        do(routine, 1, (self.team.handle, *where, nbytes, *root), stream)

    def _at_once(
        self, routine: str, dests: Sequence[torch.Tensor], sources: Sequence[torch.Tensor],
        nbytes: int, stream: StreamLike, *root: int, behind: int = 0,
    ) -> None:  # fmt: skip
        """One call, of tensors that no other member reaches; ``behind``: as ``source_of`` has it."""
        place = Place(dests)
        sent = source_of(sources, place.flat, behind)
        self._bytes(routine, place.flat, sent, nbytes, stream, *root)
        place.done()

    def _check_parts(self, dests: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
        if len(sources) != self.n_pes or len(dests) != self.n_pes:
            raise ValueError(
                f"all_to_all: {len(sources)} inputs and {len(dests)} outputs for {self.n_pes} PEs"
            )

    def _check_sizes(
        self, routine: str, given: torch.Tensor, targets: Sequence[Target], count: int
    ) -> None:
        sizes = [as_bytes(target.flat).numel() for target in targets]
        if len(sizes) != count or any(size != given.numel() for size in sizes):
            raise ValueError(
                f"{routine}: {given.numel()} bytes of each of {count} PEs, but tensors of {sizes} bytes"
            )


def capturing() -> bool:
    """Whether torch's current stream is captured; a build of torch without CUDA cannot be asked."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
