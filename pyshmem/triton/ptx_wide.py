# SPDX-License-Identifier: BSD-3-Clause
"""Texts of inline PTX for wide units: 12 bytes of data and the call's number; see ``ptx``.

Loads and stores are of ``b128``, which PTX makes one access, so the number comes with its data.
"""

import triton

from .ptx import looks_text, slow_text


@triton.constexpr_function
def store_wide_text():
    """The words $2, $3, $4 and the number $5 to the unit at $6, for elements with $1 set; $0 is 0."""
    return """{
    .reg .pred p; .reg .b64 v, w; .reg .b128 t;
    setp.ne.s32 p, $1, 0;
    mov.b64 v, {$2, $3}; mov.b64 w, {$4, $5};
    mov.b128 t, {v, w};
    @p st.relaxed.sys.global.b128 [$6], t;
    mov.b32 $0, 0;
    }"""


@triton.constexpr_function
def wide_constraints(many):
    """Of ``wide_text``: three results, then five arguments, of each of ``many`` elements."""
    kinds = ("=r", "=r", "=r", "r", "l", "r", "l", "l")
    return ",".join(kind for kind in kinds for _ in range(many))


@triton.constexpr_function
def wide_text(many, numbers, kind, op, kernel):
    """The three words of each of ``many`` units at a time, when all carry the call's number.

    By ``many`` operands each: the results, then whether an element is active, the pointer, the number,
    ctx, pe. Those that are not active give 0.
    """

    def operand(place, j):
        return f"${place * many + j}"

    number, each = operand(5, 0), range(many)
    wide = ", ".join(f"v{j}, w{j}, n{j}" for j in each)
    begin = "".join(
        f"""
    mov.b32 c, 0; mov.b64 v{j}, 0; mov.b64 w{j}, {{c, {number}}}; mov.b64 n{j}, {operand(4, j)};
    mov.b128 o{j}, {{v{j}, w{j}}};
    setp.ne.s32 a{j}, {operand(3, j)}, 0;"""
        for j in each
    )
    loads = "".join(f"\n    @a{j} ld.relaxed.sys.global.b128 o{j}, [n{j}];" for j in each)
    compare = "".join(
        f"""
    mov.b128 {{v{j}, w{j}}}, o{j}; mov.b64 {{c, u}}, w{j}; xor.b32 u, u, {number}; or.b32 d, d, u;"""
        for j in each
    )
    results = "".join(
        f"""
    mov.b64 {{{operand(0, j)}, {operand(1, j)}}}, v{j}; mov.b64 {{{operand(2, j)}, c}}, w{j};"""
        for j in each
    )
    widen = f"cvt.u64.u32 a, {number}; mov.b64 {{c, u}}, w0; cvt.u64.u32 b, u;"
    slow = slow_text(operand(6, 0), numbers, kind, op, kernel, operand(7, 0), widen, True)
    more = f"""
    .reg .b128 {", ".join(f"o{j}" for j in each)};"""
    return looks_text(many, wide, more, begin, loads, compare, slow, results)
