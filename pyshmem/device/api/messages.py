# SPDX-License-Identifier: BSD-3-Clause
"""From a kernel to its own host: prints, functions that the host runs, the end of the job.

All go through the ring to the proxy of the calling PE, also where peers are near. Each thread that calls
sends a request of its own. Requests of one block are served in the order of its calls.
"""

from ..leaf import backend as leaf
from ..leaf.backend import device_function, label_word, to_int64
from ..ring.requests import ABORT, CALL, PRINT, RELEASE, ask, tell
from ..routine import routine


@device_function
def _place() -> int:
    return leaf.block_index() | leaf.thread_in_block() << 32


@routine
def print(label, value=None):
    """Print a line on the host's standard output: PE, label, value, block and thread.

    Args:
        label: text that stands in the call, at most 24 bytes in UTF-8.
        value: an integer, shown as int64, or a float, or nothing.

    Completes: the line is out after ``quiet``, and when the host has returned from a routine that
    completes what kernels did, such as ``quiet`` or ``barrier_all``, after the kernel's end.
    Fails to compile: another kind of label or value.
    Extension.
    """
    first, second, third = label_word(label, 0), label_word(label, 1), label_word(label, 2)
    kind = leaf.print_kind(value) << 32
    tell(PRINT, first, second, third, leaf.print_bits(value), _place(), kind)


@routine
def abort(code, label=""):
    """End the whole job now, with ``code`` as the exit status of this PE's process.

    The other PEs' current or next calls fail with ``PeerDied`` and the label; a launcher ends them.

    Args:
        code: exit status, 0 to 255.
        label: text that stands in the call, at most 24 bytes in UTF-8; part of the message.

    Does not return.
    Spec: shmem_global_exit, here from a kernel (extension).
    """
    first, second, third = label_word(label, 0), label_word(label, 1), label_word(label, 2)
    ask(ABORT, first, second, third, 0, _place(), to_int64(code) & 0xFFFFFFFF)


@routine
def call(handler, a, b, c, d):
    """Have the host run a function, and wait for what it returns.

    What the calling thread stored before is visible to the function.

    Args:
        handler: what ``pyshmem.register_handler`` returned, passed to the kernel.
        a, b, c, d: integers, given as int64.

    Returns:
        The function's int64; 0 after a fault.

    Completes: the function has returned.
    Faults: a handler that is not registered.
    Extension.
    """
    high = to_int64(handler) << 32
    return ask(CALL | RELEASE, to_int64(a), to_int64(b), to_int64(c), to_int64(d), 0, high)


@routine
def post(handler, a, b, c, d):
    """Have the host run a function, without waiting for it; what it returns is dropped.

    Args and errors: as ``call``.
    Completes: the function has returned after ``quiet``.
    Extension.
    """
    high = to_int64(handler) << 32
    tell(CALL | RELEASE, to_int64(a), to_int64(b), to_int64(c), to_int64(d), 0, high)
