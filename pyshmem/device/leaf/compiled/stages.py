# SPDX-License-Identifier: BSD-3-Clause
"""What a compiler knows of a stage: its priority, and where its begin is kept."""

from numba.core import errors
from numba.cuda import types

from .llvm import I64


def priority_of(priority) -> int:
    if isinstance(priority, types.Omitted):
        return int(priority.value)
    if not isinstance(priority, (int, types.IntegerLiteral)):
        raise errors.TypingError(
            f"a stage's priority is a number that stands in the call, not {priority}"
        )
    return int(getattr(priority, "literal_value", priority))


def begins_of(builder) -> dict:
    """Where the begins of the stages of the function are kept, by the words of their labels."""
    function = builder.function
    if not hasattr(function, "pyshmem_stages"):
        function.pyshmem_stages = {}
    return function.pyshmem_stages


def place_of_begin(builder, words, number: int):
    """The function's variable for the begin of a stage, whose priority is kept beside it."""
    begins = begins_of(builder)
    with builder.goto_entry_block():
        place = begins[words][0] if words in begins else builder.alloca(I64)
    begins[words] = place, number
    return place


def begin_above(builder, label, words) -> tuple:
    """Variable and priority of the stage that ends here. Raises: LoweringError (it has no begin)."""
    if words not in begins_of(builder):
        text = label.literal_value
        raise errors.LoweringError(
            f"stage_end({text!r}) without stage_begin({text!r}) above it in the function"
        )
    return begins_of(builder)[words]
