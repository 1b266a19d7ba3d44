# SPDX-License-Identifier: BSD-3-Clause
"""Leaf primitives as Numba intrinsics: inline PTX for order and atomicity, LLVM vectors for bulk.

Addresses, sizes and offsets are int64 everywhere: Numba turns uint64 + int64 into float64.
``leaf.sim`` has the same names with C bodies; nothing above these files knows which it uses.
"""

from collections.abc import Callable

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import register_jitable
from numba.cuda.nvvmutils import call_sreg
from numba.cuda.typing import signature

from ...._core.type_table import ATOMIC_OPS
from ...families import BY_NUMBER
from ...state import SYMBOL, WORDS
from .. import ptx as ptx
from ..ptx import I64, asm, i64, instruction, leaf, with_arity

__all__ = [
    "AMO_SET", "UINT64", "add64", "await_earlier_kernels", "block_index", "block_share",
    "block_sync", "block_threads", "claim", "cold", "cold_large", "compare_swap64", "fence",
    "fetch_add64", "follows_in_block", "grid_blocks", "grid_sync", "lane",
    "let_next_kernel_start", "line_block", "line_blocks", "line_rank", "line_thread",
    "line_threads", "nap", "note_call", "now", "opaque", "outline", "quotient32", "raise64",
    "rare", "read64", "read64_acquire", "relax", "signal_release_add", "signal_release_set",
    "state", "state_pe", "stride", "thread_in_block", "trap", "warp_share", "warp_sync",
    "warp_threads", "write64",
]  # fmt: skip

UINT64, AMO_SET = BY_NUMBER["uint64"], ATOMIC_OPS.index("set")

# -- order, time, control ------------------------------------------------------------------------

fence = instruction("fence.acq_rel.sys;")
now = instruction("mov.u64 $0, %globaltimer;", results=1)
opaque = instruction("mov.b64 $0, $1;", "l", results=1)  # hides a value from loop unrolling
# The same for the assembler's: adds what is always 0, as grids have at most 65,535 blocks in y.
_STRIDE = (
    "{.reg .b32 y; .reg .b64 z; mov.u32 y, %nctaid.y; shr.u32 y, y, 16; cvt.u64.u32 z, y;"
    " add.s64 $0, $1, z;}"
)
stride = instruction(_STRIDE, "l", results=1)
trap = instruction("trap;")
read64 = instruction("ld.relaxed.sys.global.u64 $0, [$1];", "l", results=1)
read64_acquire = instruction("ld.acquire.sys.global.u64 $0, [$1];", "l", results=1)
write64 = instruction("st.relaxed.sys.global.u64 [$0], $1;", "ll")
add64 = instruction("red.relaxed.sys.global.add.u64 [$0], $1;", "ll")
# Release at system scope: pairs with the acquire that ends a wait of the receiving PE.
signal_release_set = instruction("st.release.sys.global.u64 [$0], $1;", "ll")
signal_release_add = instruction("red.release.sys.global.add.u64 [$0], $1;", "ll")
# The ring: the own GPU's affair. In the host's memory no atomic of a GPU is one for the host, which only
# reads what is raised there.
fetch_add64 = instruction("atom.relaxed.gpu.global.add.u64 $0, [$1], $2;", "ll", results=1)
# Stores the second value where the word equals the first; what the word was.
compare_swap64 = instruction("atom.relaxed.gpu.global.cas.b64 $0, [$1], $2, $3;", "lll", results=1)
raise64 = instruction("red.relaxed.gpu.global.max.u64 [$0], $1;", "ll")
quotient32 = instruction(
    "{.reg .b32 a, b; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; div.u32 a, a, b; cvt.u64.u32 $0, a;}",
    "ll",
    results=1,
)
nap = instruction("nanosleep.u32 1000;")
# Leaves the given value in the word and returns the old one.
claim = instruction("atom.relaxed.sys.global.exch.b64 $0, [$1], $2;", "ll", results=1)


@register_jitable
def relax():
    """One turn of a spin wait: nothing to do on a GPU, whose other warps run anyway."""


