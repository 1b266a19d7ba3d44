# SPDX-License-Identifier: BSD-3-Clause
"""Signals from kernels: data with a flag behind it, and waiting for flags."""

from ..._core.contract import SIGNAL
from ..._core.type_table import ATOMIC_OPS
from ..faults import FAULT_CHOICE, OP, record_fault
from ..groups import Scope
from ..leaf import backend as leaf
from ..leaf.backend import address_of, device_function, to_int64
from ..peers import BY_STORES, NOWHERE, beyond, by_owner, in_reach, is_p2p, my_pe, on_peer, reach
from ..ring.cutover import offloads_put
from ..ring.elements import tell_amo
from ..ring.transport import ring_put, ring_put_signal
from ..routine import routine, scoped
from ..team.rows import on_context
from .rma import make_transfer
from .waits import make_wait

SIGNAL_SET, SIGNAL_ADD = SIGNAL.SET, SIGNAL.ADD
_AMO_SET, _AMO_ADD = ATOMIC_OPS.index("set"), ATOMIC_OPS.index("add")

_signal_word = leaf.require("signal")


@device_function
def _is_signal_op(sig_op, op: int) -> bool:
    if sig_op != SIGNAL_SET and sig_op != SIGNAL_ADD:
        record_fault(FAULT_CHOICE, op, -1, sig_op, SIGNAL_ADD)
        return False
    return True


def _make_update(add, replace, releases: bool):
    """``f(sig_addr, signal, sig_op, pe, op)``; ``releases``: the group's earlier stores go with it."""

    @device_function
    def update(sig_addr, signal, sig_op, pe, op):
        if not _is_signal_op(sig_op, op):
            return
        reached = in_reach(sig_addr, 1, sig_addr.size, pe)
        if reached and sig_op == SIGNAL_SET:
            replace(on_peer(sig_addr, pe), signal)
        elif reached and not by_owner(pe):
            add(on_peer(sig_addr, pe), sig_addr, signal)
        elif reached or beyond(sig_addr, 1, sig_addr.size, pe, op) != NOWHERE:
            if releases:
                leaf.fence()
            tell_amo(_AMO_ADD if sig_op == SIGNAL_ADD else _AMO_SET, sig_addr, signal, pe)

    return update


_release_add = device_function(lambda at, _like, signal: leaf.signal_release_add(at, signal))
_deliver = _make_update(_release_add, leaf.signal_release_set, True)
_send = _make_update(leaf.atomic_add, leaf.write64, False)


@device_function
def _by_ring(dest, source, count, sig_addr, signal, sig_op, pe, nbi, op) -> None:
    """One thread asks for data and signal. Copy engines set signals of the device heap only."""
    to, begin, nbytes = address_of(dest), address_of(source), count * leaf.itemsize_of(source)
    if reach(dest, count, min(dest.size, source.size), pe, op) == NOWHERE:
        return
    way = reach(sig_addr, 1, sig_addr.size, pe, op)
    if is_p2p(pe) and way != NOWHERE and (sig_op == SIGNAL_ADD or way != BY_STORES):
        ring_put(to, begin, nbytes, pe, False)
        _deliver(sig_addr, signal, sig_op, pe, op)
    elif way != NOWHERE:
        word = pe | to_int64(sig_op) << 32
        ring_put_signal(to, begin, nbytes, address_of(sig_addr), to_int64(signal), word, nbi)


