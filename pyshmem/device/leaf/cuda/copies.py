# SPDX-License-Identifier: BSD-3-Clause
"""Bulk copies: LLVM vectors, so that the compiler schedules and folds addresses."""

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import register_jitable

from .. import ptx as ptx
from ..bulk import BARRIER_BYTES, BULK_BYTES, BULK_THREADS, bulk_share
from ..compiled.llvm import by_width
from ..compiled.small_values import make_near
from ..ptx import BITS, I32, I64, asm, i64, instruction, leaf
from .memory import load_bits, store16_near
from .threads import block_threads, quotient32, thread_in_block

__all__ = [
    "bulk_copy", "bulk_room", "copy16", "copy16x2", "copy16x4", "copy_narrow", "copy_narrow_x4",
    "load16_near", "load_near", "no_bulk_copies", "pull16", "pull16x2", "pull16x4", "pull_narrow",
    "pull_narrow_x4", "store16_near", "store_near",
]  # fmt: skip

_GLOBAL, _GENERIC = 1, 0  # address spaces
_VECTOR = ir.VectorType(I32, 4)


def _load_peer(builder, nbytes: int, place):
    """Past the L1 cache, which would keep what an earlier pull saw."""
    if nbytes < 16:
        return load_bits(builder, nbytes, place)
    quad = ir.LiteralStructType([I32] * 4)
    text = "ld.relaxed.sys.global.v4.u32 {$0, $1, $2, $3}, [$4];"
    words = asm(builder, quad, text, "=r,=r,=r,=r,l", [place])
    vector = ir.Constant(_VECTOR, ir.Undefined)
    for i in range(4):
        vector = builder.insert_element(vector, builder.extract_value(words, i), I32(i))
    return vector


def _load(builder, nbytes: int, place):
    """Any memory of the thread: shared memory too."""
    chunk = _VECTOR if nbytes == 16 else BITS[nbytes]
    value = builder.load(builder.inttoptr(place, ir.PointerType(chunk, addrspace=_GENERIC)))
    value.align = nbytes
    return value


def _store(builder, nbytes: int, place, value, space: int = _GENERIC) -> None:
    pointer = builder.inttoptr(place, ir.PointerType(value.type, addrspace=space))
    builder.store(value, pointer).align = nbytes


def _make_copies(count: int, pull: bool) -> tuple:
    """``f(dest, source, step)`` copies 16 bytes ``count`` times, ``f(..., nbytes)`` 8, 4, 2 or 1.

    Places are ``step`` bytes apart and aligned; all loads come first: they fly together. A put reads any
    local memory and stores to the peer, a pull the other way.
    """

    def emit(builder, nbytes: int, dest, source, step) -> None:
        load, space = (_load_peer, _GENERIC) if pull else (_load, _GLOBAL)
        offsets = [builder.mul(step, I64(k)) for k in range(count)]
        values = [load(builder, nbytes, builder.add(source, offset)) for offset in offsets]
        for offset, value in zip(offsets, values, strict=True):
            _store(builder, nbytes, builder.add(dest, offset), value, space)

    @leaf(types.void)
    def copy16(_context, builder, dest, source, step) -> None:
        emit(builder, 16, dest, source, step)

    @leaf(types.void)
    def copy_narrow(_context, builder, dest, source, step, nbytes) -> None:
        by_width(builder, nbytes, lambda width: emit(builder, width, dest, source, step))

    return copy16, copy_narrow


copy16, copy_narrow = _make_copies(1, pull=False)
copy16x2, _ = _make_copies(2, pull=False)
copy16x4, copy_narrow_x4 = _make_copies(4, pull=False)
pull16, pull_narrow = _make_copies(1, pull=True)
pull16x2, _ = _make_copies(2, pull=True)
pull16x4, pull_narrow_x4 = _make_copies(4, pull=True)


load_near, store_near = make_near(_load, _store)


#: 16 aligned bytes of the heap, which this kernel has not loaded before it met who wrote them: what is
#: read once is not kept in the L1 cache.
load16_near = instruction("ld.global.L1::no_allocate.v2.u64 {$0, $1}, [$2];", "l", results=2)


# A thread's share of the buffer holds its barrier in the last 16 bytes. Loads and stores of the
# copy unit are of another proxy than the thread's own, hence the fence in front; both ends are
# waited for.
_BULK = """{
    .reg .pred p;
    .reg .b64 t;
    .reg .b32 s, b;
    cvta.to.shared.u64 t, $2;
    cvt.u32.u64 s, t;
    add.u32 b, s, $4;
    mbarrier.init.shared::cta.b64 [b], 1;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], $3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [$1], $3, [b];
    LOADED:
    mbarrier.try_wait.parity.shared::cta.b64 p, [b], 0;
    @!p bra LOADED;
    cp.async.bulk.global.shared::cta.bulk_group [$0], [s], $3;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    mbarrier.inval.shared::cta.b64 [b];
}"""


_share = register_jitable(bulk_share)


@leaf(i64)
def _bulk_bytes(_context, builder):
    """Bytes of the buffer, 0 where there are no bulk copies: a constant, but see BULK_SIZE."""
    module = builder.module
    if not ptx.has_bulk_copies():
        return I64(0)
    try:
        size = module.get_global(ptx.BULK_SIZE)
    except KeyError:
        size = ir.GlobalVariable(module, I64, ptx.BULK_SIZE, addrspace=4)
        size.linkage, size.global_constant, size.initializer = "internal", True, I64(BULK_BYTES)
    return builder.load(size)


@leaf(types.void)
def _bulk(_context, builder, dest, source, share, chunk, room) -> None:
    """Nothing where there are no bulk copies: then ``bulk_room`` keeps everybody away."""
    if ptx.has_bulk_copies():
        registers = [builder.trunc(value, I32) for value in (chunk, room)]
        asm(builder, ptx.VOID, _BULK, "l,l,l,r,r", [dest, source, share, *registers])


@leaf(i64)
def _buffer(_context, builder):
    if not ptx.has_bulk_copies():
        return I64(0)
    return ptx.shared_address(builder, ptx.BULK_BUFFER, BULK_BYTES)


@register_jitable
def bulk_room():
    """Bytes that ``bulk_copy`` moves at a time; 0 in all but small blocks."""
    threads = block_threads()
    if threads > BULK_THREADS or _bulk_bytes() == 0:
        return 0
    return _share(quotient32(BULK_BYTES, threads)) - BARRIER_BYTES


@register_jitable
def bulk_copy(dest, source, nbytes, room):
    """One thread copies, all 16-byte aligned, as fast as a few hundred do by stores."""
    share = _buffer() + thread_in_block() * (room + BARRIER_BYTES)
    at = 0
    while at < nbytes:
        chunk = min(room, nbytes - at)
        _bulk(dest + at, source + at, share, chunk, room)
        at += chunk


@leaf(types.void)
def no_bulk_copies(_context, builder) -> None:
    """Marks the module: see ``without_bulk_copies``."""
    builder.module.add_named_metadata(ptx.NO_BULK_COPIES, ["1"])
