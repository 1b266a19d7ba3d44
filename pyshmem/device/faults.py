# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes and timeouts in kernels: recorded where they happen, raised by the next host call.

A kernel cannot raise. The faulty operation is left out, the first fault since the last report is
written to memory that the host reads, and every pyshmem call of the host, and every launch of a
kernel that uses pyshmem, raises it as ``KernelFault`` with the kernel's name and the block.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .._core.contract import FAULT, ROUTINES
from .._core.contract import FAULT_FIELD as _AT
from .._core.library import ffi, lib
from ..host.proxy import OPERATIONS
from .leaf import chosen as leaf
from .leaf.chosen import cold, state, write64
from .state import FAULT_CLAIM, FAULT_RECORD, MODULE

FAULT_PE, FAULT_ADDRESS, FAULT_NELEMS = FAULT.PE, FAULT.ADDRESS, FAULT.NELEMS
FAULT_TIMEOUT, FAULT_PROXY, FAULT_TEAM = FAULT.TIMEOUT, FAULT.PROXY, FAULT.TEAM
FAULT_STRIDE, FAULT_LOCK, FAULT_CHOICE = FAULT.STRIDE, FAULT.LOCK, FAULT.CHOICE
_AT_KIND, _AT_OP, _AT_PE, _AT_MODULE = _AT.KIND, _AT.OP, _AT.PE, _AT.MODULE
_AT_BLOCK, _AT_THREAD, _AT_A, _AT_B = _AT.BLOCK, _AT.THREAD, _AT.A, _AT.B

OP = {name: number for number, name in enumerate(ROUTINES)}
ROUTINE_BITS = 16  # of a number in ROUTINES, where more is packed above it

for _name, _number in OP.items():
    lib.ishmemx_name_set(lib.ISHMEMX_NAME_ROUTINE, _number, _name.encode())


@cold
def record_fault(kind: int, op: int, pe: int, a: int, b: int) -> int:
    """Keeps the first fault, and tells whether this is it.

    ``a`` and ``b`` are what ``ishmemx_fault`` says for the kind.
    """
    word = state(FAULT_CLAIM)
    if word == 0:
        leaf.trap()  # no state block, so no record: the launch check was evaded
    elif leaf.claim(word, 1) == 0:
        leaf.note_call()
        record = state(FAULT_RECORD)
        write64(record + _AT_OP, op)
        write64(record + _AT_PE, pe)
        write64(record + _AT_MODULE, state(MODULE))
        write64(record + _AT_BLOCK, leaf.block_index())
        write64(record + _AT_THREAD, leaf.thread_in_block())
        write64(record + _AT_A, a)
        write64(record + _AT_B, b)
        leaf.fence()  # pairs with the host's acquire load of `kind` in pysh_enter()
        write64(record + _AT_KIND, kind)
        return 1
    return 0


def _text(ask: Callable[[Any, int], int], capacity: int) -> str:
    text = ffi.new("char[]", capacity)
    ask(text, capacity)
    return ffi.string(text).decode(errors="replace")


def proxy_error() -> str:
    """What went wrong with the last request that failed in the proxy."""
    return _text(lib.ishmemx_proxy_error, 1024)


def report() -> str:
    """Where all PEs stand, and what their kernels wait for."""
    return _text(lib.ishmemx_report, 8192)


_WHAT = {
    FAULT_PE: "pe {a} is not one of the {b} PEs (0..{last}); nothing was transferred",
    FAULT_ADDRESS: "{b} bytes at {a:#x} are not on the device heap; pass an array made with "
    "heap='device' (nothing was transferred)",
    FAULT_NELEMS: "nelems {a} does not fit the arrays, which hold {b}; nothing was transferred",
    FAULT_TIMEOUT: "waited longer than PYSHMEM_TIMEOUT for {a} and saw {b}{whom}; the PEs stand:\n",
    FAULT_PROXY: "the request failed on the host: ",
    FAULT_TEAM: "slot {a} holds no team of this PE (destroyed, or not a member?)",
    FAULT_LOCK: "no thread of this PE has the lock; it stays as it is",
    FAULT_CHOICE: "{a} is no comparison or signal operation, the last of which is {b}; "
    "nothing was done",
    FAULT_STRIDE: "stride {a} is less than 1, or than the block of {b}; nothing was transferred",
}


def describe_fault(fault: Mapping[str, int], kernel: str) -> str:
    """One sentence for the host's exception. ``fault`` has the fields of ``ishmemx_fault``."""
    if fault["module"] < 0:  # the proxy's own record: no kernel waited
        request = OPERATIONS[fault["op"]] if 0 < fault["op"] < len(OPERATIONS) else "quiet"
        if request == "waiting":
            return f"a kernel's wait was ended: {proxy_error()}"
        return f"a kernel's {request} without a reply failed on the host: {proxy_error()}"
    op = ROUTINES[fault["op"]] if 0 <= fault["op"] < len(ROUTINES) else f"operation {fault['op']}"
    where = (
        f"in kernel {kernel}, block {fault['block']}, thread {fault['thread']}: device routine {op}"
    )
    kind, pe, a, b = fault["kind"], fault["pe"], fault["a"], fault["b"]
    what = _WHAT.get(kind, "fault {kind}").format(
        kind=kind, a=a, b=b, last=b - 1, whom=f" from PE {pe}" if pe >= 0 else ""
    )
    if kind == FAULT_TIMEOUT:
        what += report()
    elif kind == FAULT_PROXY:
        what += proxy_error()
    return f"{where}: {what}"
