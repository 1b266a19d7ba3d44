# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes and timeouts in kernels: recorded where they happen, raised by the next host call.

A kernel cannot raise. The faulty operation is left out, the first fault since the last report is
written to memory that the host reads, and every pyshmem call of the host, and every launch of a
kernel that uses pyshmem, raises it as ``KernelFault`` with the kernel's name and the block.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .._core.library import ffi, lib
from ..host.proxy import OPERATIONS
from .leaf import chosen as leaf
from .leaf.chosen import cold, state, write64
from .state import FAULT_CLAIM, FAULT_RECORD, MODULE

# enum ishmemx_fault_kind
(
    FAULT_PE, FAULT_ADDRESS, FAULT_TIMEOUT, FAULT_UNINITIALIZED, FAULT_NELEMS, FAULT_PROXY,
    FAULT_TEAM, FAULT_STRIDE, FAULT_LOCK, FAULT_CHOICE,
) = range(1, 11)  # fmt: skip

#: Device routines by number; a scope's suffix is not told apart.
OPS = (
    "put", "get", "p", "g", "put_signal", "signal_op", "signal_wait_until", "wait_until",
    "atomic_fetch", "atomic_set", "atomic_swap", "atomic_compare_swap", "atomic_add",
    "atomic_and", "atomic_or", "atomic_xor", "sync_all", "barrier_all", "ptr", "put_nbi",
    "get_nbi", "put_signal_nbi", "test", "signal_fetch", "ring", "iput", "iget", "ibput", "ibget",
    "team_sync", "broadcast", "collect", "fcollect", "alltoall", "alltoalls", "reduce", "scan",
    "wait_until_all", "wait_until_any", "wait_until_some", "test_all", "test_any", "test_some",
    "set_lock", "test_lock", "clear_lock", "quiet", "team_translate_pe",
)  # fmt: skip
OP = {name: number for number, name in enumerate(OPS)}
ROUTINE_BITS = 16  # of a number in OPS, where more is packed above it

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
        write64(record + 8, op)
        write64(record + 16, pe)
        write64(record + 24, state(MODULE))
        write64(record + 32, leaf.block_index())
        write64(record + 40, leaf.thread_in_block())
        write64(record + 48, a)
        write64(record + 56, b)
        leaf.fence()  # pairs with the host's acquire load of `kind` in pysh_enter()
        write64(record, kind)
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
    op = OPS[fault["op"]] if 0 <= fault["op"] < len(OPS) else f"operation {fault['op']}"
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