def _make_put_signal(scope: Scope, op: int, nbi: bool):
    """``f(dest, source, sig_addr, signal, sig_op, pe, nelems, ctx)``."""
    rank, size, sync = scope.rank, scope.size, scope.sync
    transfer_put = make_transfer(scope, put=True)

    @device_function
    def send_both(dest, source, sig_addr, signal, sig_op, pe, nelems, ctx):
        count = source.size if nelems is None else to_int64(nelems)
        nbytes, begin = count * leaf.itemsize_of(source), address_of(source)
        leaf.match(dest, source)
        _signal_word(sig_addr)
        world = on_context(ctx, pe)
        sync()
        if not _is_signal_op(sig_op, op):
            return
        if not is_p2p(world) or (world != my_pe() and offloads_put(nbytes, size(), begin)):
            if rank() == 0:
                _by_ring(dest, source, count, sig_addr, signal, sig_op, world, nbi, op)
            sync()
        elif transfer_put(dest, source, world, count, False, op):
            sync()  # the signal is one thread's, behind the stores of all
            if rank() == 0:
                _deliver(sig_addr, signal, sig_op, world, op)

    return send_both


@scoped()
def _put_signals(scope: Scope) -> tuple:
    complete = _make_put_signal(scope, OP["put_signal"], False)
    # By stores, the source is read by the time the signal goes out.
    start = _make_put_signal(scope, OP["put_signal_nbi"], True)

    def put_signal(dest, source, sig_addr, signal, sig_op, pe, nelems=None, ctx=None):
        """Copy ``source`` into ``dest`` on ``pe``, then update the signal there.

        Whoever sees the signal sees the data. Other puts are not covered without a ``fence``.

        Args:
            dest, source, pe, nelems: as for ``put``.
            sig_addr: uint64 array on the device heap; its first element is the signal.
            signal: value to set or add.
            sig_op: SIGNAL_SET or SIGNAL_ADD.

        Completes: ``source`` may be changed on return.
        Spec: shmem_put_signal.
        """
        complete(dest, source, sig_addr, signal, sig_op, pe, nelems, ctx)

    def put_signal_nbi(dest, source, sig_addr, signal, sig_op, pe, nelems=None, ctx=None):
        """Start what ``put_signal`` does; arguments as there.

        Completes: nothing on return; ``source`` must not change until ``quiet``.
        Spec: shmem_put_signal_nbi.
        """
        start(dest, source, sig_addr, signal, sig_op, pe, nelems, ctx)

    return put_signal, put_signal_nbi


_SIGNAL_OP = OP["signal_op"]


@routine
def signal_op(sig_addr, signal, sig_op, pe, ctx=None):
    """Set or add to a signal on ``pe``; no data goes with it, and no earlier put is ordered.

    Spec: shmem_signal_set, shmem_signal_add (OpenSHMEM 1.6).
    """
    _signal_word(sig_addr)
    _send(sig_addr, signal, sig_op, on_context(ctx, pe), _SIGNAL_OP)


@routine
def signal_set(sig_addr, signal, pe, ctx=None):
    """``signal_op`` with SIGNAL_SET.

    Spec: shmem_signal_set (OpenSHMEM 1.6).
    """
    signal_op(sig_addr, signal, SIGNAL_SET, pe, ctx)


@routine
def signal_add(sig_addr, signal, pe, ctx=None):
    """``signal_op`` with SIGNAL_ADD.

    Spec: shmem_signal_add (OpenSHMEM 1.6).
    """
    signal_op(sig_addr, signal, SIGNAL_ADD, pe, ctx)


@routine
def signal_fetch(sig_addr):
    """The caller's own signal, uint64; later reads see the data behind it.

    Spec: shmem_signal_fetch.
    """
    _signal_word(sig_addr)
    leaf.relax()  # as in test()
    return leaf.read_acquire(address_of(sig_addr), sig_addr)


@scoped()
def _signal_wait_until(scope: Scope):
    wait_for = make_wait(scope, OP["signal_wait_until"], _signal_word)

    def signal_wait_until(sig_addr, cmp, cmp_value):
        """Wait until the caller's own signal compares as asked; returns the value it had then.

        Args:
            sig_addr: uint64 array on the device heap; its first element is the signal.
            cmp: CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE.
            cmp_value: value to compare with.

        Faults: after PYSHMEM_TIMEOUT it returns what it saw, and the next host call raises.
        Spec: shmem_signal_wait_until.
        """
        return wait_for(sig_addr, cmp, cmp_value)

    return signal_wait_until
