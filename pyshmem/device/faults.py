# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes and timeouts in kernels: recorded where they happen, raised by the next host call.

A kernel cannot raise. The faulty operation is left out, the first fault since the last report is
written to memory that the host reads, and every pyshmem call of the host, and every launch of a
kernel that uses pyshmem, raises it as ``KernelFault`` with the kernel's name and the block.
"""

from .._core.contract import FAULT_FIELD as _AT
from ..host.faults import *  # noqa: F403
from .leaf import backend as leaf
from .leaf.backend import cold, state, write64
from .state import FAULT_CLAIM, FAULT_RECORD, MODULE

_AT_KIND, _AT_OP, _AT_PE, _AT_MODULE = _AT.KIND, _AT.OP, _AT.PE, _AT.MODULE
_AT_BLOCK, _AT_THREAD, _AT_A, _AT_B = _AT.BLOCK, _AT.THREAD, _AT.A, _AT.B


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
