# SPDX-License-Identifier: BSD-3-Clause
"""What of Numba's simulator waits for streams, or takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._core.arrays.checks import stream_handle
from ...._core.library import check, lib
from ...._foreign import numba_simulator
from ....host.kernels.sim_calls import is_captured
from . import checked_streams, greenlets


def handle_of(stream: Any) -> int:
    """The stream's handle; 0 for Numba's streams, which do everything at once here."""
    known = hasattr(stream, "__cuda_stream__") or isinstance(stream, int)
    return stream_handle(stream) if known else 0


def finish(handle: int) -> None:
    """Wait for all that is on the stream."""
    if greenlets.RECORD is None:
        check(lib.ishmemx_stream_finish(handle))
        return
    greenlets.RECORD.awaits(handle)
    with greenlets.RECORD.wait_for("synchronize", handle):
        check(lib.ishmemx_stream_finish(handle))


# -- what waits ----------------------------------------------------------------------------------


def _finish_one(stream: Any, what: str) -> None:
    """Before the host copies in the order of a stream."""
    handle = handle_of(stream)
    if not handle:
        checked_streams.finish_all()
        return
    if is_captured(handle):
        raise ValueError(
            f"{what} on a stream that is being captured: the simulator's graphs lack it"
        )
    finish(handle)


def install(finish_all: Callable[[], None]) -> None:
    """Patches what of Numba's simulator takes it for granted that everything is done.

    Args:
        finish_all: waits for all streams.
    """

    def to_host(plain: Callable[..., Any]) -> Callable[..., Any]:
        def copy_to_host(self: Any, ary: Any = None, stream: Any = 0) -> Any:
            _finish_one(stream, "copy_to_host")
            return plain(self, ary)

        return copy_to_host

    def to_device(plain: Callable[..., Any]) -> Callable[..., Any]:
        def copy_to_device(self: Any, ary: Any, stream: Any = 0) -> None:
            _finish_one(stream, "copy_to_device")
            plain(self, ary)

        return copy_to_device

    numba_simulator.COPY_TO_HOST.wrap(to_host)
    numba_simulator.COPY_TO_DEVICE.wrap(to_device)
    numba_simulator.EVENT_SYNCHRONIZE.replace(lambda self: finish_all())
    numba_simulator.EVENT_WAIT.replace(lambda self, stream=0: finish_all())
    if greenlets.RECORD is not None:
        greenlets.RECORD.events(finish_all)
        checked_streams.install()
    for synchronize in numba_simulator.SYNCHRONIZE:
        synchronize.replace(finish_all)
