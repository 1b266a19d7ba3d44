# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for the caller's own memory, from kernels."""

from ..faults import OP
from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import device_function
from ..routine import routine, scoped
from ..wait_loop import holds, is_comparison, wait

_standard, _TEST = leaf.require("a"), OP["test"]


def make_wait(scope: Scope, op: int, types):
    """``f(ivar, cmp, cmp_value)``: the leader waits; its value goes to the whole group."""
    rank, share = scope.rank, scope.share

    @device_function
    def wait_for(ivar, cmp, cmp_value):
        types(ivar)
        seen = leaf.cast(ivar, cmp_value)
        if rank() == 0:
            seen = wait(leaf.address_of(ivar), ivar, cmp, seen, op, -1)
        return leaf.cast(ivar, share(leaf.to_int64(seen)))

    return wait_for


@scoped()
def _wait_until(scope: Scope):
    wait_for = make_wait(scope, OP["wait_until"], _standard)

    def wait_until(ivar, cmp, cmp_value):
        """Wait until the caller's own element compares as asked; returns the value it had then.

        Args:
            ivar: array of 32 or 64 bit integers on the device heap, updated by atomics; its first
                element is compared, with the sign of its dtype.
            cmp: CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE.
            cmp_value: value to compare with.

        Faults: after PYSHMEM_TIMEOUT it returns what it saw, and the next host call raises.
        Spec: shmem_wait_until.
        """
        return wait_for(ivar, cmp, cmp_value)

    return wait_until


@routine
def test(ivar, cmp, cmp_value):
    """Whether the caller's own element compares as asked; arguments as for ``wait_until``.

    When it is true, what was stored before the update is visible.
    Spec: shmem_test.
    """
    _standard(ivar)
    leaf.relax()  # who tests in a loop lets the simulator's other threads run
    if not is_comparison(cmp, _TEST):
        return False
    return holds(leaf.read_acquire(leaf.address_of(ivar), ivar), cmp, leaf.cast(ivar, cmp_value))
