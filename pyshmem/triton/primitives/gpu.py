# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives on GPUs: Triton's language and inline PTX.

What a program's threads do together and what one of them does for all is decided here, once:
``program_barrier`` is that of its threads, ``wait`` polls with one of them and gives all the same value,
and the ``release_*`` store with one thread.
"""

import sys
from types import FrameType

import triton
import triton.language as tl
from triton.language.extra import cuda

from ..runtime import context as job
from ..runtime.constants import (
    AWAITS_QUIET,
    CONTROL_ASKED,
    CONTROL_WAITER,
    DELTA,
    FAR,
    FAULT_ADDRESS,
    FAULT_CLAIM,
    FAULT_FAR,
    FAULT_PE,
    FAULT_RECORD,
    FAULT_TIMEOUT,
    HEAP_BASE,
    HEAP_BYTES,
    MAX_PES,
    N_PES,
    RING_NOTED,
    RING_WAIT,
    STATE_TRACE,
    WAIT_NUMBERS,
)
from .ptx import (
    end_text,
    look_text,
    note_text,
    partition_release_text,
    poll_text,
    reach_text,
    release_text,
    set_text,
    stage_text,
)

device_function = triton.jit
_IN_GLUON = tl.constexpr(False)
_clock_text = tl.constexpr("mov.u64 $0, %globaltimer;")
_fence_text = tl.constexpr("{ fence.acq_rel.sys; mov.b32 $0, $1; }")


@tl.core.builtin
def kernel_of(_semantic=None):
    """The number of the kernel that is being compiled: what its faults carry."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "ast_to_ttir":
        frame = frame.f_back
    if frame is None:
        return tl.constexpr(job.kernel_number("?"))
    return tl.constexpr(job.kernel_number(job.describe_kernel(frame.f_locals["fn"].fn)[0]))


@triton.constexpr_function
def _letter(dtype):
    return "l" if dtype.primitive_bitwidth == 64 else "r"


@triton.jit
def address_of(pointer):
    return tl.cast(pointer, tl.int64)


@triton.jit
def fixed(pointer):
    """The 64-bit word at a pointer, which nobody changes while the kernel runs.

    So the compiler may load it once, and before the loops and the waits that it stands in.
    """
    return tl.inline_asm_elementwise(
        "{ ld.global.b64 $0, [$1]; }", "=l,l", [pointer], dtype=tl.int64, is_pure=True, pack=1
    )


@triton.jit
def load_here(word):
    """A ``fixed`` word is loaded before what comes next, even if it is used only behind that."""
    tl.inline_asm_elementwise(
        "{ .reg .b64 v; mov.b64 v, $1; mov.b32 $0, 0; }", "=r,l", [word], dtype=tl.int32, is_pure=False,
        pack=1,
    )  # fmt: skip


@triton.jit
def state(ctx, word):
    """A word of the state block, int64."""
    return fixed(address_of(ctx).to(tl.pointer_type(tl.int64)) + word)


@tl.core.builtin
def threads(_semantic=None):
    """Of a program, when it is compiled."""
    return cuda.num_threads(_semantic=_semantic)


@triton.jit
def program_barrier():
    """The program's threads meet; what they stored before is seen by all after."""
    tl.debug_barrier()


@tl.core.builtin
def _bulk(_semantic=None):
    """Has the GPU that is compiled for instructions that take many bytes?"""
    return tl.constexpr(int(_semantic.builder.options.arch[2:]) >= 90)


@triton.constexpr_function
def _prefetch_text(nbytes, wide):
    if wide and nbytes is not None:
        return f"{{ cp.async.bulk.prefetch.L2.global [$1], {nbytes}; mov.b32 $0, 0; }}"
    lines = "".join(f"prefetch.global.L2 [$1 + {k}]; " for k in range(0, nbytes or 1, 128))
    return f"{{ {lines}mov.b32 $0, 0; }}"


@triton.jit
def touch(pointer, mask, nbytes):
    """What is about to be touched; the interpreter looks whether it is in the argument's memory."""


