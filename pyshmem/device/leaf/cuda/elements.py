# SPDX-License-Identifier: BSD-3-Clause
"""Words that do not change, pairs and packets of 16 bytes, and atomics."""

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import register_jitable

from .. import ptx as ptx
from ..ptx import I32, I64, i64, instruction, leaf
from .memory import WIDTH
from .threads import block_threads, line_thread

__all__ = [
    "atomic_add", "atomic_and", "atomic_compare_swap", "atomic_fetch_add", "atomic_fetch_and",
    "atomic_fetch_or", "atomic_fetch_xor", "atomic_or", "atomic_swap", "atomic_xor", "fixed32",
    "fixed64", "in_global", "load_packet", "load_pair", "load_small", "load_third", "store_packet",
    "store_pair", "store_small", "store_third",
]  # fmt: skip


def _fixed(kind, bits):
    """``f(address)``: a word that does not change while a kernel runs: it may be read early."""

    @leaf(lambda address: (kind, i64))
    def fixed(_context, builder, address):
        pointer = builder.inttoptr(address, ir.PointerType(bits, addrspace=1))
        word = ptx.load_constant(builder, pointer)
        word.align = bits.width // 8
        return word

    return fixed


fixed32, fixed64 = _fixed(types.int32, I32), _fixed(i64, I64)


_is_global = instruction(
    "{.reg .pred p; isspacep.global p, $1; selp.b64 $0, 1, 0, p;}", "l", results=1
)


@register_jitable
def in_global(address):
    """Is it memory that others than this block can reach: neither shared nor local?"""
    return _is_global(address) != 0


_LOAD_PAIR = "{.reg .b128 t; ld.<order>.sys.global.b128 t, [$2]; mov.b128 {$0, $1}, t;}"
#: Two int64 by one 16-byte access: with the second comes the first, stored before it. An acquire: it
#: pairs with the store of who is waited for; over the bus each poll takes long enough anyway.
load_pair = instruction(_LOAD_PAIR.replace("<order>", "acquire"), "l", results=2)
#: Stores two int64, relaxed, by one access of 16 bytes.
store_pair = instruction(
    "{.reg .b128 t; mov.b128 t, {$1, $2}; st.relaxed.sys.global.b128 [$0], t;}", "lll"
)


# -- atomics at system scope: ``numba.cuda.atomic`` reaches no further than the own GPU ------------


def _atomic(name: str, *, fetch: bool = True):
    """``f(address, like, value)``; ``fetch`` returns the old value."""

    @leaf(lambda address, like, value: (like.dtype if fetch else types.void, i64, like, like.dtype))
    def atomic(context, builder, address, like, value):
        bits = ptx.to_bits(context, builder, like.dtype, value)
        letter = "b" if name != "add" else "f" if isinstance(like.dtype, types.Float) else "u"
        suffix, register = f"{name}.{letter}{bits.type.width}", WIDTH[bits.type.width // 8][1]
        if not fetch:
            text = f"red.relaxed.sys.global.{suffix} [$0], $1;"
            ptx.asm(builder, ptx.VOID, text, f"l,{register}", [address, bits])
            return None
        text = f"atom.relaxed.sys.global.{suffix} $0, [$1], $2;"
        old = ptx.asm(builder, bits.type, text, f"={register},l,{register}", [address, bits])
        return ptx.from_bits(context, builder, like.dtype, old)

    return atomic


def _fetching(name: str):
    """The operation with its old value.

    Where lanes have one address the assembler makes one operation of a warp's, and waits for its value
    at once. A block of one thread is spared that by an address that could be each thread's own.
    """
    fetching = _atomic(name)

    @register_jitable
    def fetch(address, like, value):
        if block_threads() == 1:
            return fetching(address + (line_thread() >> 16), like, value)
        return fetching(address, like, value)

    return fetch


atomic_swap = _atomic("exch")
_OPS = ("add", "and", "or", "xor")
atomic_fetch_add, atomic_fetch_and, atomic_fetch_or, atomic_fetch_xor = map(_fetching, _OPS)
atomic_add, atomic_and, atomic_or, atomic_xor = (_atomic(name, fetch=False) for name in _OPS)


@leaf(lambda address, like, cond, value: (like.dtype, i64, like, like.dtype, like.dtype))
def atomic_compare_swap(context, builder, address, like, cond, value):
    """Stores ``value`` if the element equals ``cond``; returns the old value."""
    expected, bits = (ptx.to_bits(context, builder, like.dtype, given) for given in (cond, value))
    register = WIDTH[bits.type.width // 8][1]
    text = f"atom.relaxed.sys.global.cas.b{bits.type.width} $0, [$1], $2, $3;"
    constraints = f"={register},l,{register},{register}"
    old = ptx.asm(builder, bits.type, text, constraints, [address, expected, bits])
    return ptx.from_bits(context, builder, like.dtype, old)


#: 8 bytes of data with the number of the call that stored them, whole or not at all, and nothing else
#: with it: relaxed. PTX has the single access of 16 bytes from sm_70 on, so no other body is needed.
load_packet = instruction(_LOAD_PAIR.replace("<order>", "relaxed"), "l", results=2)
store_packet = store_pair
#: The same of 12 bytes: 8, and 4 that share the second word with the call's number in its upper half. It
#: is loaded as that word; the store takes the lower halves of ``third`` and ``call``.
load_third = load_packet
store_third = instruction(
    "{.reg .b128 t; .reg .b64 h; mov.b64 h, {$2, $3}; mov.b128 t, {$1, h};"
    " st.relaxed.sys.global.b128 [$0], t;}",
    "llrr",
)

#: The next 8 bytes, of which more than ``left`` are not touched, in chunks of 4: zeros behind. Without a
#: branch, so that loads of other things stand beside it.
load_small = instruction(
    "{.reg .pred p, q; .reg .b32 a, b; setp.gt.s32 p, $2, 0; setp.gt.s32 q, $2, 4;"
    " mov.u32 a, 0; mov.u32 b, 0; @p ld.global.u32 a, [$1];"
    " @q ld.global.u32 b, [$1+4]; mov.b64 $0, {a, b};}",
    "lr",
    results=1,
)
#: The other way.
store_small = instruction(
    "{.reg .pred p, q; .reg .b32 a, b; setp.gt.s32 p, $1, 0; setp.gt.s32 q, $1, 4; mov.b64 {a, b}, $2;"
    " @p st.global.u32 [$0], a; @q st.global.u32 [$0+4], b;}",
    "lrl",
)
