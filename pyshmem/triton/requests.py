# SPDX-License-Identifier: BSD-3-Clause
"""Requests of a program to its host, without a reply: chunks for copy engines, prints, posts.

The protocol is that of ``host_proxy/ring.h``, in Triton's language, so that it is one body for GPUs and
for the interpreter. A program sends one request a call, through the ring of its number; ``quiet``
completes them.
"""

import triton
import triton.language as tl

from .chosen import await_host, device_function, fence_all, meet, state, wait
from .words import (
    CELL_WORDS,
    CMP_GE,
    CONTROL_ACKED,
    CONTROL_ASKED,
    CONTROL_CELLS,
    CONTROL_CONSUMED,
    QUIET,
    REQUEST_CALL,
    REQUEST_GET,
    REQUEST_PRINT,
    REQUEST_PUT,
    REQUEST_PUT_SIGNAL,
    REQUEST_RELEASE,
    RING,
    RING_ACKED,
    RING_CONSUMED,
    RING_LOG2,
    RING_PENDING,
    RING_SLOTS,
    RING_TICKET,
    RING_WAIT,
    RINGS,
)

__all__ = ["get_chunk", "post", "print", "put_chunk", "settle"]

_LOW56 = tl.constexpr((1 << 56) - 1)


@device_function
def _words_at(address):
    return address.to(tl.pointer_type(tl.int64))


@device_function
def _program():
    return tl.program_id(0) + tl.num_programs(0) * (
        tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)
    )


@device_function
def _int64(value):
    return tl.cast(value, tl.int64)


@device_function
def _pack(mark, dest, source, value, extra, extra2, pe, kind):
    """pysh_request_pack(): seven words as eight of 56 bits, each with the phase of its ticket."""
    lanes = tl.arange(0, 8)
    words = tl.where(lanes == 0, _int64(dest), tl.where(lanes == 1, _int64(source), _int64(value)))
    words = tl.where(lanes == 3, _int64(extra), tl.where(lanes == 4, _int64(extra2), words))
    words = tl.where(lanes == 5, _int64(pe), tl.where(lanes == 6, _int64(kind), words))
    tops = tl.where(lanes < 7, (words >> 56) & 255, 0) << (8 * (lanes % 7)).to(tl.int64)
    return tl.where(lanes == 7, tl.sum(tops), words & _LOW56) | mark


@device_function
def _tell(kind, dest, source, value, extra, extra2, pe, ctx):
    """Takes a ticket and stores the request, behind all that the program has stored."""
    ring = RING + 4 * (_program() % state(ctx, RINGS))
    control, device = _words_at(state(ctx, ring + 1)), _words_at(state(ctx, ring + 2))
    slots = state(ctx, RING_SLOTS)
    meet()
    ticket = tl.atomic_add(device + RING_TICKET, 1, sem="relaxed", scope="gpu")
    fence_all()
    least = ticket - slots + 1
    consumed = tl.load(device + RING_CONSUMED, volatile=True)
    if consumed < least:
        consumed = wait(control + CONTROL_CONSUMED, CMP_GE, least, -1, RING_WAIT, ctx)
        tl.atomic_max(device + RING_CONSUMED, consumed, sem="relaxed", scope="gpu")
    index = ticket & (slots - 1)
    if consumed >= least:
        phase = (ticket >> state(ctx, RING_LOG2)) % 255 + 1
        slot = _words_at(state(ctx, ring)) + 8 * index
        packed = _pack(phase << 56, dest, source, value, extra, extra2, pe, kind | REQUEST_RELEASE)
        tl.store(slot + tl.arange(0, 8), packed)
        tl.atomic_max(device + RING_PENDING, ticket + 1, sem="relaxed", scope="gpu")
    else:
        # It has waited too long, and gives the ticket up, so that the proxy goes on behind it.
        skipped = control + CONTROL_CELLS + CELL_WORDS * slots + index
        tl.atomic_max(skipped, ticket + 1, sem="relaxed", scope="sys")
    meet()


