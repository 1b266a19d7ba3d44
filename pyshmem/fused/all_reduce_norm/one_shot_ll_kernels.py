# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of ``all_reduce_rmsnorm`` for few rows: the data crosses once, and carries its own flag.

A packet is 16 bytes: a word of each third of a row, and the number of the call. So a program's tiles are
of words of 4 bytes, THIRD of them in the first two thirds of a row, and the lanes of a warp have packets
that are neighbours: what a warp stores at a time is whole. A word has two elements of 16 bits or one of
32; tuples below have, for each third, its ``per`` elements, in float32.

Programs of one number work together. Each keeps, for two calls in turn, a place for the packets of each
member: who writes a half again has had the packets of the call in between from all others, which they
sent when they had read that half. Where three programs have a row and share its place, all three had:
calls with that many programs have places of their own and are a launch each, which begins when all
programs of the launch before have ended.
"""

# mypy: disable-error-code="assignment,misc"

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ...triton.primitives.backend import (
    INTERPRETED,
    await_wide_packets,
    program_barrier,
    store_wide_packets,
)
from ...triton.runtime.constants import ALL_REDUCE
from ...triton.teams import team_row, world_pe
from .._shared.fp8_kernels import FP8_MAX, fp8_bytes
from .._shared.reduce_kernels import bf16_words, sum_and_max
from ..formats.block_kernels import (
    load_global_scale,
    mxfp8_bytes,
    mxfp8_scales,
    nvfp4_codes,
    nvfp4_scales,
    scale_places,
    size_bits,
)
from .row_kernels import LEAST_SCALE, NO_BLOCKS, p2p_place, pad_scales

_INTERPRETED = tl.constexpr(INTERPRETED)


@triton.constexpr_function
def words_of(third, words, number):
    """Words of a third of a row that has ``words``."""
    return min(third, max(words - number * third, 0))


@triton.constexpr_function
def elements_of(dtype):
    """Elements of a word."""
    return 32 // dtype.primitive_bitwidth


# -- words and their elements --------------------------------------------------------------------------


class PacketsRow(NamedTuple):
    """Constants of a launch, as ``Row``, but that a tile is of a third of a row.

    THIRD words are one, PACKETS the tile of a row's packets, a power of two; GROUP -1 is a scale a row.
    WIDE: all pointers are multiples of 4; what travels is the same without. MEMBERS has the team TEAM.
    PARTS: 3, of few rows in blocks, is a program for each third of a row: each sends a part of the
    packets, gets all and adds up all squares, and finishes its third, for blocks take long. It has one
    row a call.
    """

    HIDDEN: int
    THIRD: int
    PACKETS: int
    NORM: str
    RESIDUAL: bool
    BIAS: bool
    GROUP: int
    WIDE: bool = True
    BLOCKS: Any = NO_BLOCKS
    TEAM: int = 0
    MEMBERS: int = 1
    PARTS: int = 1


@triton.jit
def _element(word, number: tl.constexpr, like):
    """Element ``number`` of words of the dtype at the pointer ``like``, float32."""
    if like.dtype.element_ty.primitive_bitwidth == 32:
        return word.to(tl.float32, bitcast=True)
    elif like.dtype.element_ty == tl.bfloat16:
        if number == 0:
            return (word << 16).to(tl.float32, bitcast=True)
        else:
            return (word & 0xFFFF0000).to(tl.float32, bitcast=True)
    else:
        half = ((word >> 16 * number) & 0xFFFF).to(tl.uint16)
        return half.to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _as_bits(value, like):
    """Rounded to the dtype at ``like``: its bits, uint32."""
    rounded = value.to(like.dtype.element_ty)
    if like.dtype.element_ty.primitive_bitwidth == 32:
        return rounded.to(tl.uint32, bitcast=True)
    else:
        return rounded.to(tl.uint16, bitcast=True).to(tl.uint32)


@triton.jit
def _word(values, first: tl.constexpr, like):
    """Elements from ``first`` on that are a word, rounded to the dtype at ``like``: its bits, uint32."""
    if like.dtype.element_ty == tl.bfloat16 and not _INTERPRETED:
        return bf16_words(values[first], values[first + 1])
    else:
        word = _as_bits(values[first], like)
        if like.dtype.element_ty.primitive_bitwidth == 16:
            word |= _as_bits(values[first + 1], like) << 16
        return word


@triton.jit
def _word_pointer(pointer):
    return pointer.to(tl.pointer_type(tl.uint32))


@triton.jit
def _load_words(pointer, places, inside, WIDE: tl.constexpr):
    """Words of a pointer to elements; WIDE: it is a multiple of 4."""
    bits: tl.constexpr = pointer.dtype.element_ty.primitive_bitwidth
    if WIDE or bits == 32:
        return tl.load(_word_pointer(pointer) + places, mask=inside, other=0)
    else:
        halves = pointer.to(tl.pointer_type(tl.uint16)) + 2 * places
        low = tl.load(halves, mask=inside, other=0).to(tl.uint32)
        return low | (tl.load(halves + 1, mask=inside, other=0).to(tl.uint32) << 16)


@triton.jit
def _store_words(pointer, places, words, inside, WIDE: tl.constexpr):
    bits: tl.constexpr = pointer.dtype.element_ty.primitive_bitwidth
    if WIDE or bits == 32:
        tl.store(_word_pointer(pointer) + places, words, mask=inside)
    else:
        halves = pointer.to(tl.pointer_type(tl.uint16)) + 2 * places
        tl.store(halves, (words & 0xFFFF).to(tl.uint16), mask=inside)
        tl.store(halves + 1, (words >> 16).to(tl.uint16), mask=inside)


@triton.jit
def _load_elements(pointer, places, inside, like, WIDE: tl.constexpr):
    """The elements, float32, at places that are counted in words of the dtype at ``like``."""
    if like.dtype.element_ty.primitive_bitwidth == 32:
        return (tl.load(pointer + places, mask=inside, other=0).to(tl.float32),)
    elif pointer.dtype.element_ty.primitive_bitwidth == 32:
        low = tl.load(pointer + 2 * places, mask=inside, other=0)
        high = tl.load(pointer + 2 * places + 1, mask=inside, other=0)
        return (low, high)
    else:
        word = _load_words(pointer, places, inside, WIDE)
        return (_element(word, 0, pointer), _element(word, 1, pointer))


# -- a row ---------------------------------------------------------------------------------------------


@triton.jit
def _largest(values):
    most = tl.abs(values[0])
    for k in tl.static_range(1, len(values)):
        most = tl.maximum(most, tl.abs(values[k]))
    return most


@triton.jit
def _store_fp8(
    values, first: tl.constexpr, factor, out, places, inside, PER: tl.constexpr, WIDE: tl.constexpr
):
    """The elements of a third, times ``factor``."""
    low = fp8_bytes(values[first] * factor)
    high = low
    if PER == 2:
        high = fp8_bytes(values[first + 1] * factor)
    _store_bytes(low, high, out, places, inside, PER, WIDE)


@triton.jit
def _store_bytes(low, high, out, places, inside, PER: tl.constexpr, WIDE: tl.constexpr):
    """A byte for each element of words; of words of one element ``low`` alone."""
    if PER == 1:
        tl.store(out + places, low, mask=inside)
    elif not WIDE:
        tl.store(out + 2 * places, low, mask=inside)
        tl.store(out + 2 * places + 1, high, mask=inside)
    else:
        both = low.to(tl.uint16) | (high.to(tl.uint16) << 8)
        tl.store(out.to(tl.pointer_type(tl.uint16)) + places, both, mask=inside)


@triton.jit
def _store_row(values, like, out, start, indices, part, WORDS: tl.constexpr, ROW: tl.constexpr):
    """Rounds a row and stores it, or the program's part of it; gives the whole, float32."""
    THIRD: tl.constexpr = ROW.THIRD
    WIDE: tl.constexpr = ROW.WIDE
    PARTS: tl.constexpr = ROW.PARTS
    per: tl.constexpr = elements_of(like.dtype.element_ty)
    stored = ()
    for k in tl.static_range(3):
        word = _as_bits(values[k * per], like)
        if per == 2:
            word |= _as_bits(values[k * per + 1], like) << 16
        inside = indices < words_of(THIRD, WORDS, k)
        if PARTS > 1:
            inside &= part == k
        _store_words(out, start + k * THIRD + indices, word, inside, WIDE)
        for e in tl.static_range(per):
            stored += (_element(word, e, like),)
    return stored


