# SPDX-License-Identifier: BSD-3-Clause
"""Signals: 64-bit words on the device heap that say that data has come, and waits for words.

Scope is a program: all its threads call, one of them stores or polls. A signal goes out behind all
that the program has stored, and who has waited sees what was stored before the signal.
"""

import triton
import triton.language as tl

from .._core.values import Choice
from .primitives.backend import (
    device_function,
    end_with,
    fetch,
    poll,
    program_barrier,
    reach,
    relaxed_word,
    release_add,
    release_set,
    scan,
    wait,
)
from .primitives.by_proxy import signal_by_proxy
from .primitives.job_constants import all_p2p, is_whole
from .runtime.constants import (
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    FAULT_CHOICE,
    PUT_SIGNAL,
    SIGNAL_ADD,
    SIGNAL_OP,
    SIGNAL_SET,
    SIGNAL_WAIT_UNTIL,
    TEST,
    WAIT_UNTIL,
    WAIT_UNTIL_ALL,
    WAIT_UNTIL_ANY,
)
from .tile import needs_atomics, store_to

__all__ = [
    "CMP_EQ", "CMP_GE", "CMP_GT", "CMP_LE", "CMP_LT", "CMP_NE", "SIGNAL_ADD", "SIGNAL_SET", "put_signal",
    "put_signal_nbi", "signal_fetch", "signal_op", "signal_wait_until", "test", "wait_until",
    "wait_until_all", "wait_until_any",
]  # fmt: skip


@triton.constexpr_function
def _is_number(signal):
    """Refuses a signal operation in the place of the signal's value."""
    if isinstance(signal, Choice):
        signal.refuse_as("signal")
    return True


@triton.constexpr_function
def _constant(choice):
    """Is it known when the kernel is compiled?"""
    return isinstance(getattr(choice, "value", choice), int)


@triton.constexpr_function
def _comparison(cmp, cmp_value):
    """``cmp``, if it is a constant, and a comparison, and ``cmp_value`` is none."""
    if not _constant(cmp):
        raise TypeError("cmp of a wait is a constant: one of CMP_EQ to CMP_LE, or a tl.constexpr")
    if isinstance(cmp, Choice):
        cmp.refuse_as("cmp")
    if isinstance(cmp_value, Choice):
        cmp_value.refuse_as("cmp_value")
    if not CMP_EQ.value <= cmp <= CMP_LE.value:
        raise ValueError(f"cmp is {cmp}; it is CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE")
    return cmp


@triton.constexpr_function
def _is_sig_op(sig_op):
    if isinstance(sig_op, Choice):
        sig_op.refuse_as("sig_op")
    if sig_op not in (SIGNAL_SET.value, SIGNAL_ADD.value):
        raise ValueError(f"sig_op is {sig_op}; it is SIGNAL_SET or SIGNAL_ADD")
    return True


@device_function
def _check_change(signal, sig_op, op: tl.constexpr, ctx):
    """Ends the program, before anything is stored, if there is no such operation."""
    tl.static_assert(_is_number(signal))
    if _constant(sig_op):
        tl.static_assert(_is_sig_op(sig_op))
    elif (sig_op != SIGNAL_SET) & (sig_op != SIGNAL_ADD):
        end_with(FAULT_CHOICE, op, sig_op, SIGNAL_ADD, ctx)


@triton.constexpr_function
def _is_integer(dtype, least):
    return dtype.is_int() and dtype.primitive_bitwidth in (least, 64)


@device_function
def _integer(pointer):
    """Refuses what is no scalar pointer to a word that can be waited for."""
    tl.static_assert(
        not pointer.type.is_block(), "one word at a scalar pointer, not a tensor of pointers"
    )
    tl.static_assert(
        _is_integer(pointer.dtype.element_ty, 32),
        "waits and tests are of integers of 32 or 64 bits",
    )


