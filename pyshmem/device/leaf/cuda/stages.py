# SPDX-License-Identifier: BSD-3-Clause
"""Stages on GPUs: two intrinsics, which are nothing while kernels are compiled without their labels.

A stage's begin is a variable of the function that both calls are in, so the two are in one function; as
intrinsics they are compiled into their caller.
"""

from numba.cuda import types
from numba.cuda.extending import intrinsic
from numba.cuda.typing import signature

from ...._core.labels import FIRST_THREAD, STAGE_PTX
from ....host.observe import stages
from ...state import MODULE, TRACE
from ..compiled.messages import words_of
from ..compiled.stages import begin_above, place_of_begin, priority_of
from ..ptx import I64, VOID, asm
from .threads import state_symbol

__all__ = ["stage_begin", "stage_end"]

#: Metadata of modules with labels, compiled in or not: ``jit`` looks for it.
STAGES = "pyshmem.stages"

_WRITE = (
    STAGE_PTX.replace("<leader>", FIRST_THREAD)
    .replace("<buffer>", "mov.b64 b, $0;")
    .replace("<begin>", "$1")
    .replace("<kernel>", "$2")
)


@intrinsic
def stage_begin(_context, label, priority=0):
    """See ``api.stages``."""
    words, number = words_of(label), priority_of(priority)

    def codegen(context, builder, _sig, _args):
        builder.module.add_named_metadata(STAGES, ["1"])
        place = place_of_begin(builder, words, number)
        if stages.compiled_in():
            builder.store(asm(builder, I64, "mov.u64 $0, %globaltimer;", "=l", []), place)
        return context.get_dummy_value()

    given = types.Omitted(priority) if isinstance(priority, int) else priority
    return signature(types.void, label, given), codegen


@intrinsic
def stage_end(_context, label):
    """See ``api.stages``."""
    words = words_of(label)

    def codegen(context, builder, _sig, _args):
        place, priority = begin_above(builder, label, words)
        if stages.compiled_in():
            body = _WRITE.replace("<priority>", str(priority))
            for k, word in enumerate(words):
                body = body.replace(f"<label{k}>", str(word))
            trace, module = (
                builder.load(builder.gep(state_symbol(builder.module), [I64(0), I64(k)]))
                for k in (TRACE, MODULE)
            )
            asm(builder, VOID, body, "l,l,l", [trace, builder.load(place), module])
        return context.get_dummy_value()

    return signature(types.void, label), codegen