@triton.jit
def _centred(values, indices, HIDDEN: tl.constexpr, WORDS: tl.constexpr, THIRD: tl.constexpr):
    """Without the mean."""
    per: tl.constexpr = HIDDEN // WORDS
    total = values[0]
    for k in tl.static_range(1, 3 * per):
        total += values[k]
    mean = tl.sum(total) / HIDDEN
    centred = ()
    for k in tl.static_range(3 * per):
        inside = indices < words_of(THIRD, WORDS, k // per)
        centred += (tl.where(inside, values[k] - mean, 0.0),)
    return centred


@triton.jit
def _finish(
    values, place, gains, shifts, indices, like, out, scales, global_scale, eps, WORDS: tl.constexpr,
    ROW: tl.constexpr,
):  # fmt: skip
    """Normalises, quantises and stores a row, or a part: ``place``. GROUP as of ``PacketsRow``."""
    number, part = place
    HIDDEN: tl.constexpr = ROW.HIDDEN
    NORM: tl.constexpr = ROW.NORM
    THIRD: tl.constexpr = ROW.THIRD
    GROUP: tl.constexpr = ROW.GROUP
    BIAS: tl.constexpr = ROW.BIAS
    WIDE: tl.constexpr = ROW.WIDE
    per: tl.constexpr = HIDDEN // WORDS
    if NORM == "layer":
        values = _centred(values, indices, HIDDEN, WORDS, THIRD)
    squares = values[0] * values[0]
    unscaled = (values[0] * gains[0],)
    for k in tl.static_range(1, 3 * per):
        squares += values[k] * values[k]
        unscaled += (values[k] * gains[k],)
    start = number.to(tl.int64) * WORDS
    BLOCKS: tl.constexpr = ROW.BLOCKS
    BLOCK_FORMAT: tl.constexpr = BLOCKS.FORMAT
    if GROUP == -1 and not BIAS:
        total, most = sum_and_max(squares, _largest(unscaled))
        scale = tl.rsqrt(total / HIDDEN + eps)
        factor = tl.maximum(most * scale / FP8_MAX, LEAST_SCALE)
        tl.store(scales + number, factor)
        for k in tl.static_range(3):
            places, inside = start + k * THIRD + indices, indices < words_of(THIRD, WORDS, k)
            _store_fp8(unscaled, k * per, scale / factor, out, places, inside, per, WIDE)
    else:
        scale = tl.rsqrt(tl.sum(squares) / HIDDEN + eps)
        scaled = ()
        for k in tl.static_range(3 * per):
            if BIAS:
                scaled += (unscaled[k] * scale + shifts[k],)
            else:
                scaled += (unscaled[k] * scale,)
        if GROUP == 0:
            _store_row(scaled, like, out, start, indices, part, WORDS, ROW)
        elif BLOCK_FORMAT != "":
            GLOBAL: tl.constexpr = BLOCKS.GLOBAL
            PARTS: tl.constexpr = ROW.PARTS
            unit = load_global_scale(global_scale, GLOBAL)
            if PARTS == 1 and per == 2 and BLOCK_FORMAT == "nvfp4":
                _store_nvfp4(scaled, number, like, out, scales, unit, WORDS, ROW)
            for k in tl.static_range(3):
                if PARTS == 1 and (per == 1 or BLOCK_FORMAT != "nvfp4"):
                    _store_third(scaled, k, place, like, out, scales, unit, WORDS, ROW)
                elif PARTS > 1 and part == k:
                    _store_third(scaled, k, place, like, out, scales, unit, WORDS, ROW)
        else:
            _quantise(scaled, number, start, indices, out, scales, WORDS, per, ROW)


@triton.jit
def _quantise(
    values, number, start, indices, out, scales, WORDS: tl.constexpr, PER: tl.constexpr,
    ROW: tl.constexpr,
):  # fmt: skip
    """FP8 of a row, and the scale of the row or of each GROUP of elements."""
    GROUP: tl.constexpr = ROW.GROUP
    THIRD: tl.constexpr = ROW.THIRD
    WIDE: tl.constexpr = ROW.WIDE
    if GROUP == -1:
        factor = tl.maximum(tl.max(_largest(values)) / FP8_MAX, LEAST_SCALE)
        tl.store(scales + number, factor)
        inverse = 1.0 / factor
    else:
        wide: tl.constexpr = GROUP // PER  # words of a group
        many: tl.constexpr = indices.numel // wide
        groups = tl.arange(0, many)
        place = scales + number.to(tl.int64) * ((WORDS + wide - 1) // wide)
    for k in tl.static_range(3):
        places, inside = start + k * THIRD + indices, indices < words_of(THIRD, WORDS, k)
        if GROUP > 0:
            most = tl.abs(values[k * PER])
            if PER == 2:
                most = tl.maximum(most, tl.abs(values[k * PER + 1]))
            factors = tl.max(tl.reshape(most, [many, wide]), axis=1) / FP8_MAX
            factors = tl.maximum(factors, LEAST_SCALE)
            some = (words_of(THIRD, WORDS, k) + wide - 1) // wide
            tl.store(place + k * (THIRD // wide) + groups, factors, mask=groups < some)
            spread = tl.broadcast_to(tl.expand_dims(1.0 / factors, 1), [many, wide])
            inverse = tl.reshape(spread, [indices.numel])
        _store_fp8(values, k * PER, inverse, out, places, inside, PER, WIDE)


@triton.jit
def _spread(values, WIDE: tl.constexpr):
    """Each value WIDE times."""
    spread = tl.broadcast_to(tl.expand_dims(values, 1), [values.numel, WIDE])
    return tl.reshape(spread, [values.numel * WIDE])


@triton.jit
def _halves(values):
    """The first and the second half of a tile, whose elements stay with their threads."""
    return tl.split(tl.trans(tl.reshape(values, [2, values.numel // 2])))


@triton.jit
def _store_third(
    values, k: tl.constexpr, place, like, out, scales, unit, WORDS: tl.constexpr, ROW: tl.constexpr
):  # fmt: skip
    """Third ``k`` of a row in blocks; the last quarter of the tile is left out if nothing is in it."""
    THIRD: tl.constexpr = ROW.THIRD
    PACKETS: tl.constexpr = ROW.PACKETS
    HIDDEN: tl.constexpr = ROW.HIDDEN
    PER: tl.constexpr = HIDDEN // WORDS
    low, high = values[k * PER], values[k * PER + PER - 1]
    if PACKETS < 1024 or 4 * THIRD > 3 * PACKETS:
        _store_blocks((low, high), k, place, _indices(PACKETS), like, out, scales, unit, WORDS, ROW)
    else:
        low, low_rest = _halves(low)
        high, high_rest = _halves(high)
        indices = _indices(PACKETS // 2)
        _store_blocks((low, high), k, place, indices, like, out, scales, unit, WORDS, ROW)
        low, _low_end = _halves(low_rest)
        high, _high_end = _halves(high_rest)
        indices = PACKETS // 2 + _indices(PACKETS // 4)
        _store_blocks((low, high), k, place, indices, like, out, scales, unit, WORDS, ROW)


@triton.jit
def _store_blocks(
    values, k: tl.constexpr, place, indices, like, out, scales, unit, WORDS: tl.constexpr,
    ROW: tl.constexpr,
):  # fmt: skip
    """Words ``indices`` of third ``k`` of a row, rounded to its dtype, in blocks of GROUP elements."""
    THIRD: tl.constexpr = ROW.THIRD
    WIDE: tl.constexpr = ROW.WIDE
    BLOCKS: tl.constexpr = ROW.BLOCKS
    FORMAT: tl.constexpr = BLOCKS.FORMAT
    SWIZZLED: tl.constexpr = BLOCKS.SWIZZLED
    GROUP: tl.constexpr = ROW.GROUP
    HIDDEN: tl.constexpr = ROW.HIDDEN
    PER: tl.constexpr = HIDDEN // WORDS
    wide: tl.constexpr = GROUP // PER  # words of a block
    many: tl.constexpr = indices.numel // wide
    count: tl.constexpr = (WORDS + wide - 1) // wide
    number, _part = place
    start = number.to(tl.int64) * WORDS
    places, inside = start + k * THIRD + indices, indices < words_of(THIRD, WORDS, k)
    word = _word(values, 0, like)
    low = _element(word, 0, like)
    high = low
    most = size_bits(low)
    if PER == 2:
        high = _element(word, 1, like)
        most = tl.maximum(most, size_bits(high))
    largest = tl.max(tl.reshape(most, [many, wide]), axis=1)
    if FORMAT == "mxfp8":
        factors, inverse = mxfp8_scales(largest)
    else:
        factors, inverse = nvfp4_scales(largest, unit, BLOCKS.GLOBAL)
    # The thread with a block's first word stores its scale: other places would be another layout.
    factors, inverse = _spread(factors, wide), _spread(inverse, wide)
    there = scale_places(number, k * (THIRD // wide) + indices // wide, count, SWIZZLED)
    tl.store(scales + there, factors, mask=inside & (indices % wide == 0))
    if FORMAT == "mxfp8":
        low = mxfp8_bytes(low, inverse)
        if PER == 2:
            high = mxfp8_bytes(high, inverse)
        _store_bytes(low, high, out, places, inside, PER, WIDE)
    elif PER == 2:
        pairs = nvfp4_codes(low, inverse) | (nvfp4_codes(high, inverse) << 4)
        tl.store(out + places, pairs.to(tl.uint8), mask=inside)
    else:
        codes = tl.reshape(nvfp4_codes(low, inverse), [indices.numel // 2, 2])
        first, second = tl.split(codes)
        halves, _odd = tl.split(tl.reshape(indices // 2, [indices.numel // 2, 2]))
        places = start // 2 + k * (THIRD // 2) + halves
        inside = halves < words_of(THIRD, WORDS, k) // 2
        tl.store(out + places, (first | (second << 4)).to(tl.uint8), mask=inside)


@triton.jit
def _store_nvfp4(
    values, number, like, out, scales, unit, WORDS: tl.constexpr, ROW: tl.constexpr
):  # fmt: skip
    """All thirds of a row in blocks of NVFP4, but for the last quarter of the tile if it is empty."""
    THIRD: tl.constexpr = ROW.THIRD
    PACKETS: tl.constexpr = ROW.PACKETS
    if PACKETS < 1024 or 4 * THIRD > 3 * PACKETS:
        _share_blocks(values, number, _indices(PACKETS), like, out, scales, unit, WORDS, ROW)
    else:
        first, third = (), ()
        for k in tl.static_range(6):
            half, other = _halves(values[k])
            first += (half,)
            quarter, _end = _halves(other)
            third += (quarter,)
        _share_blocks(first, number, _indices(PACKETS // 2), like, out, scales, unit, WORDS, ROW)
        indices = PACKETS // 2 + _indices(PACKETS // 4)
        _share_blocks(third, number, indices, like, out, scales, unit, WORDS, ROW)


@triton.jit
def _share_blocks(
    values, number, indices, like, out, scales, unit, WORDS: tl.constexpr, ROW: tl.constexpr
):  # fmt: skip
    """Words ``indices`` of all thirds of a row, of two elements, in blocks of NVFP4.

    Each of the 8 threads that have a block's words knows its largest element. The first of them works
    out the scale of the first third's block and stores it, the next two those of the others, and all
    are told: so a thread does it once, not thrice.
    """
    THIRD: tl.constexpr = ROW.THIRD
    BLOCKS: tl.constexpr = ROW.BLOCKS
    SWIZZLED: tl.constexpr = BLOCKS.SWIZZLED
    GROUP: tl.constexpr = ROW.GROUP
    wide: tl.constexpr = GROUP // 2  # words of a block
    many: tl.constexpr = indices.numel // wide
    count: tl.constexpr = (WORDS + wide - 1) // wide
    turn, block = indices % wide, indices // wide
    mine = tl.zeros([indices.numel], tl.int32)
    words = mine  # of the third whose block's scale is the thread's
    rounded = ()
    for k in tl.static_range(3):
        word = _word(values, 2 * k, like)
        low, high = _element(word, 0, like), _element(word, 1, like)
        rounded += (low, high)
        most = tl.maximum(size_bits(low), size_bits(high))
        largest = _spread(tl.max(tl.reshape(most, [many, wide]), axis=1), wide)
        mine = tl.where(turn == k, largest, mine)
        words = tl.where(turn == k, words_of(THIRD, WORDS, k), words)
    factors, inverse = nvfp4_scales(mine, unit, BLOCKS.GLOBAL)
    there = scale_places(number, turn * (THIRD // wide) + block, count, SWIZZLED)
    tl.store(scales + there, factors, mask=block * wide < words)
    shared = tl.reshape(inverse, [many, wide])
    start = number.to(tl.int64) * WORDS
    for k in tl.static_range(3):
        told = tl.gather(shared, tl.full([many, wide], k, tl.int32), 1)
        told = tl.reshape(told, [indices.numel])
        codes = nvfp4_codes(rounded[2 * k], told) | (nvfp4_codes(rounded[2 * k + 1], told) << 4)
        inside = indices < words_of(THIRD, WORDS, k)
        tl.store(out + (start + k * THIRD + indices), codes.to(tl.uint8), mask=inside)


@triton.jit
def _indices(PACKETS: tl.constexpr):
    """0, 1, ..., of which a thread's are not neighbours: words are loaded one by one, as packets are."""
    indices = tl.arange(0, PACKETS)
    if _INTERPRETED:
        return indices
    else:
        return tl.max_contiguous(indices, 1)


@triton.jit
def _load_row(
    x, number, tokens, indices, WORDS: tl.constexpr, THIRD: tl.constexpr, WIDE: tl.constexpr
):
    """Words of the thirds of row ``number``, or zeros behind the last."""
    start = number.to(tl.int64) * WORDS
    there = tl.zeros([indices.numel], tl.int32) + number < tokens
    data = ()
    for k in tl.static_range(3):
        inside = there & (indices < words_of(THIRD, WORDS, k))
        data += (_load_words(x, start + k * THIRD + indices, inside, WIDE),)
    return data


@triton.jit(do_not_specialize=["tokens", "mine"])
def one_shot(
    x, residual, weight, bias, out, residual_out, scales, global_scale, tokens, eps, counts, packets,
    mine, ctx, ROW: tl.constexpr,
):  # fmt: skip
    """Every PE gets each row of all others and finishes it.

    ``packets`` are words of 8 bytes: for each program two halves of PACKETS packets of each member;
    ``counts`` are its rows in all calls; ``mine`` is the caller's number, known from the host, for a
    load of it would hold all others up.
    """
    HIDDEN: tl.constexpr = ROW.HIDDEN
    PACKETS: tl.constexpr = ROW.PACKETS
    THIRD: tl.constexpr = ROW.THIRD
    WIDE: tl.constexpr = ROW.WIDE
    RESIDUAL: tl.constexpr = ROW.RESIDUAL
    NORM: tl.constexpr = ROW.NORM
    BIAS: tl.constexpr = ROW.BIAS
    TEAM: tl.constexpr = ROW.TEAM
    MEMBERS: tl.constexpr = ROW.MEMBERS
    PARTS: tl.constexpr = ROW.PARTS
    per: tl.constexpr = elements_of(x.dtype.element_ty)
    WORDS: tl.constexpr = HIDDEN // per
    indices = _indices(PACKETS)
    used = indices < words_of(THIRD, WORDS, 0)
    program = tl.program_id(0)
    number, part = program // PARTS, program % PARTS
    data = _load_row(x, number, tokens, indices, WORDS, THIRD, WIDE)
    count = tl.load(counts + program, volatile=True)
    members = team_row(TEAM, ALL_REDUCE, ctx)
    # A row's three programs take part in the same calls and share its packets.
    packets += number.to(tl.int64) * (4 * MEMBERS * PACKETS)
    sent = used
    if PARTS > 1:
        share: tl.constexpr = (words_of(THIRD, WORDS, 0) + 95) // 96 * 32
        sent &= (indices >= part * share) & (indices < (part + 1) * share)
    nobody = tl.zeros([PACKETS], tl.int32)
    while number < tokens:
        start = number.to(tl.int64) * WORDS
        count += 1
        half = packets + (count & 1) * (2 * MEMBERS * PACKETS)
        call = count.to(tl.uint32)
        for k in tl.static_range(1, MEMBERS):
            pe = world_pe(TEAM, members, (mine + k) % MEMBERS)
            there = p2p_place(half + mine * (2 * PACKETS), pe, ctx)
            store_wide_packets(sent, there + 2 * indices, data[0], data[1], data[2], call)
        if number < tl.num_programs(0) // PARTS:  # once, while the others' packets are on their way
            pad_scales(scales, tokens, ROW)
        # On their way while the others' packets are: here, for a use would wait where loads do not.
        more = ()
        gains = ()
        shifts = ()
        totals = ()
        for k in tl.static_range(3):
            inside = indices < words_of(THIRD, WORDS, k)
            places = k * THIRD + indices
            if RESIDUAL:
                more += _load_elements(residual, start + places, inside, x, WIDE)
            if NORM != "none":
                gains += _load_elements(weight, places, inside, x, WIDE)
            if BIAS:
                shifts += _load_elements(bias, places, inside, x, WIDE)
            for _element_number in tl.static_range(per):
                totals += (tl.zeros([PACKETS], tl.float32),)
        for member in tl.static_range(MEMBERS):
            absent = nobody + mine != member
            pe = world_pe(TEAM, members, member)
            place = half + member * (2 * PACKETS) + 2 * indices
            got = await_wide_packets(used & absent, place, call, pe, ALL_REDUCE, ctx)
            sums = ()
            for k in tl.static_range(3):
                word = tl.where(absent, got[k], data[k])
                for e in tl.static_range(per):
                    sums += (totals[k * per + e] + _element(word, e, x),)
            totals = sums
        if RESIDUAL:
            sums = ()
            for k in tl.static_range(3 * per):
                sums += (totals[k] + more[k],)
            totals = sums
        row = _store_row(totals, x, residual_out, start, indices, part, WORDS, ROW)
        if NORM != "none":
            place = number, part
            _finish(
                row, place, gains, shifts, indices, x, out, scales, global_scale, eps, WORDS, ROW
            )
        number += tl.num_programs(0) // PARTS
        data = _load_row(x, number, tokens, indices, WORDS, THIRD, WIDE)
    program_barrier()
    tl.store(counts + program, count)