@device_function
def check_signal(pointer):
    """Refuses what is no scalar pointer to a signal."""
    tl.static_assert(
        not pointer.type.is_block(), "one signal at a scalar pointer, not a tensor of pointers"
    )
    tl.static_assert(
        _is_integer(pointer.dtype.element_ty, 64), "a signal is a 64-bit integer (uint64 or int64)"
    )


_RELEASE = tl.constexpr("release")


@device_function
def _deliver(sig_addr, signal, sig_op, pe, op: tl.constexpr, ctx, sem: tl.constexpr = _RELEASE):
    check_signal(sig_addr)
    tl.static_assert(is_whole(pe))
    tl.static_assert(not tl.cast(pe, tl.int64).type.is_block(), "a signal is for one PE")
    if all_p2p():
        remote = reach(sig_addr, 8, pe, op, ctx)
        if sig_op == SIGNAL_ADD:
            needs_atomics(pe, op, ctx)
            if sem == "relaxed":
                relaxed_word(True, remote, signal)
            else:
                release_add(remote, signal)
        elif sem == "relaxed":
            relaxed_word(False, remote, signal)
        else:
            release_set(remote, signal)
    else:
        signal_by_proxy(sig_addr, signal, sig_op, pe, op, ctx)


@device_function
def signal_op(sig_addr, signal, sig_op, pe, ctx, sem: tl.constexpr = _RELEASE):
    """Set or add to the signal on ``pe``, behind all that this program has stored.

    Args:
        sig_addr: scalar pointer to uint64 or int64 on the device heap.
        signal: value to set or add.
        sig_op: SIGNAL_SET or SIGNAL_ADD.
        pe: PE whose word is changed.
        sem: "release", or "relaxed": the signal alone, in no order with what was stored. It goes out at
            once, where a release first waits for the stores: it saves some 0.6 us.

    Faults: a ``pe``, an address or a ``sig_op`` that there is not ends the program; the next host call
        raises.
    Example: ``shmem.signal_op(sig, 1, shmem.SIGNAL_ADD, right, ctx)``
    Spec: shmem_signal_set, shmem_signal_add (OpenSHMEM 1.6).
    """
    tl.static_assert(sem == "release" or sem == "relaxed", "sem is release or relaxed")
    _check_change(signal, sig_op, SIGNAL_OP, ctx)
    _deliver(sig_addr, signal, sig_op, pe, SIGNAL_OP, ctx, sem)


@device_function
def put_signal(dest, source, sig_addr, signal, sig_op, pe, ctx, mask=None):
    """Copy the tile at ``source`` here to ``dest`` on ``pe``, then update the signal there.

    ``dest`` and ``source`` are tensors of pointers; the rest as for ``signal_op``.
    Completes: ``source`` may be changed on return.
    Example: ``shmem.put_signal(dest + offs, source + offs, sig, 1, shmem.SIGNAL_SET, right, ctx)``
    Spec: shmem_put_signal.
    """
    _check_change(signal, sig_op, PUT_SIGNAL, ctx)
    store_to(dest, tl.load(source, mask=mask), pe, PUT_SIGNAL, ctx, mask)
    _deliver(sig_addr, signal, sig_op, pe, PUT_SIGNAL, ctx)


@device_function
def put_signal_nbi(dest, source, sig_addr, signal, sig_op, pe, ctx, mask=None):
    """The same as ``put_signal``: a tile has been read by the time its signal goes out.

    Example: ``shmem.put_signal_nbi(dest + offs, source + offs, sig, 1, shmem.SIGNAL_ADD, right, ctx)``
    Spec: shmem_put_signal_nbi.
    """
    put_signal(dest, source, sig_addr, signal, sig_op, pe, ctx, mask)


@device_function
def signal_fetch(sig_addr, ctx):
    """The caller's own signal; later loads see the data behind it.

    Example: ``seen = shmem.signal_fetch(sig, ctx)``
    Spec: shmem_signal_fetch.
    """
    check_signal(sig_addr)
    return fetch(sig_addr)


