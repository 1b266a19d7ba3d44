# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives on GPUs for packets, data and the number of a call in one access."""

import triton
import triton.language as tl
from triton.language.extra import cuda

from ..runtime.constants import FAULT_TIMEOUT, WAIT_NUMBERS
from .gpu import address_of, kernel_of
from .ptx import packet_text
from .ptx_pairs import pairs_constraints, pairs_text
from .ptx_wide import store_quad_text, store_wide_text, wide_constraints, wide_text


@triton.jit
def await_packets(active, pointer, number, pe, op: tl.constexpr, ctx):
    """The data of a tile's packets of 8 bytes, uint32, when they carry the call's number."""
    kernel: tl.constexpr = kernel_of()
    text: tl.constexpr = packet_text(WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel)
    return tl.inline_asm_elementwise(
        text, "=r,r,l,r,l,l",
        [active.to(tl.int32), pointer, tl.cast(number, tl.uint32), address_of(ctx),
         tl.cast(pe, tl.int64)],
        dtype=tl.uint32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.constexpr_function
def _at_a_time(pairs, threads):
    """How many pairs a thread waits for at a time: all that it surely has, up to four."""
    return max(1, min(4, pairs // threads))


@triton.jit
def await_packet_pairs(active, pointer, number, pe, op: tl.constexpr, ctx):
    """The data of pairs of packets, two tensors of uint32, when both carry the call's number.

    A pair is loaded as one, 16 bytes wide, and up to four of a thread are on the way at a time.
    """
    kernel: tl.constexpr = kernel_of()
    many: tl.constexpr = _at_a_time(active.numel, cuda.num_threads())
    text: tl.constexpr = pairs_text(many, WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel)
    return tl.inline_asm_elementwise(
        text, pairs_constraints(many),
        [active.to(tl.int32), pointer, tl.cast(number, tl.uint32), address_of(ctx),
         tl.cast(pe, tl.int64)],
        dtype=(tl.uint32, tl.uint32), is_pure=False, pack=many,
    )  # fmt: skip


@triton.jit
def store_wide_packets(active, pointer, first, second, third, number):
    """Each element with ``active`` stores a packet of 16 bytes: three words and the call's number."""
    tl.inline_asm_elementwise(
        store_wide_text(), "=r,r,r,r,r,r,l",
        [active.to(tl.int32), first, second, third, tl.cast(number, tl.uint32), pointer],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def await_wide_packets(active, pointer, number, pe, op: tl.constexpr, ctx):
    """The data of packets of 16 bytes, three tensors of uint32, when they carry the call's number.

    Up to four of a thread are on the way at a time.
    """
    kernel: tl.constexpr = kernel_of()
    many: tl.constexpr = _at_a_time(active.numel, cuda.num_threads())
    text: tl.constexpr = wide_text(many, WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel, False)
    return tl.inline_asm_elementwise(
        text, wide_constraints(many, False),
        [active.to(tl.int32), pointer, tl.cast(number, tl.uint32), address_of(ctx),
         tl.cast(pe, tl.int64)],
        dtype=(tl.uint32, tl.uint32, tl.uint32), is_pure=False, pack=many,
    )  # fmt: skip


@triton.jit
def store_quads(active, wide, narrow, first, second, third, fourth, number):
    """Each element with ``active`` stores a wide packet of three words, and one of 8 bytes."""
    tl.inline_asm_elementwise(
        store_quad_text(), "=r,r,r,r,r,r,r,l,l",
        [active.to(tl.int32), first, second, third, fourth, tl.cast(number, tl.uint32), wide, narrow],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
def await_quads(active, wide, narrow, number, pe, op: tl.constexpr, ctx):
    """Four tensors of uint32, as ``store_quads`` takes them, when all packets carry the call's number.

    Up to four quads of a thread are on the way at a time.
    """
    kernel: tl.constexpr = kernel_of()
    many: tl.constexpr = _at_a_time(active.numel, cuda.num_threads())
    text: tl.constexpr = wide_text(many, WAIT_NUMBERS, FAULT_TIMEOUT, op, kernel, True)
    return tl.inline_asm_elementwise(
        text, wide_constraints(many, True),
        [active.to(tl.int32), wide, narrow, tl.cast(number, tl.uint32), address_of(ctx),
         tl.cast(pe, tl.int64)],
        dtype=(tl.uint32, tl.uint32, tl.uint32, tl.uint32), is_pure=False, pack=many,
    )  # fmt: skip
