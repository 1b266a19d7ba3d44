# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives of kernels that are compiled for the CPU: words, time, threads.

The names of ``leaf.cuda.threads``, with LLVM's atomics of the same orders; threads are fibers.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing import signature
from numba.extending import register_jitable

from ...._core.type_table import ATOMIC_OPS
from ...._foreign import numba_cpu
from ...families import BY_NUMBER
from ...state import MODULE
from ..compiled.llvm import I32, I64, i64, leaf, with_arity
from . import language
from .language import (
    PICK,
    SYNC,
    block_meet,
    block_rank,
    fence_of,
    grid_sync,
    n_blocks,
    n_threads,
    rank,
    relax,
    runtime,
    warp_meet,
    went_on,
)
from .memory import STATE_NAME, load_bits, release64, store_bits

__all__ = [
    "AMO_SET", "UINT64", "add64", "await_earlier_kernels", "block_index", "block_share",
    "block_sync", "block_threads", "claim", "cold", "cold_large", "compare_swap64", "fence",
    "fetch_add64", "fixed32", "fixed64", "follows_in_block", "grid_blocks", "grid_sync", "lane",
    "let_next_kernel_start", "line_block", "line_blocks", "line_rank", "line_thread",
    "line_threads", "load_pair", "nap", "note_call", "now", "opaque", "outline", "quotient32",
    "raise64", "rare", "read64", "read64_acquire", "relax", "signal_release_add",
    "signal_release_set", "state", "state_pe", "store_pair", "stride", "thread_in_block", "trap",
    "warp_share", "warp_sync", "warp_threads", "write64",
]  # fmt: skip

UINT64, AMO_SET = BY_NUMBER["uint64"], ATOMIC_OPS.index("set")

# -- order, time, control ------------------------------------------------------------------------

fence = fence_of("acq_rel")
now = runtime("ishmemx_leaf_time_awake", i64)
trap = runtime("pysh_cpu_no_state", types.void)
nap = relax


@register_jitable
def opaque(value):
    return value


stride = opaque


@register_jitable
def quotient32(a, b):
    return a // b


def _load(order: str) -> Any:
    @leaf(i64)
    def load(_context, builder, address):
        return load_bits(builder, 8, address, order)

    return load


@leaf(lambda address, value: (types.void, i64, i64))
def write64(_context, builder, address, value) -> None:
    store_bits(builder, 8, address, value)


@leaf(lambda address, value: (types.void, i64, i64))
def signal_release_set(_context, builder, address, value) -> None:
    """Release: pairs with the acquire that ends a wait of the receiving PE."""
    release64(builder, address, value)


read64, _acquire64 = _load("relaxed"), _load("acquire")


@register_jitable
def read64_acquire(address):
    """What ends a wait: the others' turns begin anew."""
    went_on()
    return _acquire64(address)


def _fetching(op: str, order: str) -> Any:
    @leaf(i64)
    def fetch(_context, builder, address, value):
        place = builder.inttoptr(address, I64.as_pointer())
        return builder.atomic_rmw(op, place, value, order)

    return fetch


fetch_add64, claim = _fetching("add", "monotonic"), _fetching("xchg", "monotonic")
_fetch_max, _release_add = _fetching("umax", "monotonic"), _fetching("add", "release")


@register_jitable
def add64(address, value):
    fetch_add64(address, value)


@register_jitable
def raise64(address, value):
    _fetch_max(address, value)


@register_jitable
def signal_release_add(address, value):
    _release_add(address, value)


@leaf(i64)
def compare_swap64(_context, builder, address, expected, value):
    place = builder.inttoptr(address, I64.as_pointer())
    pair = builder.cmpxchg(place, expected, value, "monotonic", "monotonic")
    return builder.extract_value(pair, 0)


@register_jitable
def load_pair(address):
    """Two int64: with the second comes the first, stored before it."""
    second = _acquire64(address + 8)
    return read64(address), second


@register_jitable
def store_pair(address, low, high):
    write64(address, low)
    signal_release_set(address + 8, high)


def _fixed(kind: Any, form: Any) -> Any:
    @leaf(lambda address: (kind, i64))
    def fixed(_context, builder, address):
        word = builder.load(builder.inttoptr(address, form.as_pointer()))
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word

    return fixed


fixed32, fixed64 = _fixed(types.int32, I32), _fixed(i64, I64)


def _as_call(function: Callable[..., int], kinds_of: Callable) -> Any:
    """``function`` as a call that is never inlined: what hardly ever runs costs little to compile."""

    def typing(*given):
        kind = signature(i64, *kinds_of(given))

        def codegen(context, builder, _sig, args):
            described = numba_cpu.part_of(context, builder, function, kind)
            callee = context.declare_function(builder.module, described)
            _status, result = context.call_conv.call_function(
                builder, callee, kind.return_type, kind.args, args, attrs=("noinline",)
            )
            return result

        return kind, codegen

    return with_arity(function.__code__.co_argcount, typing)


def cold(function: Callable[..., int]) -> Any:
    """See ``leaf.cuda.threads``: of int64 to int64."""
    return _as_call(function, lambda given: [i64] * len(given))


cold_large = rare = cold


def outline(function: Callable[..., int]) -> Any:
    """See ``leaf.cuda.threads``: of any arguments to int64."""
    return _as_call(function, lambda given: map(types.unliteral, given))


@register_jitable
def await_earlier_kernels():
    """Kernels of a stream run one behind the other here."""


let_next_kernel_start = await_earlier_kernels


@register_jitable
def note_call():
    """Reports have the kernel's name, as on a GPU."""


# -- the state block -----------------------------------------------------------------------------

_module = language.field("module", i64)


def state_word(builder, index):
    """That word of the state block, which changes between launches only."""
    module, form = builder.module, ir.ArrayType(I64, 0)
    try:
        symbol = module.get_global(STATE_NAME)
    except KeyError:
        symbol = ir.GlobalVariable(module, form, STATE_NAME)
    word = builder.load(builder.gep(symbol, [I64(0), index]))
    word.set_metadata("invariant.load", module.add_metadata([]))
    return word


@leaf(i64)
def _state_word(_context, builder, index):
    return state_word(builder, index)


@register_jitable
def state(index):
    if index == MODULE:
        return _module()
    return _state_word(index)


@leaf(lambda value: (types.int32, i64))
def _as32(_context, builder, value):
    return builder.trunc(value, I32)


@register_jitable
def state_pe(index):
    return _as32(state(index))


# -- who is running ------------------------------------------------------------------------------

thread_in_block = follows_in_block = line_thread = rank
block_threads = line_threads = n_threads
block_index = line_block = block_rank
grid_blocks = line_blocks = n_blocks


@register_jitable
def line_rank():
    return block_rank() * n_threads() + rank()


@register_jitable
def lane():
    return rank() & 31


@register_jitable
def warp_threads():
    return min(32, n_threads() - (rank() & ~31))


block_sync = block_meet


@register_jitable
def warp_sync():
    warp_meet(SYNC, 0, 0)


_share_word = runtime("pysh_cpu_shared", i64, i64, i64)


@register_jitable
def block_share(value):
    """The first thread's int64 ``value``, on every thread of the block; a barrier."""
    word = _share_word(1, 8)
    if rank() == 0:
        write64(word, value)
    block_sync()
    shared = read64(word)
    block_sync()
    return shared


@register_jitable
def warp_share(value):
    """The first lane's int64 ``value``, on every lane of the warp; a barrier."""
    return warp_meet(PICK, value, 0)
