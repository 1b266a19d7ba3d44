# SPDX-License-Identifier: BSD-3-Clause
"""Stages of kernels that are compiled for the CPU: see ``leaf.cuda.stages``, whose records these are.

Labels are always compiled in, since without a timeline they cost a look at a word.
"""

from numba import types
from numba.core.typing import signature
from numba.extending import register_jitable

from ...._core.contract import TRACE as _TRACE
from ...state import MODULE, TRACE
from ..compiled.llvm import I64, i64, intrinsic
from ..compiled.messages import words_of
from ..compiled.stages import begin_above, place_of_begin, priority_of
from .language import block_rank
from .target import RANK, call, thread_word
from .threads import fetch_add64, read64, state, state_word, write64

__all__ = ["stage_begin", "stage_end"]

_TICKET, _CAPACITY, _DROPPED, _RECORDS = (
    _TRACE.TICKET, _TRACE.CAPACITY, _TRACE.DROPPED, _TRACE.RECORDS,
)  # fmt: skip
_BYTES, _AT_BEGIN, _AT_END = _TRACE.RECORD_BYTES, _TRACE.AT_BEGIN, _TRACE.AT_END
_AT_KERNEL, _AT_PLACE = _TRACE.AT_KERNEL, _TRACE.AT_PLACE
_AT_LABEL, _AT_PRIORITY = _TRACE.AT_LABEL, _TRACE.AT_PRIORITY


@register_jitable
def _write(begin, end, label0, label1, label2, priority):
    """A record, its END last; what finds no room is counted."""
    buffer = state(TRACE)
    capacity = read64(buffer + _CAPACITY)
    ticket = capacity
    if read64(buffer + _TICKET) < capacity:
        ticket = fetch_add64(buffer + _TICKET, 1)
    if ticket >= capacity:
        fetch_add64(buffer + _DROPPED, 1)
        return 0
    record = buffer + _RECORDS + ticket * _BYTES
    write64(record + _AT_BEGIN, begin)
    write64(record + _AT_KERNEL, state(MODULE))
    write64(record + _AT_PLACE, block_rank())
    write64(record + _AT_LABEL, label0)
    write64(record + _AT_LABEL + 8, label1)
    write64(record + _AT_LABEL + 16, label2)
    write64(record + _AT_PRIORITY, priority)
    write64(record + _AT_END, end)
    return 0


def _is_written(builder):
    """By the block's first thread, while a timeline is made."""
    made = builder.icmp_signed("!=", state_word(builder, I64(TRACE)), I64(0))
    rank = thread_word(builder, RANK)
    return builder.and_(made, builder.icmp_signed("==", rank, rank.type(0)))


@intrinsic
def stage_begin(_context, label, priority=0):
    """See ``api.stages``."""
    words, number = words_of(label), priority_of(priority)

    def codegen(context, builder, _sig, _args):
        place = place_of_begin(builder, words, number)
        with builder.if_then(_is_written(builder)):
            builder.store(call(builder, "ishmemx_leaf_now", I64), place)
        return context.get_dummy_value()

    given = types.Omitted(priority) if isinstance(priority, int) else priority
    return signature(types.void, label, given), codegen


@intrinsic
def stage_end(_context, label):
    """See ``api.stages``."""
    words = words_of(label)

    def codegen(context, builder, _sig, _args):
        place, priority = begin_above(builder, label, words)
        with builder.if_then(_is_written(builder)):
            end = call(builder, "ishmemx_leaf_now", I64)
            values = [builder.load(place), end, *map(I64, words), I64(priority)]
            context.compile_internal(builder, _write, signature(i64, *([i64] * 6)), values)
        return context.get_dummy_value()

    return signature(types.void, label), codegen