@device_function
def signal_wait_until(sig_addr, cmp: tl.constexpr, cmp_value, ctx, pe=-1):
    """Wait until the caller's own signal compares as asked; the value it had then.

    Args:
        sig_addr: scalar pointer to uint64 or int64 on the device heap.
        cmp: CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT or CMP_LE, known when the kernel is compiled.
        cmp_value: value to compare with.
        pe: whom it waits for, if that is known: reports name it.

    Faults: after PYSHMEM_TIMEOUT it returns what it saw, and the next host call raises.
    Example: ``seen = shmem.signal_wait_until(sig, shmem.CMP_GE, 1, ctx)``
    Spec: shmem_signal_wait_until.
    """
    check_signal(sig_addr)
    return wait(sig_addr, _comparison(cmp, cmp_value), cmp_value, pe, SIGNAL_WAIT_UNTIL, ctx)


@device_function
def wait_until(ivar, cmp: tl.constexpr, cmp_value, ctx, pe=-1):
    """The same for a scalar pointer to an integer of 32 or 64 bits, compared with its sign.

    Example: ``seen = shmem.wait_until(counter, shmem.CMP_GE, 1, ctx)``
    Spec: shmem_wait_until.
    """
    _integer(ivar)
    return wait(ivar, _comparison(cmp, cmp_value), cmp_value, pe, WAIT_UNTIL, ctx)


@device_function
def wait_until_all(ivars, nelems, cmp: tl.constexpr, cmp_value, ctx, BLOCK: tl.constexpr = 128):
    """Wait until each of ``nelems`` words from the scalar pointer ``ivars`` on compares as asked.

    Example: ``shmem.wait_until_all(source, BLOCK, shmem.CMP_GE, 1, ctx)``
    Spec: shmem_wait_until_all.
    """
    _integer(ivars)
    cmp_of_all: tl.constexpr = _comparison(cmp, cmp_value)
    first = tl.cast(0, tl.int32)
    while first < nelems:
        indices = first + tl.arange(0, BLOCK)
        poll(
            (indices < nelems).to(tl.int32),
            ivars + indices,
            cmp_of_all,
            cmp_value,
            -1,
            WAIT_UNTIL_ALL,
            ctx,
        )
        first += BLOCK
    program_barrier()


@device_function
def wait_until_any(ivars, nelems, cmp: tl.constexpr, cmp_value, ctx):
    """Wait until one of ``nelems`` words from the scalar pointer ``ivars`` on compares as asked.

    Returns: its number, int64; -1 at once if ``nelems`` is 0, and after a fault. The lowest that
        compares is found first.
    Example: ``first = shmem.wait_until_any(source, BLOCK, shmem.CMP_GE, 1, ctx)``
    Spec: shmem_wait_until_any.
    """
    _integer(ivars)
    found = tl.cast(-1, tl.int64)
    if nelems > 0:
        found = scan(ivars, nelems, _comparison(cmp, cmp_value), cmp_value, WAIT_UNTIL_ANY, ctx)
    return found


@device_function
def test(ivar, cmp: tl.constexpr, cmp_value, ctx):
    """Whether the caller's own word at a scalar pointer compares as asked.

    If so, what was stored before the update is visible. Here ``cmp`` need be no constant.

    Faults: a ``cmp`` that is no comparison.
    Example: ``come = shmem.test(counter, shmem.CMP_GE, 1, ctx)``
    Spec: shmem_test.
    """
    _integer(ivar)
    if _constant(cmp):
        tl.static_assert(_comparison(cmp, cmp_value) == cmp)
    elif (cmp < CMP_EQ) | (cmp > CMP_LE):
        end_with(FAULT_CHOICE, TEST, cmp, CMP_LE, ctx)
    seen = fetch(ivar)
    wanted = tl.cast(cmp_value, ivar.dtype.element_ty)
    if cmp == CMP_EQ:
        return seen == wanted
    if cmp == CMP_NE:
        return seen != wanted
    if cmp == CMP_GT:
        return seen > wanted
    if cmp == CMP_GE:
        return seen >= wanted
    if cmp == CMP_LT:
        return seen < wanted
    return seen <= wanted
