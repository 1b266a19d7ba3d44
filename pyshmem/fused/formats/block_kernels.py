# SPDX-License-Identifier: BSD-3-Clause
"""MXFP8 and NVFP4 as kernels of several operations make them: ``docs/fused.md`` says the bits.

Hopper converts to FP8 E4M3 by an instruction and to E2M1 by none, so that is arithmetic here, which runs
on all GPUs and in the interpreter. Where a compiler could fuse a sum with a product that is exact,
and every division is rounded to nearest: all targets give the same bits.
"""

import triton.language as tl

from ...triton.primitives.backend import INTERPRETED, device_function

_INTERPRETED = tl.constexpr(INTERPRETED)
MX_GROUP = tl.constexpr(32)  # elements of a block of MXFP8
NV_GROUP = tl.constexpr(16)  # and of NVFP4
_E4M3_EXPONENT = tl.constexpr(8)  # of its largest number, 448
_INFINITY_BITS = tl.constexpr(0x7F800000)  # bits above are those of NaN
_NAN_BITS = tl.constexpr(0x7FC00000)
_E2M1_MAX = tl.constexpr(6.0)
_TWO_TO_120 = tl.constexpr(1.329227995784916e36)
_SIXTH = tl.constexpr(0.1666666716337204)  # the float32 next to 1 / 6


@device_function
def size_bits(values):
    """Bits of float32 without their sign, int32: they are in the order of sizes, NaN above infinity."""
    return values.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@device_function
def mxfp8_scales(largest):
    """Scales of blocks, as E8M0 bytes, and what their elements are multiplied by, float32.

    ``largest``: ``size_bits`` of the largest element. A block with a NaN has the scale NaN.
    """
    exponents = tl.maximum((largest >> 23) - _E4M3_EXPONENT, 0)
    wrong = largest > _INFINITY_BITS
    inverse = tl.where(wrong, _NAN_BITS, (254 - exponents) << 23)
    return tl.where(wrong, 255, exponents).to(tl.uint8), inverse.to(tl.float32, bitcast=True)


@device_function
def mxfp8_bytes(values, inverse):
    """Elements as E4M3 bytes: what is too large becomes the largest."""
    return (values * inverse).to(tl.float8e4nv).to(tl.uint8, bitcast=True)


@device_function
def _quotient(a, b):
    """To the nearest, which ``/`` is in the interpreter alone."""
    if _INTERPRETED:
        return a / b
    else:
        return tl.div_rn(a, b)


@device_function
def _sixth(a):
    """``a / 6`` to the nearest, of what is at least 0; above 8192, where scales end, that of 8192.

    A product and what is missing of it, in sums with products that are rounded once: it is a division's
    own way, without its branch for numbers that cannot be here. Tiny ones become scales of 0 either way.
    """
    if _INTERPRETED:
        return a / 6.0
    else:
        a = tl.minimum(a, 8192.0, propagate_nan=tl.PropagateNan.ALL)
        about = a * _SIXTH
        return tl.fma(tl.fma(about, -6.0, a), _SIXTH, about)


@device_function
def _one_over(steps):
    """``1 / steps`` to the nearest, of numbers of E4M3, whose few bits leave no quotient near a tie."""
    if _INTERPRETED:
        return 1.0 / tl.where(steps == 0.0, 1.0, steps)
    else:
        about = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [steps], tl.float32, True, 1
        )
        return tl.fma(tl.fma(about, -steps, 1.0), about, about)


@device_function
def _e4m3_bytes(values):
    """Of what is at least 0: to the nearest, ties to even; what is too large becomes the largest.

    As arithmetic, the way of ``_nvfp4_sizes``: where the instruction for it is followed by the one back
    and nothing branches, ptxas 12.8 loses its result and reads a register that nobody wrote.
    """
    wrong = values != values
    values = tl.minimum(values, 512.0)
    powers = (values.to(tl.int32, bitcast=True) & _INFINITY_BITS).to(tl.float32, bitcast=True)
    powers = tl.maximum(powers, 0.015625)  # below it, the smallest with a leading 1, steps stay
    steps = tl.fma(powers, 1048576.0, values).to(tl.int32, bitcast=True) & 31
    made = tl.minimum((powers.to(tl.int32, bitcast=True) >> 20) - 968 + steps, 126)
    return tl.where(wrong, 127, made)


@device_function
def _e4m3_sizes(made):
    """What such bytes stand for, float32: their bits as a float32's, whose exponent is off by 120."""
    sizes = (made << 20).to(tl.float32, bitcast=True) * _TWO_TO_120
    return tl.where(made == 127, float("nan"), sizes)


@device_function
def nvfp4_scales(largest, global_scale, GLOBAL: tl.constexpr):
    """Scales of blocks, as E4M3 bytes, and what their elements are multiplied by, float32.

    That is 0 where a scale is 0, so that all elements become 0.
    """
    most = largest.to(tl.float32, bitcast=True)
    if not GLOBAL:
        scales = _e4m3_bytes(_sixth(most))
        steps = _e4m3_sizes(scales)
        none = steps == 0.0
        inverse = tl.where(none, 0.0, _one_over(steps))
    else:
        scales = _e4m3_bytes(_quotient(most, _E2M1_MAX * global_scale))
        steps = _e4m3_sizes(scales) * global_scale
        none = steps == 0.0
        inverse = tl.where(none, 0.0, _quotient(1.0, tl.where(none, 1.0, steps)))
    return scales.to(tl.uint8), inverse