def _as_call(
    function: Callable[..., int], kinds_of: Callable, *, hidden: bool = False, many: bool = True
):
    def typing(*given):
        kind = signature(i64, *kinds_of(given))

        def codegen(context, builder, _s, args):
            if many:
                builder.module.add_named_metadata(ptx.MANY_REGISTERS, ["1"])
            compiled = context.compile_subroutine(builder, function, kind)
            callee = compiled.fndesc.declare_function(builder.module)
            with builder.goto_entry_block():  # Numba's own helper would store a zero every time
                result = builder.alloca(I64)  # functions return through a pointer
            packed = context.get_arg_packer(kind.args).as_arguments(builder, args)
            if hidden:
                address = asm(builder, I64, _STRIDE, "=l,l", [builder.ptrtoint(callee, I64)])
                builder.call(builder.inttoptr(address, callee.type), [result, *packed])
            else:
                builder.call(callee, [result, *packed]).attributes.add("noinline")
            return builder.load(result)

        return kind, codegen

    return with_arity(function.__code__.co_argcount, typing)


def cold(function: Callable[..., int]):
    """``function``, of int64 to int64, as a call that is never inlined.

    For what hardly ever runs: inlined, it would stand between the instructions that do run, and the
    short loops of waits would no longer fit the instruction cache.
    """
    return _as_call(function, lambda given: [i64] * len(given), many=False)


def cold_large(function: Callable[..., int]):
    """``cold`` for what needs many registers: the kernel is made with a limit of them, see ``jit``."""
    return _as_call(function, lambda given: [i64] * len(given))


def rare(function: Callable[..., int]):
    """``cold`` for what needs many registers.

    The assembler knows which registers a function and all that it calls use, and keeps the callers'
    values out of them, in memory if need be, also while it is not called. Of a function behind an
    address that it cannot know it assumes the usual convention, and then only the call costs.
    """
    return _as_call(function, lambda given: [i64] * len(given), hidden=True)


def outline(function: Callable[..., int]):
    """``function``, of any arguments to int64, as a call that is never inlined.

    For the parts of collectives: a kernel has as many registers as the largest of its functions, and
    inlined into one they would have more than a block of 1,024 threads can have.
    """
    return _as_call(function, lambda given: map(types.unliteral, given))


def _since_sm_90(text: str):
    @leaf(types.void)
    def emit(_context, builder) -> None:
        if ptx.has_bulk_copies():
            asm(builder, ptx.VOID, text, "", [])

    return emit


#: Where the launch let the kernel start early: until those in front of it have ended, and what they
#: stored is seen. A kernel that ended without it could be overtaken by the next one.
await_earlier_kernels = _since_sm_90("griddepcontrol.wait;")
#: The next kernel may start, if its launch says so, when all blocks have come here or ended.
let_next_kernel_start = _since_sm_90("griddepcontrol.launch_dependents;")


# -- the state block -----------------------------------------------------------------------------


class _ConstantSymbol(ir.GlobalVariable):
    """A global that is ``externally_initialized``, which llvmlite cannot say.

    Without it link-time optimisation folds the zero initialiser and deletes the symbol.
    """

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append("".join(text).replace("global ", "externally_initialized global ", 1))


def state_symbol(module: ir.Module) -> ir.GlobalVariable:
    try:
        return module.get_global(SYMBOL)
    except KeyError:
        kind = ir.ArrayType(I64, WORDS)
        symbol = _ConstantSymbol(module, kind, SYMBOL, addrspace=4)
        symbol.linkage, symbol.initializer, symbol.align = "weak", ir.Constant(kind, None), 256
        return symbol


def _state(kind):
    """``f(index)``: that word of the state block, one load from constant memory."""

    @leaf(lambda index: (kind, i64))
    def state(context, builder, index):
        place = builder.gep(state_symbol(builder.module), [I64(0), index], inbounds=True)
        return builder.trunc(ptx.load_constant(builder, place), context.get_value_type(kind))

    return state


