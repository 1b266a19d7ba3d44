# SPDX-License-Identifier: BSD-3-Clause
"""Texts of inline PTX for wide packets: 12 bytes of data and the call's number; see ``ptx``.

Loads and stores are of ``b128``, which PTX makes one access, so the number comes with its data. A tile
has a power of two of words, so four of them travel as a wide packet and a packet of 8 bytes, a *quad*.
"""

import triton

from .ptx import looks_text, slow_text


@triton.constexpr_function
def store_wide_text():
    """The words $2, $3, $4 and the number $5 to the packet at $6, for elements with $1 set; $0 is 0."""
    return """{
    .reg .pred p; .reg .b64 v, w; .reg .b128 t;
    setp.ne.s32 p, $1, 0;
    mov.b64 v, {$2, $3}; mov.b64 w, {$4, $5};
    mov.b128 t, {v, w};
    @p st.relaxed.sys.global.b128 [$6], t;
    mov.b32 $0, 0;
    }"""


@triton.constexpr_function
def store_quad_text():
    """The words $2 to $5 and the number $6: a wide packet at $7 and one of 8 bytes at $8, where $1."""
    return """{
    .reg .pred p; .reg .b64 v, w, x; .reg .b128 t;
    setp.ne.s32 p, $1, 0;
    mov.b64 v, {$2, $3}; mov.b64 w, {$4, $6}; mov.b64 x, {$5, $6};
    mov.b128 t, {v, w};
    @p st.relaxed.sys.global.b128 [$7], t;
    @p st.relaxed.sys.global.b64 [$8], x;
    mov.b32 $0, 0;
    }"""


@triton.constexpr_function
def wide_constraints(many, quads):
    """Of ``wide_text``: three or four results, then the arguments, of each of ``many`` elements."""
    kinds = ("=r",) * (3 + quads) + ("r",) + ("l",) * (1 + quads) + ("r", "l", "l")
    return ",".join(kind for kind in kinds for _ in range(many))


@triton.constexpr_function
def wide_text(many, numbers, kind, op, kernel, quads):
    """The three words of each of ``many`` packets at a time, when all carry the call's number.

    By ``many`` operands each: the results, then whether an element is active, the pointer, the number,
    ctx, pe. Those that are not active give 0. ``quads``: four words each, of which the last is in a
    packet of 8 bytes, whose pointer comes behind the other.
    """
    active, pointer = 3 + quads, 4 + quads
    call = pointer + 1 + quads

    def operand(place, j):
        return f"${place * many + j}"

    number, each = operand(call, 0), range(many)
    wide = ", ".join(f"v{j}, w{j}, n{j}" + (f", x{j}, y{j}" if quads else "") for j in each)
    begin = "".join(
        f"""
    mov.b32 c, 0; mov.b64 v{j}, 0; mov.b64 w{j}, {{c, {number}}}; mov.b64 n{j}, {operand(pointer, j)};
    mov.b128 o{j}, {{v{j}, w{j}}};
    setp.ne.s32 a{j}, {operand(active, j)}, 0;"""
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
    if quads:
        begin += "".join(
            f"""
    mov.b64 x{j}, {{c, {number}}}; mov.b64 y{j}, {operand(pointer + 1, j)};"""
            for j in each
        )
        loads += "".join(f"\n    @a{j} ld.relaxed.sys.global.b64 x{j}, [y{j}];" for j in each)
        compare += "".join(
            f"\n    mov.b64 {{c, u}}, x{j}; xor.b32 u, u, {number}; or.b32 d, d, u;" for j in each
        )
        results += "".join(f"\n    mov.b64 {{{operand(3, j)}, c}}, x{j};" for j in each)
    widen = f"cvt.u64.u32 a, {number}; mov.b64 {{c, u}}, w0; cvt.u64.u32 b, u;"
    slow = slow_text(
        operand(call + 1, 0), numbers, kind, op, kernel, operand(call + 2, 0), widen, True
    )
    more = f"""
    .reg .b128 {", ".join(f"o{j}" for j in each)};"""
    return looks_text(many, wide, more, begin, loads, compare, slow, results)
