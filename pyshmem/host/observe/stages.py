# SPDX-License-Identifier: BSD-3-Clause
"""Stages that kernels write while a timeline is made: the buffer on the device heap, and what is in it.

Kernels are compiled with their labels, or without them, so that labels cost nothing while no
timeline is made. Front ends ask ``compiled_in`` when they compile, and forget what they have
compiled when it changes.

The buffer, in bytes (``contract.TRACE``): u64 TICKET, records asked for while there was room; u64
CAPACITY; at DROPPED, LOSSES counters of stages that found no room, one for each multiprocessor modulo
LOSSES; from RECORDS on the records. A record: BEGIN and END in ns of the kernels' clock, END not 0 once
it is written; KERNEL, the kernel's word MODULE; PLACE, the block below and 1 + the multiprocessor in the
upper 32 bits; LABEL, 24 bytes of UTF-8 with zeros behind; PRIORITY.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.contract import TRACE
from ..._core.errors import ShmemError
from ..._core.library import HEAPS, check, ffi, lib, owned
from ..._core.type_table import ATOMIC_OPS, ELEMENT_NUMBER
from ..job import runtime
from ..teams.contexts import CTX_DEFAULT

_ADD, _UINT64 = ATOMIC_OPS.index("add"), ELEMENT_NUMBER["uint64"]
_LOW32, _LOW64 = (1 << 32) - 1, (1 << 64) - 1


class Stage(NamedTuple):
    """One stage of one group of threads of a kernel. Times are the kernels' clock, in ns."""

    label: str
    begin_ns: int
    end_ns: int
    kernel: int  # its word MODULE
    block: int
    processor: int  # the GPU's multiprocessor, -1 in simulators
    priority: int


_compiled_in = False
_block: Any = None  # owns the buffer
_place = 0  # the buffer's address, 0: there is none
_capacity = 0
_on_change: list[Callable[[], None]] = []


def compiled_in() -> bool:
    """Do kernels that are compiled now write their stages?"""
    return _compiled_in


def on_change(callback: Callable[[], None]) -> None:
    """Call ``callback`` when what ``compiled_in`` says has changed: to forget compiled kernels."""
    _on_change.append(callback)


def open_buffer(capacity: int) -> None:
    """Let kernels write up to ``capacity`` stages from now on. Collective.

    Raises: HeapExhausted, UnsupportedError (no device heap), ShmemError.
    """
    global _place, _capacity, _block
    block = owned(lib.end_block)
    nbytes = TRACE.RECORDS + capacity * TRACE.RECORD_BYTES
    check(lib.ishmemx_malloc(HEAPS["device"], nbytes, 128, 1, block))
    _block, _place, _capacity = block, int(block[0]), capacity
    words = ffi.new("int64_t *", capacity)
    source = int(ffi.cast("uintptr_t", words))
    check(
        lib.ishmemx_put(CTX_DEFAULT.handle, _place + TRACE.CAPACITY, source, 8, lib.ishmemx_my_pe())
    )
    check(lib.ishmemx_trace_stages(_place))
    _switch(True)


def close_buffer(*, together: bool) -> None:
    """Kernels write no more. ``together``: all PEs are here, so that the buffer can be freed."""
    global _place
    _place = 0
    lib.ishmemx_trace_stages(0)
    _switch(False)
    if together:
        check(lib.free_block(_block))


def _switch(on: bool) -> None:
    global _compiled_in
    _compiled_in = on
    for callback in tuple(_on_change):
        callback()
    if runtime.initialized():
        runtime.state_changed()


def read() -> tuple[list[Stage], int]:
    """What kernels have written, in no order, and how many stages found no room or are not written yet.

    Kernels that still run are not waited for.
    """
    raw = np.zeros(TRACE.RECORDS + _capacity * TRACE.RECORD_BYTES, np.uint8)
    check(lib.ishmemx_traced_stages(raw.ctypes.data, 0, raw.nbytes))
    header = raw[: TRACE.RECORDS].view(np.int64)
    losses = header[TRACE.DROPPED // 8 :][: TRACE.LOSSES]
    count = min(int(header[TRACE.TICKET // 8]), _capacity)
    records = raw[TRACE.RECORDS :].reshape(_capacity, TRACE.RECORD_BYTES)[:count]
    words = records.view(np.int64)
    written = words[:, TRACE.AT_END // 8] != 0
    stages = [_stage(record.tobytes(), row.tolist()) for record, row in
              zip(records[written], words[written], strict=True)]  # fmt: skip
    return stages, int(losses.sum()) + count - len(stages)


def _stage(record: bytes, words: list[int]) -> Stage:
    label = record[TRACE.AT_LABEL : TRACE.AT_PRIORITY].rstrip(b"\0").decode(errors="replace")
    place = words[TRACE.AT_PLACE // 8]
    return Stage(
        label, words[TRACE.AT_BEGIN // 8], words[TRACE.AT_END // 8], words[TRACE.AT_KERNEL // 8],
        place & _LOW32, (place >> 32) - 1, words[TRACE.AT_PRIORITY // 8],
    )  # fmt: skip


def write(
    buffer: int, begin_ns: int, kernel: int, block: int, label: tuple[int, ...], priority: int
) -> None:
    """A stage that ends now, as kernels of simulators write it; those of GPUs: ``stage_ptx``."""
    end_ns = lib.ishmemx_leaf_now()
    capacity = lib.ishmemx_leaf_load(buffer + TRACE.CAPACITY, 8)
    ticket = capacity
    if lib.ishmemx_leaf_load(buffer + TRACE.TICKET, 8) < capacity:
        ticket = lib.ishmemx_leaf_atomic(_ADD, _UINT64, buffer + TRACE.TICKET, 1, 0)
    if ticket >= capacity:
        lib.ishmemx_leaf_atomic(_ADD, _UINT64, buffer + TRACE.DROPPED, 1, 0)
        return
    record = buffer + TRACE.RECORDS + ticket * TRACE.RECORD_BYTES
    values = {
        TRACE.AT_BEGIN: begin_ns, TRACE.AT_KERNEL: kernel, TRACE.AT_PLACE: block & _LOW32,
        TRACE.AT_PRIORITY: priority, TRACE.AT_END: end_ns,
    }  # fmt: skip
    values |= {TRACE.AT_LABEL + 8 * k: word for k, word in enumerate(label)}
    for at, value in values.items():
        lib.ishmemx_leaf_store(record + at, value & _LOW64, 8)


def clock() -> tuple[int, int]:
    """What to add to the kernels' clock to have the host's, and how far off that may be, in ns."""
    offset, within = ffi.new("int64_t *"), ffi.new("int64_t *")
    status = lib.ishmemx_trace_clock(offset, within)
    if status:
        raise ShmemError(ffi.string(lib.ishmemx_error()).decode(errors="replace"))
    return int(offset[0]), int(within[0])