@triton.jit
def prefetch(pointers, nbytes: tl.constexpr = None):
    """What is at ``pointers`` comes to the L2 cache; nobody waits for it.

    Of each the line of 128 bytes, or ``nbytes``: then these and the pointers are multiples of 16, and
    from sm_90 on each costs one instruction.
    """
    text: tl.constexpr = _prefetch_text(nbytes, _bulk())
    tl.inline_asm_elementwise(text, "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def now():
    """The clock of kernels, in ns, int64."""
    return tl.inline_asm_elementwise(
        _clock_text, "=l,r", [0], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def write_stage(begin, label: tl.constexpr, ctx, priority: tl.constexpr):
    """One thread writes a stage that ends now, for a timeline."""
    kernel: tl.constexpr = kernel_of()
    text: tl.constexpr = stage_text(STATE_TRACE, label, kernel, priority, _IN_GLUON)
    if _IN_GLUON:
        tl.inline_asm_elementwise(
            text, "=r,l,l,r", [begin, address_of(ctx), _leader()], dtype=tl.int32, is_pure=False, pack=1
        )  # fmt: skip
    else:
        tl.inline_asm_elementwise(
            text, "=r,l,l", [begin, address_of(ctx)], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def yield_turn():
    """Lets the interpreter's other programs run; on a GPU they do by themselves."""


@triton.jit
def fence_all():
    """A fence of every thread, in both directions, for all of the system."""
    tl.inline_asm_elementwise(_fence_text, "=r,r", [0], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def distance_to(pe, ctx):
    """How far the heap of ``pe`` is from this PE's, in bytes; something else if there is no such PE."""
    return state(ctx, DELTA + (tl.cast(pe, tl.int64) & (MAX_PES - 1)))


@triton.jit
def reach_pe(pe, op: tl.constexpr, ctx):
    """How far the heap of ``pe`` is from this PE's, in units of 256 bytes.

    In units the compiler knows that the distance keeps the pointers' alignment. Ends the program if
    there is no such PE.
    """
    kernel: tl.constexpr = kernel_of()
    text: tl.constexpr = reach_text(
        FAULT_CLAIM, FAULT_RECORD, FAR, FAULT_PE, FAULT_ADDRESS, FAULT_FAR, op, kernel, False
    )
    bytes_off = tl.inline_asm_elementwise(
        text, "=l,l,l,l,l",
        [tl.cast(pe, tl.int64), address_of(ctx), state(ctx, N_PES), distance_to(pe, ctx)],
        dtype=tl.int64, is_pure=False, pack=1,
    )  # fmt: skip
    return bytes_off >> 8


@triton.jit
def reach(pointer, nbytes, pe, op: tl.constexpr, ctx):
    """The same place on ``pe`` of a scalar pointer to ``nbytes`` on the device heap.

    Ends the program if there is no such PE or place.
    """
    kernel: tl.constexpr = kernel_of()
    text: tl.constexpr = reach_text(
        FAULT_CLAIM, FAULT_RECORD, FAR, FAULT_PE, FAULT_ADDRESS, FAULT_FAR, op, kernel, True
    )
    address = address_of(pointer)
    bytes_off = tl.inline_asm_elementwise(
        text, "=l,l,l,l,l,l,l,l,l",
        [tl.cast(pe, tl.int64), address_of(ctx), state(ctx, N_PES), distance_to(pe, ctx), address,
         tl.cast(nbytes, tl.int64), address - state(ctx, HEAP_BASE), state(ctx, HEAP_BYTES)],
        dtype=tl.int64, is_pure=False, pack=1,
    )  # fmt: skip
    return (address + bytes_off).to(pointer.dtype)


@triton.jit
def poll(active, pointer, cmp: tl.constexpr, cmp_value, pe, op: tl.constexpr, ctx):
    """Each element with ``active`` waits until the word at its pointer compares; what it saw."""
    kernel: tl.constexpr = kernel_of()
    dtype: tl.constexpr = pointer.dtype.element_ty
    text: tl.constexpr = poll_text(
        dtype.primitive_bitwidth, dtype.is_int_signed(), cmp, False, False,
        WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel, True,
    )  # fmt: skip
    letter: tl.constexpr = _letter(dtype)
    return tl.inline_asm_elementwise(
        text, "=" + letter + ",r,l," + letter + ",l,l",
        [active, pointer, tl.cast(cmp_value, dtype), address_of(ctx), tl.cast(pe, tl.int64)],
        dtype=pointer.dtype.element_ty, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _leader():
    """Of a tensor of one element a thread, the first is 1, the others 0."""
    return (tl.arange(0, 32 * cuda.num_warps()) == 0).to(tl.int32)


@triton.jit
def wait(pointer, cmp: tl.constexpr, cmp_value, pe, op: tl.constexpr, ctx):
    """One thread polls; the others meet it, and all have the value it saw (if it is used at all)."""
    seen = poll(_leader(), pointer, cmp, cmp_value, pe, op, ctx)
    program_barrier()
    return tl.sum(seen)


@triton.jit
def poll_ring(
    active, pointer, cmp: tl.constexpr, cmp_value, ticket, awaits: tl.constexpr, device, control, ctx
):  # fmt: skip
    """``poll`` for a word of the ring's; ``ticket`` waits, for what is of RING_AWAITS.

    ``device`` and ``control`` are the ring's words: where a slow one leaves a note of that.
    """
    kernel: tl.constexpr = kernel_of()
    dtype: tl.constexpr = pointer.dtype.element_ty
    notes: tl.constexpr = note_text("$6", awaits, "$7", RING_NOTED, "$8", CONTROL_WAITER)
    text: tl.constexpr = poll_text(
        dtype.primitive_bitwidth, dtype.is_int_signed(), cmp, False, False,
        WAIT_NUMBERS, FAULT_TIMEOUT, RING_WAIT, kernel, notes,
    )  # fmt: skip
    letter: tl.constexpr = _letter(dtype)
    return tl.inline_asm_elementwise(
        text, "=" + letter + ",r,l," + letter + ",l,l,l,l,l",
        [active, pointer, tl.cast(cmp_value, dtype), address_of(ctx), tl.cast(-1, tl.int64), ticket,
         address_of(device), address_of(control)],
        dtype=pointer.dtype.element_ty, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def wait_ring(
    pointer, cmp: tl.constexpr, cmp_value, ticket, awaits: tl.constexpr, device, control, ctx
):
    """``wait`` for a word of the ring's."""
    seen = poll_ring(_leader(), pointer, cmp, cmp_value, ticket, awaits, device, control, ctx)
    program_barrier()
    return tl.sum(seen)


@triton.jit
def scan(pointer, nelems, cmp: tl.constexpr, cmp_value, op: tl.constexpr, ctx):
    """One thread waits until one of ``nelems`` words compares: its number, or -1 after a fault."""
    kernel: tl.constexpr = kernel_of()
    dtype: tl.constexpr = pointer.dtype.element_ty
    text: tl.constexpr = poll_text(
        dtype.primitive_bitwidth, dtype.is_int_signed(), cmp, True, False,
        WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel, True,
    )  # fmt: skip
    found = tl.inline_asm_elementwise(
        text, "=l,r,l," + _letter(dtype) + ",l,l,l",
        [_leader(), pointer, tl.cast(cmp_value, dtype), address_of(ctx), tl.cast(-1, tl.int64),
         tl.cast(nelems, tl.int64)],
        dtype=tl.int64, is_pure=False, pack=1,
    )  # fmt: skip
    program_barrier()
    return tl.sum(found)


@triton.jit
def await_host(pointer, least, control, device, op: tl.constexpr, ctx):
    """One thread waits until the ring's host, which it asks now and then, has reached ``least``."""
    kernel: tl.constexpr = kernel_of()
    notes: tl.constexpr = note_text(
        "$3", AWAITS_QUIET, "$7", RING_NOTED, "$6", CONTROL_WAITER - 8 * CONTROL_ASKED
    )
    text: tl.constexpr = poll_text(
        64, True, 4, False, True, WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel, notes
    )
    seen = tl.inline_asm_elementwise(
        text, "=l,r,l,l,l,l,l,l",
        [_leader(), pointer, tl.cast(least, tl.int64), address_of(ctx), tl.cast(-1, tl.int64),
         control + CONTROL_ASKED, address_of(device)],
        dtype=tl.int64, is_pure=False, pack=1,
    )  # fmt: skip
    program_barrier()
    return tl.sum(seen)


@triton.jit
def fetch(pointer):
    """The word at a scalar pointer, loaded by one thread with acquire, the same for all."""
    dtype: tl.constexpr = pointer.dtype.element_ty
    seen = tl.inline_asm_elementwise(
        look_text(dtype.primitive_bitwidth), "=" + _letter(dtype) + ",r,l", [_leader(), pointer],
        dtype=pointer.dtype.element_ty, is_pure=False, pack=1,
    )  # fmt: skip
    program_barrier()
    return tl.sum(seen)


@triton.jit
def read_words(active, pointer):
    """The words where ``active``, loaded with acquire: they are here before what follows."""
    dtype: tl.constexpr = pointer.dtype.element_ty
    letter: tl.constexpr = _letter(dtype)
    return tl.inline_asm_elementwise(
        look_text(dtype.primitive_bitwidth), "=" + letter + ",r,l", [active, pointer],
        dtype=pointer.dtype.element_ty, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def set_words(active, pointer, value):
    """Each element with ``active`` stores a 64-bit word, behind what was stored before the barrier."""
    tl.inline_asm_elementwise(
        set_text(), "=r,r,l,l", [active, pointer, tl.cast(value, tl.int64)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _by_one_thread(instruction: tl.constexpr, pointer, value):
    if _IN_GLUON:
        tl.inline_asm_elementwise(
            partition_release_text(instruction), "=r,l,l,r",
            [pointer, tl.cast(value, tl.int64), _leader()], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
    else:
        tl.inline_asm_elementwise(
            release_text(instruction), "=r,l,l", [pointer, tl.cast(value, tl.int64)],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
def release_set(pointer, value):
    """Stores a 64-bit word behind all that the program has stored."""
    program_barrier()
    _by_one_thread("st.release.sys.global.b64", pointer, value)


@triton.jit
def release_add(pointer, value):
    """Adds to a 64-bit word behind all that the program has stored."""
    program_barrier()
    _by_one_thread("red.release.sys.global.add.u64", pointer, value)


@triton.jit
def relaxed_word(adds: tl.constexpr, pointer, value):
    """Stores, or adds to, a 64-bit word, in no order with others."""
    if adds:
        _by_one_thread("red.relaxed.sys.global.add.u64", pointer, value)
    else:
        _by_one_thread("st.relaxed.sys.global.b64", pointer, value)


@triton.jit
def record(kind: tl.constexpr, op: tl.constexpr, a, b, ctx):
    """Keeps a fault, and goes on."""
    kernel: tl.constexpr = kernel_of()
    tl.inline_asm_elementwise(
        end_text(FAULT_CLAIM, FAULT_RECORD, kind, op, kernel, False), "=r,l,l,l",
        [tl.cast(a, tl.int64), tl.cast(b, tl.int64), address_of(ctx)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def end_with(kind: tl.constexpr, op: tl.constexpr, a, b, ctx):
    """Ends the program with a fault."""
    kernel: tl.constexpr = kernel_of()
    tl.inline_asm_elementwise(
        end_text(FAULT_CLAIM, FAULT_RECORD, kind, op, kernel, True), "=r,l,l,l",
        [tl.cast(a, tl.int64), tl.cast(b, tl.int64), address_of(ctx)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def _top(word, place: tl.constexpr):
    return ((word >> 56) & 255) << place


@triton.jit
def store_requests(slot, phase, inside, kind, dest, source, value, extra, extra2, pe):
    """pysh_request_pack() for each element ``inside``: flat tensors of int64, or scalars.

    Seven words as eight of 56 bits, each with the phase of its ticket on top.
    """
    low: tl.constexpr = (1 << 56) - 1
    none = phase * 0
    dest, source, value, extra = none + dest, none + source, none + value, none + extra
    extra2, pe, kind, mark = none + extra2, none + pe, none + kind, phase << 56
    top = _top(dest, 0) | _top(source, 8) | _top(value, 16) | _top(extra, 24)
    top |= _top(extra2, 32) | _top(pe, 40) | _top(kind, 48)
    tl.store(slot, (dest & low) | mark, mask=inside)
    tl.store(slot + 1, (source & low) | mark, mask=inside)
    tl.store(slot + 2, (value & low) | mark, mask=inside)
    tl.store(slot + 3, (extra & low) | mark, mask=inside)
    tl.store(slot + 4, (extra2 & low) | mark, mask=inside)
    tl.store(slot + 5, (pe & low) | mark, mask=inside)
    tl.store(slot + 6, (kind & low) | mark, mask=inside)
    tl.store(slot + 7, top | mark, mask=inside)