@device_function
def _nvfp4_sizes(values, inverse):
    """In the lowest 3 bits the code of the size: the product, at most 6, to the nearest, ties to even.

    With p, the power of 2 below it, at least 1, a size has steps of p / 2. So has a float32 that is
    2**22 times p: the sum is rounded by the addition. Its last bits count the steps, of which the code
    has 2 more for each doubling of p, as the exponent has when it is shifted so far. The 3 makes what
    else is added by both a multiple of 8. NaN is 6.
    """
    sizes = tl.minimum(tl.abs(values) * inverse, _E2M1_MAX)
    powers = (sizes.to(tl.int32, bitcast=True) & _INFINITY_BITS).to(tl.float32, bitcast=True)
    steps = tl.fma(tl.maximum(powers, 1.0), 4194307.0, sizes).to(tl.int32, bitcast=True)
    return steps + (steps >> 22)


@device_function
def nvfp4_codes(values, inverse):
    """Elements as E2M1 codes, int32."""
    sizes = _nvfp4_sizes(values, inverse) & 7
    return sizes | ((values.to(tl.int32, bitcast=True) >> 28) & 8)


@device_function
def block_factors(scales, FORMAT: tl.constexpr):
    """What bytes of scales stand for, float32, without the global scale."""
    if FORMAT == "mxfp8":
        bits = scales.to(tl.int32)
        # The exponent of float32; its smallest number is one without a leading 1.
        bits = tl.where(bits == 0, 0x400000, tl.where(bits == 255, _NAN_BITS, bits << 23))
        return bits.to(tl.float32, bitcast=True)
    else:
        return scales.to(tl.float8e4nv, bitcast=True).to(tl.float32)


@device_function
def nvfp4_values(codes):
    """What E2M1 codes stand for, float32: their bits as a float32's, whose exponent is off by 126."""
    bits = ((codes & 7).to(tl.int32) << 22) | ((codes & 8).to(tl.int32) << 28)
    return bits.to(tl.float32, bitcast=True) * 8.507059173023462e37


@device_function
def load_global_scale(global_scale, GLOBAL: tl.constexpr):
    """That of NVFP4, or 1."""
    if GLOBAL:
        return tl.load(global_scale)
    else:
        return 1.0


@device_function
def scale_places(rows, columns, COUNT: tl.constexpr, SWIZZLED: tl.constexpr):
    """Where the scales of blocks are; COUNT blocks are a row.

    SWIZZLED: tiles of 128 rows and 4 blocks one behind the other, in each of which rows r, r + 32,
    r + 64 and r + 96 have 16 bytes side by side: as cuBLAS and ``_scaled_mm`` of torch take them.
    """
    if SWIZZLED:
        tiles = (rows >> 7).to(tl.int64) * ((COUNT + 3) // 4) + (columns >> 2)
        return tiles * 512 + ((rows & 31) * 16 + ((rows >> 5) & 3) * 4 + (columns & 3))
    else:
        return rows.to(tl.int64) * COUNT + columns


@device_function
def zero_padding(scales, rows, COUNT: tl.constexpr, SWIZZLED: tl.constexpr):
    """The program's share of what pads the scales of ``rows`` rows of COUNT blocks in tiles.

    A word of 4 bytes is of 4 blocks of a row. Words of the last tiles whose rows there are not, and
    bytes behind a row's last block: no other store goes there.
    """
    if SWIZZLED:
        WIDE: tl.constexpr = (COUNT + 3) // 4
        WORDS: tl.constexpr = 128 if _INTERPRETED else 1024
        program, programs = tl.program_id(0), tl.num_programs(0)
        used = rows & 127  # of the last tiles
        last = scales.to(tl.pointer_type(tl.int32)) + (rows >> 7).to(tl.int64) * (WIDE * 128)
        many = tl.where(used == 0, 0, WIDE * 128)
        for first in range(program * WORDS, many, programs * WORDS):
            words = first + tl.arange(0, WORDS)
            row = ((words >> 2) & 31) + ((words & 3) << 5)
            nothing = tl.zeros([WORDS], tl.int32)
            tl.store(last + words, nothing, mask=(words < many) & (row >= used))
        if COUNT % 4 != 0:
            for first in range(program * 128, rows, programs * 128):
                row = first + tl.arange(0, 128)
                nothing = tl.zeros([128], tl.uint8)
                for block in tl.static_range(COUNT, WIDE * 4):
                    places = scale_places(row, block, COUNT, True)
                    tl.store(scales + places, nothing, mask=row < rows)


@device_function
def quantise_blocks(values, global_scale, FORMAT: tl.constexpr, GLOBAL: tl.constexpr):
    """A flat float32 tile as bytes, and the bytes of its blocks' scales; two of E2M1 are a byte."""
    GROUP: tl.constexpr = MX_GROUP if FORMAT == "mxfp8" else NV_GROUP
    blocks = tl.reshape(values, [values.numel // GROUP, GROUP])
    largest = tl.max(size_bits(blocks), axis=1)
    if FORMAT == "mxfp8":
        scales, inverse = mxfp8_scales(largest)
        made = tl.reshape(mxfp8_bytes(blocks, tl.expand_dims(inverse, 1)), [values.numel])
    else:
        scales, inverse = nvfp4_scales(largest, global_scale, GLOBAL)
        codes = nvfp4_codes(blocks, tl.expand_dims(inverse, 1))
        low, high = tl.split(tl.reshape(codes, [values.numel // 2, 2]))
        made = (low | (high << 4)).to(tl.uint8)
    return made, scales
