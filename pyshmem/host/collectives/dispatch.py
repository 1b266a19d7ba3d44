# SPDX-License-Identifier: BSD-3-Clause
"""Who does a collective: the host, or a kernel in the order of a stream."""

from __future__ import annotations

from ..._core.arrays import StreamLike, stream_handle
from ..._core.library import check, lib
from ..stream_kernels import OWN, for_kernels, run


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
