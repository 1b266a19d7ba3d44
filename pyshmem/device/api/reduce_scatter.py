# SPDX-License-Identifier: BSD-3-Clause
"""Reductions whose result is scattered: each member gets a block of it. An extension.

The order is that of reductions, and so are the bits: member m gets what ``reductions`` would leave in
block m of ``dest``.
"""

from ..faults import OP
from ..groups import Scope
from ..leaf import chosen as leaf
from ..leaf.chosen import address_of, device_function, to_int64
from ..routine import scoped
from ..team.flags import outlined, steps
from ..team.ll import makes_ll
from ..team.rows import near_row, row_my_pe, row_n_pes
from . import reductions
from .collectives import both_usable
from .reductions import stage_room

_OP = OP["reduce_scatter"]


def _make_pulled(scope: Scope, name: str):
    """The way of many bytes: a member loads its block of all sources."""
    rank, size, (gather, gather_four) = scope.rank, scope.size, reductions.make_gathers(name)
    _, start, _, meet_members, end, _ = steps(scope)

    @outlined(scope)
    def combine_block(row, dest, source, nbytes, like):
        step, at = size() << 4, rank() << 4
        while at + 3 * step < nbytes:
            a0, a1, a2, a3 = gather_four(row, source + at, step, like)
            leaf.store_acc16(dest + at, like, a0)
            leaf.store_acc16(dest + at + step, like, a1)
            leaf.store_acc16(dest + at + 2 * step, like, a2)
            leaf.store_acc16(dest + at + 3 * step, like, a3)
            at += 4 * step
        while at < nbytes:
            leaf.store_acc16(dest + at, like, gather(row, source + at, like))
            at += step
        return 0

    @device_function
    def pulled(row, dest, source, nbytes, like):
        epoch = start(row, _OP)
        meet_members(row, epoch, _OP)  # the sources are ready
        combine_block(row, dest, source + row_my_pe(row) * nbytes, nbytes, like)
        end(row, epoch + 1, _OP)  # and have been read

    return pulled


def _reduce_scatter(name: str):
    """The routine of reduction ``name`` at all scopes."""
    types = leaf.require(reductions.FAMILY_OF[name])

    @scoped(f"{name}_reduce_scatter", grid=True, operation=name)
    def make(scope: Scope):
        enter, by_ll, pulled = steps(scope)[0], makes_ll(scope), _make_pulled(scope, name)
        staged = reductions.make_staged(scope, _OP, reductions.make_combine_stage(scope, name))
        small = reductions.make_small(scope, _OP, reductions.make_combine_pieces(scope, name), True)

        def reduce_scatter(team, dest, source, nreduce):
            """Combine blocks of all members by {operation}, in the team's order: member m gets block m.

            ``source`` holds n_pes blocks of ``nreduce`` elements, ``dest`` one; ``dest`` may be the
            caller's own block of ``source``.
            Completes: ``dest`` holds the result and ``source`` may be changed, on return.
            Extension.
            """
            types(dest)
            nreduce, row = to_int64(nreduce), enter(team, _OP)
            if row == 0:
                return
            nbytes, d, s = nreduce * leaf.itemsize_of(dest), address_of(dest), address_of(source)
            # Decided by what is the same on all members.
            if by_ll(row, nbytes):
                small(row, dest, source, nreduce)
                return
            if not both_usable(dest, nreduce, source, nreduce * row_n_pes(row), _OP):
                return
            if near_row(row) and (d | s | nbytes) & 15 == 0 and nbytes > stage_room(row_n_pes(row)):
                pulled(row, d, s, nbytes, dest)
            else:
                staged(row, d, s, nbytes, nbytes, dest)

        return reduce_scatter


for _name in reductions.FAMILY_OF:
    _reduce_scatter(_name)
