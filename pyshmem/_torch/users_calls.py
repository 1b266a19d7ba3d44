# SPDX-License-Identifier: BSD-3-Clause
"""What a program has called of torch's, where a report or an error would name a routine under that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._core.errors import MismatchError
from .._core.library import check, ffi, lib

#: Names of torch's own methods, and the functions that programs call.
_FUNCTIONS = {
    "all_gather_single": "all_gather_into_tensor",
    "all_gather_single_coalesced": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
}
_HAS_LEFT = re.compile(r"^\w+: PE (\d+) has left the team")
_STEPS = (
    "; gradients of DistributedDataParallel are such calls: give all ranks as many batches, or run the "
    "loop in `with model.join():`"
)


def function_of(name: str) -> str:
    """``all_gather_into_tensor`` of ``all_gather_single``."""
    return _FUNCTIONS.get(name, name)


@contextmanager
def waits_of(call: str) -> Iterator[None]:
    """While within, reports have this thread's waits in ``call`` of torch."""
    lib.ishmemx_name_waits(b"torch's " + call.encode())
    try:
        yield
    finally:
        lib.ishmemx_name_waits(ffi.NULL)


def named(call: str, function: Callable[..., Any], pes: Sequence[int]) -> Callable[..., Any]:
    """``function`` with its waits in ``call``; ``pes``: of the group, by rank."""

    def run(*given: Any) -> Any:
        with waits_of(call):
            try:
                return function(*given)
            except MismatchError as error:
                refuse_left(call, error, pes)
                raise

    return run


def refuse_left(call: str, error: MismatchError, pes: Sequence[int]) -> None:
    """Raises what is meant, if ``error`` says that a member has left before the collective ``call``.

    Raises: MismatchError.
    """
    left = _HAS_LEFT.match(str(error))
    if error.status != lib.ISHMEMX_ERR_LEFT or left is None:
        return
    rank, name = list(pes).index(int(left[1])), function_of(call)
    meant = MismatchError(
        f"{name}: rank {rank} has left the process group, by destroy_process_group or at its end, and "
        f"this rank still calls {name}: all ranks make as many calls"
        + (_STEPS if name == "all_reduce" else "")
    )
    meant.status = error.status
    raise meant from None


def check_call(status: int, call: str, pes: Sequence[int]) -> None:
    """As ``check``, for a collective ``call`` of a group."""
    try:
        check(status)
    except MismatchError as error:
        refuse_left(call, error, pes)
        raise