@device_function
def settle(ctx):
    """Waits for the requests without a reply; two loads a ring when there are none."""
    for k in range(state(ctx, RINGS).to(tl.int32)):
        control = _words_at(state(ctx, RING + 4 * k + 1))
        device = _words_at(state(ctx, RING + 4 * k + 2))
        pending = tl.load(device + RING_PENDING, volatile=True)
        if pending > tl.load(device + RING_ACKED, volatile=True):
            acked = await_host(
                control + CONTROL_ACKED, pending, control + CONTROL_ASKED, QUIET, ctx
            )
            tl.atomic_max(device + RING_ACKED, acked, sem="relaxed", scope="gpu")
            fence_all()


@device_function
def _nbytes(pointer, nelems):
    bits: tl.constexpr = pointer.dtype.element_ty.primitive_bitwidth
    per_element: tl.constexpr = 1 if bits < 8 else bits // 8
    return _int64(nelems) * per_element


@device_function
def put_chunk(dest, source, nelems, pe, ctx, sig_addr=None, signal=1):
    """Have a copy engine copy ``nelems`` elements to ``pe``, while the kernel goes on.

    What the program has stored before is in it.

    Args:
        dest, source: scalar pointers; ``dest`` on the symmetric heap.
        sig_addr: scalar pointer to uint64 or int64 on the device heap, or None: set to ``signal`` on
            ``pe`` behind the data.

    Completes: nothing on return; ``source`` must not change until ``quiet``.
    Faults: what the host finds wrong (a pe or an address that there is not), at the next host call.
    Spec: shmem_put_nbi, shmem_put_signal_nbi.
    """
    nbytes = _nbytes(dest, nelems)
    if sig_addr is None:
        _tell(REQUEST_PUT, _int64(dest), _int64(source), nbytes, 0, 0, _int64(pe), ctx)
    else:
        _tell(
            REQUEST_PUT_SIGNAL, _int64(dest), _int64(source), nbytes, _int64(sig_addr),
            _int64(signal), _int64(pe), ctx,
        )  # fmt: skip


@device_function
def get_chunk(dest, source, nelems, pe, ctx):
    """Have a copy engine copy ``nelems`` elements from ``pe``, while the kernel goes on.

    Completes: nothing on return; ``dest`` has the data after ``quiet``.
    Spec: shmem_get_nbi.
    """
    _tell(REQUEST_GET, _int64(dest), _int64(source), _nbytes(dest, nelems), 0, 0, _int64(pe), ctx)


@device_function
def post(handler, a, b, c, d, ctx):
    """Have the host run a function, and go on; ``quiet`` waits until it has returned.

    Args:
        handler: what ``pyshmem.register_handler`` returned, passed to the kernel.
        a, b, c, d: integers, given as int64.

    Extension.
    """
    _tell(REQUEST_CALL, _int64(a), _int64(b), _int64(c), _int64(d), 0, _int64(handler) << 32, ctx)


@triton.constexpr_function
def _label_word(label, number):
    text = label.encode()[8 * number : 8 * number + 8]
    return int.from_bytes(text.ljust(8, b"\0"), "little", signed=True)


@device_function
def print(label: tl.constexpr, value, ctx):
    """Print a line on the host's standard output: PE, label, value and program.

    Args:
        label: text that stands in the call, at most 24 bytes in UTF-8.
        value: an integer, shown as int64, or a float.

    Completes: as ``post``. Extension.
    """
    first: tl.constexpr = _label_word(label, 0)
    second: tl.constexpr = _label_word(label, 1)
    third: tl.constexpr = _label_word(label, 2)
    shown = tl.where(_program() >= 0, value, value)  # a tensor, of a constant too
    place = _program().to(tl.int64)
    if shown.dtype.is_floating():
        bits = shown.to(tl.float64).to(tl.int64, bitcast=True)
        _tell(REQUEST_PRINT, first, second, third, bits, place, _int64(1) << 32, ctx)
    else:
        _tell(REQUEST_PRINT, first, second, third, shown.to(tl.int64), place, _int64(0), ctx)