state = _state(i64)
state_pe = _state(types.int32)  # PE arithmetic such as ``(me + 1) % n`` is slow in 64 bits


# -- who is running --------------------------------------------------------------------------------


@register_jitable
def note_call():
    """The simulator remembers the calling line here; on a GPU reports have the kernel's."""


# In 32 bits, as the registers are: Numba would multiply in 64, in five instructions each.


@leaf(lambda: (types.int32,))
def thread_in_block(_context, builder):
    """Linear index of the thread in its block, int32."""
    x, y, z, columns, rows = (
        call_sreg(builder, name) for name in ("tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y")
    )
    return builder.add(x, builder.mul(columns, builder.add(y, builder.mul(rows, z))))


@leaf(lambda: (types.int32,))
def block_threads(_context, builder):
    """Threads of the block, int32."""
    x, y, z = (call_sreg(builder, name) for name in ("ntid.x", "ntid.y", "ntid.z"))
    return builder.mul(x, builder.mul(y, z))


#: Not 0 except in the block's first thread: short enough to ask for again instead of keeping it.
follows_in_block = instruction(
    "{.reg .u32 a, b; mov.u32 a, %tid.x; mov.u32 b, %tid.y; or.b32 a, a, b; mov.u32 b, %tid.z; "
    "or.b32 a, a, b; cvt.u64.u32 $0, a;}",
    results=1,
)


def _sreg(name: str):
    return leaf(lambda: (types.int32,))(lambda _context, builder: call_sreg(builder, name))


# Of grids and blocks of one dimension, int32: a register each.
line_thread, line_threads = _sreg("tid.x"), _sreg("ntid.x")
line_block, line_blocks = _sreg("ctaid.x"), _sreg("nctaid.x")


@leaf(lambda: (types.int32,))
def line_rank(_context, builder):
    """Index of the thread among those of all blocks."""
    block, threads, thread = (call_sreg(builder, name) for name in ("ctaid.x", "ntid.x", "tid.x"))
    return builder.add(builder.mul(block, threads), thread)


@register_jitable
def block_index():
    """Linear index of the block in the grid."""
    return cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)


@register_jitable
def grid_blocks():
    """Blocks of the grid."""
    return cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z


@register_jitable
def grid_sync():
    """Barrier of the grid, in a cooperative launch."""
    cuda.cg.this_grid().sync()


@register_jitable
def lane():
    """Index of the thread in its warp."""
    return thread_in_block() & 31


@register_jitable
def warp_threads():
    """Threads of the calling warp: 32, or fewer in a block's last one."""
    return min(32, block_threads() - (thread_in_block() & ~31))


@register_jitable
def block_sync():
    """Barrier of the block."""
    cuda.syncthreads()


@leaf(i64)
def _share_word(_context, builder):
    return ptx.shared_address(builder, "pyshmem_share_word", 8)


_store_shared = instruction(
    "{.reg .u64 t; cvta.to.shared.u64 t, $0; st.volatile.shared.u64 [t], $1;}", "ll"
)
_load_shared = instruction(
    "{.reg .u64 t; cvta.to.shared.u64 t, $1; ld.volatile.shared.u64 $0, [t];}", "l", results=1
)


@register_jitable
def block_share(value):
    """The first thread's int64 ``value``, on every thread of the block; a barrier."""
    word = _share_word()
    if thread_in_block() == 0:
        _store_shared(word, value)
    cuda.syncthreads()
    shared = _load_shared(word)
    cuda.syncthreads()
    return shared


@register_jitable
def warp_share(value):
    """The first lane's int64 ``value``, on every lane of the warp; a barrier.

    A shuffle alone orders no memory in PTX's model, ``bar.warp.sync`` does: what the first lane has
    acquired before, all lanes see behind it.
    """
    mask = 0xFFFFFFFF >> (32 - warp_threads())
    shared = cuda.shfl_sync(mask, value, 0)
    cuda.syncwarp(mask)
    return shared


@register_jitable
def warp_sync():
    """Barrier of the warp."""
    cuda.syncwarp()
