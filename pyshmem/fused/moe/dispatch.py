# SPDX-License-Identifier: BSD-3-Clause
"""One call of ``expert_dispatch``: what its kernels are given, and what the host waits for."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from typing import Any, NamedTuple

import torch

from ..._torch.staging import capturing
from ...host.teams.team import Team
from ...triton import context
from ...triton.primitives.backend import INTERPRETED
from .._shared.powers import power_of_2
from .._shared.slots import LAUNCH, gather_numbers, programs
from .._shared.workspace import Workspace, workspace
from ..formats.table import BLOCK_FORMATS, global_scale_tensor
from . import dispatch_kernels as kernels
from .copy_engine import TokenCopies, algorithm_of, copies_of
from .copy_engine_kernels import dispatch_by_engine
from .handle import ExpertHandle, sizes_of
from .masked.calls import dispatch_step, nanoseconds
from .numbers import numbers_of, recent_of
from .routing import COLUMNS, Chunks, RoutingTable, chunks_of, constants_of, table_of
from .routing_kernels import Call, Layout, LayoutTile

_FEW_PES = 4  # so many that most tokens go to all of them
_FEW_CELLS = 16 if INTERPRETED else 8192  # of lists that programs lay out without a wait
_CELLS = 8192  # of pairs times experts, laid out at a time
_PAIRS = 1024  # counted at a time
_ROWS = 2  # most tokens in registers; one is made FP8 at a time, and four of them are taken


class _Plan(NamedTuple):
    """What follows from sizes.

    Attributes:
        table: the routing table.
        moves: slots and chunks.
        call: constants of all kernels.
        tile: those of kernels that move tokens.
        layout: those of kernels that lay out.
    """

    table: RoutingTable
    moves: Chunks
    call: Call
    tile: kernels.Tile
    layout: LayoutTile


class _Try(NamedTuple):
    """A try of a call in throughput mode that has been launched.

    Attributes:
        most: how many tokens of each member it has room for.
        made: rows, pairs, offsets.
        counts: scratch, with positions at its end.
        found: tokens and scales, or None as long as they do not move.
    """

    most: int
    made: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    counts: torch.Tensor
    found: tuple[torch.Tensor, torch.Tensor | None] | None


class Dispatch:
    """One call of ``expert_dispatch``.

    Args:
        x, ids: the tokens and their experts, checked.
        experts: how many a member has.
        quantize, global_scale: the format that tokens travel in.
        zeroed: rows that are not written are 0.
        algorithm: the one that the caller wants.
    """

    def __init__(
        self, space: Workspace, team: Team, x: torch.Tensor, ids: torch.Tensor, experts: int,
        quantize: str | None = None, zeroed: bool = False, algorithm: str | None = None,
        global_scale: Any = None,
    ) -> None:  # fmt: skip
        self.space, self.team, self.x, self.ids = space, team, x, ids
        self.experts, self.quantize, self.zeroed = experts, quantize, zeroed
        self.algorithm, self.global_scale = algorithm, global_scale_tensor(global_scale, x)
        self.tokens, self.hidden = x.shape
        self.k = ids.shape[1]

    def _ints(self, *size: int) -> torch.Tensor:
        return self.x.new_empty(size, dtype=torch.int32)

    def _outputs(self, rows: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Tokens and scales."""
        if not self.quantize:
            make = self.x.new_zeros if self.zeroed else self.x.new_empty
            return make((rows, self.hidden)), None
        made = sizes_of(self.quantize, rows, self.hidden)
        tokens, scales = (self.x.new_empty(size, dtype=dtype) for size, dtype in made)
        return tokens, scales

    def _plan(self, most: int) -> _Plan:
        """For ``most`` tokens of each member."""
        key = (
            "dispatch", most, self.hidden, self.x.itemsize, self.k, self.experts, self.quantize,
            self.global_scale is not None,
        )  # fmt: skip
        plan: _Plan = self.space.plan(key, lambda: self._new_plan(most))
        return plan

    def _row_bytes(self) -> int:
        """Of a token as it travels."""
        if not self.quantize:
            return int(self.hidden * self.x.itemsize)
        made = sizes_of(self.quantize, 1, self.hidden)
        return sum(size[1] * dtype.itemsize for size, dtype in made)

    def _new_plan(self, most: int) -> _Plan:
        table = table_of(self.space, most * self.k)
        moves = chunks_of(self.space, most, self.hidden, self._row_bytes())
        most_rows = power_of_2(moves.shape.rows)
        width, experts = power_of_2(self.k), power_of_2(self.experts + 3)
        tile = kernels.Tile(
            FORMAT=self.quantize or "",
            ALL=self.space.n_pes <= _FEW_PES,
            TR=1 if self.quantize else min(_ROWS, most_rows),
            TT=min(2 * _ROWS if self.quantize else _ROWS, most_rows),
            TC=min(COLUMNS, power_of_2(self.hidden)),
            GLOBAL=self.global_scale is not None,
            WIDTH=self.hidden if self.quantize else 0,
        )
        layout = LayoutTile(
            width, experts, TB=max(1, _CELLS // (width * experts)), TN=max(1, _PAIRS // width)
        )
        return _Plan(table, moves, constants_of(self.space, self.k), tile, layout)

    def _pairs_for(self, most: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Where the layout goes that a handle has: rows, pairs, offsets."""
        n, k = self.space.n_pes, self.k
        return self._ints(n * most * k), self._ints(n, most, k), self._ints(self.experts + 1)

    def _scratch(self, positions: int) -> torch.Tensor:
        """What programs count, and behind it positions."""
        return self._ints(2 * programs() * power_of_2(self.experts + 3) + positions)

    def _dest(self, out: torch.Tensor, scales: Any) -> kernels.Dest:
        """As kernels see them."""
        if not self.quantize:
            return kernels.Dest(out, out)
        blocks = self.quantize in BLOCK_FORMATS
        return kernels.Dest(out.view(torch.uint8), scales.view(torch.uint8) if blocks else scales)

    def _given(self) -> kernels.Given:
        unit = self.x if self.global_scale is None else self.global_scale
        return kernels.Given(self.x, self.ids, unit)

    def _handle(
        self, mode: str, scales: Any, rows: torch.Tensor, pairs: torch.Tensor,
        offsets: torch.Tensor, tokens: torch.Tensor,
    ) -> ExpertHandle:  # fmt: skip
        return ExpertHandle(
            rows, offsets, scales, mode, self.team, self.ids, pairs, tokens.shape[0],
            self.global_scale, came=weakref.ref(tokens),
        )  # fmt: skip

    def in_one_kernel(self, most: int) -> tuple[torch.Tensor, ExpertHandle]:
        """Decoding."""
        n, plan = self.space.n_pes, self._plan(most)
        out, scales = self._outputs(n * most)
        made = rows, pairs, offsets = self._pairs_for(most)
        layout, counts = plan.layout, offsets
        if n * most * self.k <= _FEW_CELLS:
            own = power_of_2(-(-n * most // programs()))
            layout = layout._replace(TO=own, TB=max(1, _CELLS // (own * layout.KP**2)))
        else:
            counts = self._scratch(0)
        if most:
            kernels.dispatch_decode[(2 * programs(),)](
                self._dest(out, scales), Layout(*made, counts), self._given(),
                self.tokens, most, self.experts, plan.table, *plan.moves, context(), CALL=plan.call,
                TILE=plan.tile, LAYOUT=layout, **LAUNCH,
            )  # fmt: skip
        else:
            offsets.zero_()
        return out, self._handle("decode", scales, rows, pairs, offsets, out)

    def in_step(
        self, most: int, weights: torch.Tensor, timeout: float
    ) -> tuple[torch.Tensor, ExpertHandle]:
        """Decoding that goes on without members which are late."""
        n = self.space.n_pes
        out, scales = self._outputs(n * most)
        made = rows, pairs, offsets = self._pairs_for(most)
        tile = kernels.Tile(
            FORMAT=self.quantize or "", ALL=True, TR=1, TT=1,
            TC=min(COLUMNS, power_of_2(self.hidden)), GLOBAL=self.global_scale is not None,
            WIDTH=self.hidden if self.quantize else 0,
        )  # fmt: skip
        step, mask = dispatch_step(
            self.space, self._given(), weights, most, self.experts, self._dest(out, scales),
            self._row_bytes(), tile, made, nanoseconds(timeout),
        )  # fmt: skip
        handle = self._handle("decode", scales, rows, pairs, offsets, out)
        return out, dataclasses.replace(handle, mask=mask, step=step)

    def by_counts(self, given: int | None) -> tuple[torch.Tensor, ExpertHandle]:
        """Throughput, where a member has at most ``given`` tokens; without it, room is guessed."""
        if capturing():
            raise RuntimeError(
                "expert_dispatch waits for the number of rows, which a captured stream cannot: "
                "mode='decode' with max_tokens does not"
            )
        if given == 0:
            out, handle = self.in_one_kernel(0)
            return out, dataclasses.replace(handle, mode="throughput")
        return self._until_all_fit(given)

    def _until_all_fit(
        self, given: int | None, begun: _Try | None = None
    ) -> tuple[torch.Tensor, ExpertHandle]:
        """Try until there is room for all tokens. ``begun``: the first try, if it has been launched.

        A member that is interrupted while it waits for numbers owes the others what comes behind: if
        they try again, or move tokens, they wait for it. And it has to guess as they do in later calls.
        """
        recent = recent_of(self.space)
        while True:
            if begun is None:
                most = recent.guess(self.space, self.tokens) if given is None else given
                self.space.agree("room of expert_dispatch", tokens=most)
                begun = self._begin(most)
            try:
                total, count, wrong, cells = numbers_of(self.space).wait()
            except RuntimeError:
                raise
            except BaseException:
                self.space.owed = functools.partial(self._until_all_fit, given, begun)
                raise
            there = -(-cells // self.k)
            if given is None:
                recent.add(there)
            done = self._end(begun, total, count, wrong)
            if there <= begun.most:
                return done
            begun = None

    def _begin(self, most: int) -> _Try:
        """One try with room for ``most`` tokens of each member."""
        n, plan, numbers = self.space.n_pes, self._plan(most), numbers_of(self.space)
        # Where most of the room would be used it is taken at once, and tokens move while the host waits.
        early = n <= 2 * self.k
        copies = self._copies(most, early)
        made = self._pairs_for(most)
        counts, words = self._scratch(n * most), numbers.next()
        layout, given = Layout(*made, counts), self._given()
        sizes = self.tokens, most, self.experts, plan.table
        fixed = {"CALL": plan.call, "LAYOUT": plan.layout, **LAUNCH}
        found = self._outputs(n * most) if early else None
        if found is not None and copies is not None:
            fixed["TILE"] = plan.tile
            self._by_engine(copies, found[0], (layout, words, given, *sizes), fixed)
        elif found is not None:
            kernels.dispatch_at_once[(2 * programs(),)](
                self._dest(*found), layout, words, given, *sizes, *plan.moves, context(),
                TILE=plan.tile, **fixed,
            )  # fmt: skip
        else:
            kernels.lay_out_experts[(2 * programs(),)](
                layout, words, self.ids, *sizes, context(), **fixed
            )
        return _Try(most, made, counts, found)

    def _copies(self, most: int, early: bool) -> TokenCopies | None:
        """How copy engines move the tokens, or None if slots are the call's algorithm."""
        why = None
        if self.quantize:
            why = f"tokens are made {self.quantize.upper()} by the kernel that sends them"
        elif not early:
            why = f"the {self.space.n_pes} members are more than twice the {self.k} experts of a token"
        nbytes = self.hidden * self.x.itemsize
        algorithm = algorithm_of(self.space, most, nbytes, self.k, why, self.algorithm)
        return copies_of(self.space, most, nbytes) if algorithm == "copy_engine" else None

    def _by_engine(
        self,
        copies: TokenCopies,
        out: torch.Tensor,
        given: tuple[Any, ...],
        fixed: dict[str, Any],
    ) -> None:
        """Tokens leave at once; the kernel lays out rows while they are on their way."""
        copies.send(self.x, min(self.tokens, copies.most))
        dispatch_by_engine[(2 * programs(),)](
            out, *given, copies.arrivals(out.dtype), copies.step, copies.nbytes, self.hidden, context(),
            **fixed,
        )  # fmt: skip
        copies.end(out)

    def _end(
        self, begun: _Try, total: int, count: int, wrong: int
    ) -> tuple[torch.Tensor, ExpertHandle]:
        """What it gives, with so many pairs and rows.

        Raises: ValueError (``wrong`` experts that there are not).
        """
        if wrong:
            raise ValueError(self._what_is_wrong(wrong))
        out, scales = self._outputs(count) if begun.found is None else begun.found
        if begun.found is None:
            positions = begun.counts[-self.space.n_pes * begun.most :]
            self._move(out, scales, positions, begun.most)
        rows, pairs, offsets = begun.made
        scales = None if scales is None else scales[:count]
        out = out[:count]
        return out, self._handle("throughput", scales, rows[:total], pairs, offsets, out)

    def _what_is_wrong(self, count: int) -> str:
        """For people: the first of the members' experts that there are not. Collective."""
        n_experts = self.space.n_pes * self.experts
        found = ((self.ids < -1) | (self.ids >= n_experts)).nonzero()
        mine = -1, 0
        if len(found):
            token, choice = found[0].tolist()
            mine = token, int(self.ids[token, choice])
        every = enumerate(gather_numbers(self.space, *mine).tolist())
        member, token, number = next((m, t, e) for m, (t, e) in every if t >= 0)
        return (
            f"topk_ids of the members have {count} experts that there are not, the first of them "
            f"{number} of token {token} of member {member}; they are 0 to {n_experts - 1}, or -1 for "
            "none"
        )

    def _move(self, out: torch.Tensor, scales: Any, positions: torch.Tensor, most: int) -> None:
        """Tokens go where ``positions`` says."""
        plan = self._plan(most)
        kernels.dispatch_tokens[(2 * programs(),)](
            self._dest(out, scales), positions, self._given(), self.tokens, most,
            self.experts, *plan.moves, context(), CALL=plan.call, TILE=plan.tile, **LAUNCH,
        )  # fmt: skip


def dispatch_again(
    x: torch.Tensor, ids: torch.Tensor, positions: torch.Tensor, rows: int, experts: int,
    team: Team,
) -> torch.Tensor:  # fmt: skip
    """Other rows by the way of a dispatch, of which ``positions``, (members, most), are known.

    Returns: (rows, hidden); rows that no position names are 0.
    """
    out = x.new_zeros((rows, x.shape[1]))
    if positions.shape[1]:
        call = Dispatch(workspace(team), team, x, ids, experts)
        call._move(out, None, positions, positions.shape[1])
    return out
