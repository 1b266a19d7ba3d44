# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of ``all_reduce_rmsnorm`` by a channel: one-shot for members that stores do not reach."""

import triton
import triton.language as tl

from ...triton.ll_channels import begin, from_packets, receive_pairs, send, to_packets
from ...triton.runtime.constants import ALL_REDUCE
from ...triton.teams import place_in
from .row_kernels import finish_row, load_gains, load_residual, pad_scales


@triton.jit(do_not_specialize=["tokens"])
def one_shot(
    x, residual, weight, bias, out, residual_out, scales, global_scale, tokens, eps, words, ctx,
    ROW: tl.constexpr,
):  # fmt: skip
    """Every PE gets each row of all others by the channel ``words``, flag in data, and finishes it.

    Programs of one number work together, a row a call of the channel.
    """
    BLOCK: tl.constexpr = ROW.BLOCK
    HIDDEN: tl.constexpr = ROW.HIDDEN
    RESIDUAL: tl.constexpr = ROW.RESIDUAL
    TEAM: tl.constexpr = ROW.TEAM
    NORM: tl.constexpr = ROW.NORM
    offs = tl.arange(0, BLOCK)
    inside = offs < HIDDEN
    bits: tl.constexpr = x.dtype.element_ty.primitive_bitwidth
    packets: tl.constexpr = BLOCK * bits // 32
    used = tl.arange(0, packets) < HIDDEN * bits // 32
    pairs = tl.arange(0, packets // 2) < HIDDEN * bits // 64
    number = tl.program_id(0)
    pad_scales(scales, tokens, ROW)
    while number < tokens:
        places = number.to(tl.int64) * HIDDEN + offs
        row = tl.load(x + places, mask=inside, other=0)
        data = to_packets(row)
        call, base, step, members = begin(words, packets, TEAM, ALL_REDUCE, ctx)
        mine, n_pes = place_in(TEAM, members, ctx)
        for k in range(1, n_pes):
            send(base, step, data, call, mine, (mine + k) % n_pes, TEAM, members, ctx, mask=used)
        # On their way while the others' packets are: here, for a use would wait where loads do not.
        more = load_residual(residual, places, inside, RESIDUAL)
        gain, shift = load_gains(weight, bias, offs, inside, ROW)
        total = tl.zeros([BLOCK], tl.float32)
        for member in range(n_pes):
            if member == mine:
                got = data
            else:
                got = receive_pairs(base, step, pairs, call, member, TEAM, members, ALL_REDUCE, ctx)
            total += from_packets(got, row).to(tl.float32)
        row = (total + more).to(row.dtype)
        tl.store(residual_out + places, row, mask=inside)
        if NORM != "none":
            finish_row(row, number, gain, shift, offs, inside, out, scales, global_scale, eps, ROW)
        number += tl.num_programs(0)
