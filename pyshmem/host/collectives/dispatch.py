# SPDX-License-Identifier: BSD-3-Clause
"""Who does a collective: the host, or a kernel in the order of a stream."""

from __future__ import annotations

from ..._core.arrays.checks import StreamLike, stream_handle
from ..._core.library import check, ffi, lib
from ..kernels.stream_kernels import OWN, for_kernels, run
from ..tuning.streams import KINDS

#: What memory outside the heap begins at a multiple of, where a side may be there.
ALIGNMENT = 16


def do(routine: str, dest: int, given: tuple[int, ...], stream: StreamLike) -> None:
    """The routine with its arguments, of which number ``dest`` is its address.

    Arrays that only a GPU reaches are a kernel's affair also without a stream: then the library has one
    of its own, and waits for it.
    """
    if stream is not None:
        call = getattr(lib, f"ishmemx_{routine}_on_stream")
        run(call, *given, stream_handle(stream))
        return
    source = given[dest + 2] if routine == "collect" else given[dest + 1]
    if lib.ishmemx_only_gpu(given[dest], source) and for_kernels(routine, given):
        run(getattr(lib, f"ishmemx_{routine}_on_stream"), *given, OWN)
        return
    check(getattr(lib, f"ishmemx_{routine}")(*given))


def sides_reached(routine: str, team: int, nbytes: int) -> tuple[bool, bool]:
    """Whether other members reach dest, and source, of a call with a stream; the same on all.

    What they do not reach may be any memory of the own GPU that begins at a multiple of ``ALIGNMENT``.

    Args:
        routine: one of ``tuning.streams.OPERATIONS``.
        team: its handle.
        nbytes: of a member's block, as the routine counts them.
    """
    sides = ffi.new("int *")
    check(lib.ishmemx_stream_sides(team, KINDS[routine], nbytes, sides))
    return bool(sides[0] & lib.ISHMEMX_SIDE_DEST), bool(sides[0] & lib.ISHMEMX_SIDE_SOURCE)
