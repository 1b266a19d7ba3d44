# SPDX-License-Identifier: BSD-3-Clause
"""What a compiler knows of a stage: its priority, and where its begin is kept."""

from numba.core import errors
from numba.cuda import types


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
