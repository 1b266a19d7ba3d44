# SPDX-License-Identifier: BSD-3-Clause
"""The text of inline PTX that waits for pairs of packets, 16 bytes at a time; see ``ptx``."""

import triton

from .ptx import looks_text, slow_text


@triton.constexpr_function
def pairs_constraints(many):
    """Of ``pairs_text``: two results, then five arguments, of each of ``many`` elements."""
    kinds = ("=r", "=r", "r", "l", "r", "l", "l")
    return ",".join(kind for kind in kinds for _ in range(many))


@triton.constexpr_function
def pairs_text(many, numbers, kind, op, kernel):
    """The data of ``many`` pairs of packets at a time, each pair loaded as one.

    Of element j, $j and $(many + j) are the results, then come, by ``many`` operands each: whether it is
    active, the pointer, the call's number, ctx, pe. Those that are not active give 0. Every packet has
    its own number, so it does not matter whether the halves of a pair come together.
    """

    def operand(place, j):
        return f"${place * many + j}"

    number = operand(4, 0)
    each = range(many)
    names = ", ".join(f"v{j}, w{j}, n{j}" for j in each)
    begin = "".join(
        f"""
    mov.b32 c, 0; mov.b64 v{j}, {{c, {number}}}; mov.b64 w{j}, v{j}; mov.b64 n{j}, {operand(3, j)};
    setp.ne.s32 a{j}, {operand(2, j)}, 0;"""
        for j in each
    )
    loads = "".join(
        f"\n    @a{j} ld.relaxed.sys.global.v2.b64 {{v{j}, w{j}}}, [n{j}];" for j in each
    )
    compare = "".join(
        f"""
    mov.b64 {{c, u}}, {word}{j}; xor.b32 u, u, {number}; or.b32 d, d, u;"""
        for j in each
        for word in "vw"
    )
    results = "".join(
        f"""
    mov.b64 {{{operand(place, j)}, c}}, {word}{j};"""
        for j in each
        for place, word in enumerate("vw")
    )
    widen = f"cvt.u64.u32 a, {number}; mov.b64 {{c, u}}, v0; cvt.u64.u32 b, u;"
    slow = slow_text(operand(5, 0), numbers, kind, op, kernel, operand(6, 0), widen, True)
    return looks_text(many, names, "", begin, loads, compare, slow, results)
