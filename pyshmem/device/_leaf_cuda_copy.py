# SPDX-License-Identifier: BSD-3-Clause
"""Bulk copies: LLVM vectors, so that the compiler schedules and folds addresses."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic, register_jitable
from numba.cuda.typing import signature

from ._ptx import BITS, I32, I64, VOID, asm, i64, load_bits, shared_symbol

__all__ = [
    "bulk_copy", "bulk_room", "copy16", "copy16x4", "copy_narrow", "copy_narrow_x4", "load_near",
    "pull16", "pull16x4", "pull_narrow", "pull_narrow_x4", "store_near",
]  # fmt: skip

_GLOBAL, _GENERIC = 1, 0  # address spaces
_VECTOR = ir.VectorType(I32, 4)


def _piece(nbytes: int) -> Any:
    return _VECTOR if nbytes == 16 else BITS[nbytes]


def _emit_copy(builder: Any, nbytes: int, count: int, pull: bool, args: Any) -> None:
    """``count`` loads, then as many stores, ``args[2]`` bytes apart: the loads fly together.

    A put reads any local memory (generic: shared memory too) and stores to the peer; a pull reads the
    peer past the L1 cache, which would keep what an earlier pull saw.
    """
    dest, source, step = args[0], args[1], args[2]
    offsets = [builder.mul(step, I64(k)) for k in range(count)]
    values = []
    for offset in offsets:
        place = builder.add(source, offset)
        if not pull:
            pointer = builder.inttoptr(place, ir.PointerType(_piece(nbytes), addrspace=_GENERIC))
            value = builder.load(pointer)
            value.align = nbytes
        elif nbytes == 16:
            quad = ir.LiteralStructType([I32] * 4)
            text = "ld.relaxed.sys.global.v4.u32 {$0, $1, $2, $3}, [$4];"
            value = asm(builder, quad, text, "=r,=r,=r,=r,l", [place])
        else:
            value = load_bits(builder, nbytes, place)
        values.append(value)
    space = _GENERIC if pull else _GLOBAL
    for offset, value in zip(offsets, values, strict=True):
        if isinstance(value.type, ir.LiteralStructType):
            vector = ir.Constant(_VECTOR, ir.Undefined)
            for i in range(4):
                vector = builder.insert_element(vector, builder.extract_value(value, i), I32(i))
            value = vector
        pointer = builder.inttoptr(
            builder.add(dest, offset), ir.PointerType(value.type, addrspace=space)
        )
        builder.store(value, pointer).align = nbytes


def _copy16(count: int, pull: bool) -> Any:
    """``f(dest, source, step)``: ``count`` pieces of 16 bytes, both addresses 16-byte aligned."""

    def typing(_context: Any, dest: Any, source: Any, step: Any) -> Any:
        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            _emit_copy(builder, 16, count, pull, args)
            return context.get_dummy_value()

        return signature(types.void, i64, i64, i64), codegen

    return intrinsic(typing)


def _by_width(builder: Any, nbytes: Any, emit: Any) -> None:
    """``emit(width)`` for the one of 8, 4, 2 and 1 that ``nbytes`` is when it runs."""
    done = builder.append_basic_block("done")
    other = builder.append_basic_block("other")
    choice = builder.switch(nbytes, other)
    for width in (8, 4, 2, 1):
        block = builder.append_basic_block(f"width{width}")
        choice.add_case(I64(width), block)
        builder.position_at_end(block)
        emit(width)
        builder.branch(done)
    builder.position_at_end(other)
    builder.unreachable()
    builder.position_at_end(done)


def _copy_narrow(count: int, pull: bool) -> Any:
    """``f(dest, source, step, nbytes)``: pieces of 8, 4, 2 or 1 bytes, chosen when it runs."""

    def typing(_context: Any, dest: Any, source: Any, step: Any, nbytes: Any) -> Any:
        def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
            _by_width(builder, args[3], lambda width: _emit_copy(builder, width, count, pull, args))
            return context.get_dummy_value()

        return signature(types.void, i64, i64, i64, i64), codegen

    return intrinsic(typing)


@intrinsic
def load_near(_context: Any, address: Any, nbytes: Any) -> Any:
    """8, 4, 2 or 1 bytes of any memory of the thread, as int64."""

    def codegen(_context: Any, builder: Any, _s: Any, args: Any) -> Any:
        found = []

        def load(width: int) -> None:
            value = builder.load(builder.inttoptr(args[0], ir.PointerType(BITS[width])))
            value.align = width
            found.append((value if width == 8 else builder.zext(value, I64), builder.block))

        _by_width(builder, args[1], load)
        result = builder.phi(I64)
        for value, block in found:
            result.add_incoming(value, block)
        return result

    return signature(i64, i64, i64), codegen


@intrinsic
def store_near(_context: Any, address: Any, nbytes: Any, bits: Any) -> Any:
    """The other way."""

    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        def store(width: int) -> None:
            value = args[2] if width == 8 else builder.trunc(args[2], BITS[width])
            pointer = builder.inttoptr(args[0], ir.PointerType(BITS[width]))
            builder.store(value, pointer).align = width

        _by_width(builder, args[1], store)
        return context.get_dummy_value()

    return signature(types.void, i64, i64, i64), codegen


_BULK_BYTES = 4096  # of shared memory, for the few threads of a small block

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


@intrinsic
def _bulk(_context: Any, dest: Any, source: Any, shared: Any, nbytes: Any, room: Any) -> Any:
    def codegen(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        narrow = [builder.trunc(arg, I32) for arg in args[3:]]
        asm(builder, VOID, _BULK, "l,l,l,r,r", [*args[:3], *narrow])
        return context.get_dummy_value()

    return signature(types.void, i64, i64, i64, i64, i64), codegen


@intrinsic
def _bulk_buffer(_context: Any) -> Any:
    """Address of the buffer in shared memory, one in a kernel."""

    def codegen(_context: Any, builder: Any, _s: Any, _args: Any) -> Any:
        return shared_symbol(builder, "pyshmem_bulk_buffer", _BULK_BYTES)

    return signature(i64), codegen


@register_jitable
def bulk_room():
    """Bytes that ``bulk_copy`` moves at a time; 0 in all but small blocks."""
    threads = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    if threads > 8:
        return 0
    return _BULK_BYTES // threads - 16


@register_jitable
def bulk_copy(dest, source, nbytes, room):
    """One thread copies, all 16-byte aligned, as fast as a few hundred do by stores."""
    thread = cuda.threadIdx.x + cuda.blockDim.x * (
        cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z
    )
    share = _bulk_buffer() + thread * (room + 16)
    at = 0
    while at < nbytes:
        piece = min(room, nbytes - at)
        _bulk(dest + at, source + at, share, piece, room)
        at += piece


copy16x4, copy16 = _copy16(4, False), _copy16(1, False)
pull16x4, pull16 = _copy16(4, True), _copy16(1, True)
copy_narrow_x4, copy_narrow = _copy_narrow(4, False), _copy_narrow(1, False)
pull_narrow_x4, pull_narrow = _copy_narrow(4, True), _copy_narrow(1, True)
