# SPDX-License-Identifier: BSD-3-Clause
"""Streams of others as CuPy's, by their handles."""

from __future__ import annotations

from typing import Any


class _Handle:
    """What CuPy asks for a stream, since it has ``Stream.from_external``."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def external(cupy: Any, handle: int) -> Any:
    """The stream of a handle, which stays its owner's; CuPy that cannot ask has a class for it."""
    make = getattr(cupy.cuda.Stream, "from_external", None)
    return make(_Handle(handle)) if make else cupy.cuda.ExternalStream(handle)
