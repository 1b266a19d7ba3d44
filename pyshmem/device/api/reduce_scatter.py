# SPDX-License-Identifier: BSD-3-Clause
"""Reductions whose result is scattered: each member gets a block of it. An extension.

The order is that of reductions, and so are the bits: member m gets what ``reductions`` would leave in
block m of ``dest``.
"""

from ..faults import OP
from ..groups import Scope
from ..leaf.backend import combine
from ..routine import scoped
from .reductions import FAMILY_OF, Kind, make_combined


def _reduce_scatter(name: str):
    """The routine of reduction ``name`` at all scopes."""

    @scoped(f"{name}_reduce_scatter", grid=True, operation=name)
    def make(scope: Scope):
        kind = Kind(OP["reduce_scatter"], combine(name), scatters=True)
        combined = make_combined(scope, kind, FAMILY_OF[name])

        def reduce_scatter(team, dest, source, nreduce):
            """Combine blocks of all members by {operation}, in the team's order: member m gets block m.

            ``source`` holds n_pes blocks of ``nreduce`` elements, ``dest`` one; ``dest`` may be the
            caller's own block of ``source``.
            Completes: ``dest`` holds the result and ``source`` may be changed, on return.
            Extension.
            """
            combined(team, dest, source, nreduce)

        return reduce_scatter


for _name in FAMILY_OF:
    _reduce_scatter(_name)
