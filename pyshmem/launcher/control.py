# SPDX-License-Identifier: BSD-3-Clause
"""The control segment: where PEs say what they are doing, and are told that the job is over."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from .._core import library


class Control(Protocol):
    """What the launcher needs of a control segment."""

    fd: int

    def describe(self, pe: int) -> str:
        """One phrase on where ``pe`` stands."""
        ...

    def failed(self) -> int | None:
        """The PE whose failure the others were told of first, as far as PEs told it themselves."""
        ...

    def global_exit(self) -> int | None:
        """The status with which a PE ended the job by ``global_exit``."""
        ...

    def abort(self, why: str) -> None:
        """Let every PE that waits end with ``why``."""
        ...

    def close(self) -> None: ...


class NativeControl:
    """The segment of the native library. It lives as long as somebody holds its descriptor."""

    def __init__(self, n_pes: int) -> None:
        fd = library.ffi.new("int *")
        library.check(library.lib.ishmemx_control_create(n_pes, fd))
        self.fd: int = fd[0]

    def describe(self, pe: int) -> str:
        text = library.ffi.new("char[]", 256)
        if library.lib.ishmemx_control_describe(self.fd, pe, text, len(text)):
            return "unknown"
        return str(library.ffi.string(text).decode(errors="replace"))

    def failed(self) -> int | None:
        return self._number(library.lib.ishmemx_control_failed)

    def global_exit(self) -> int | None:
        return self._number(library.lib.ishmemx_control_global_exit)

    def _number(self, ask: Callable[[int, Any], int]) -> int | None:
        number = library.ffi.new("int *")
        library.check(ask(self.fd, number))
        return int(number[0]) if number[0] >= 0 else None

    def abort(self, why: str) -> None:
        library.lib.ishmemx_control_abort(self.fd, why.encode())

    def close(self) -> None:
        os.close(self.fd)
