# SPDX-License-Identifier: BSD-3-Clause
"""From a program to its host: chunks for copy engines, prints, functions, the end of the job.

A program sends one request a call; ``quiet`` completes those that have no reply.
"""

import triton.language as tl

from .primitives.backend import device_function, touch
from .primitives.job_constants import bytes_of
from .primitives.ring import ask, label_word, program_number, settle, tell, to_int64
from .runtime.constants import (
    PRINT_FLOAT,
    PRINT_INT,
    PRINT_TEXT,
    REQUEST_ABORT,
    REQUEST_CALL,
    REQUEST_GET,
    REQUEST_PRINT,
    REQUEST_PUT,
    REQUEST_PUT_SIGNAL,
)
from .signals import check_signal

__all__ = ["abort", "call", "get_chunk", "post", "print", "put_chunk", "settle"]


@device_function
def _one(value):
    """A number, or a scalar pointer, as int64. What is wrong is told before there is a request."""
    word = to_int64(value)
    tl.static_assert(not word.type.is_block(), "a request takes numbers and pointers, not tensors")
    return word


@device_function
def _nbytes(dest, source, nelems):
    tl.static_assert(
        dest.dtype.element_ty == source.dtype.element_ty,
        "dest and source of a chunk are of one dtype",
    )
    per_element: tl.constexpr = bytes_of(dest.dtype.element_ty)
    nbytes = _one(nelems) * per_element
    touch(dest, None, nbytes)
    touch(source, None, nbytes)
    return nbytes


@device_function
def put_chunk(dest, source, nelems, pe, ctx, sig_addr=None, signal=1):
    """Have a copy engine copy ``nelems`` elements to ``pe``, while the kernel goes on.

    What the program has stored before is in it.

    Args:
        dest, source: scalar pointers of one dtype; ``dest`` on the symmetric heap.
        sig_addr: scalar pointer to uint64 or int64 on the device heap, or None: set to ``signal`` on
            ``pe`` behind the data.

    Completes: nothing on return; ``source`` must not change until ``quiet``.
    Faults: what the host finds wrong (a pe or an address that there is not), at the next host call.
    Example: ``shmem.put_chunk(dest, source, BLOCK, right, ctx, sig, 1); shmem.quiet(ctx)``
    Spec: shmem_put_nbi, shmem_put_signal_nbi.
    """
    nbytes = _nbytes(dest, source, nelems)
    if sig_addr is None:
        tell(REQUEST_PUT, _one(dest), _one(source), nbytes, 0, 0, _one(pe), ctx)
    else:
        check_signal(sig_addr)
        tell(
            REQUEST_PUT_SIGNAL, _one(dest), _one(source), nbytes, _one(sig_addr),
            _one(signal), _one(pe), ctx,
        )  # fmt: skip


@device_function
def get_chunk(dest, source, nelems, pe, ctx):
    """Have a copy engine copy ``nelems`` elements from ``pe``, while the kernel goes on.

    Completes: nothing on return; ``dest`` has the data after ``quiet``.
    Example: ``shmem.get_chunk(dest, source, BLOCK, right, ctx); shmem.quiet(ctx)``
    Spec: shmem_get_nbi.
    """
    tell(
        REQUEST_GET,
        _one(dest),
        _one(source),
        _nbytes(dest, source, nelems),
        0,
        0,
        _one(pe),
        ctx,
    )


@device_function
def post(handler, a, b, c, d, ctx):
    """Have the host run a function, and go on; ``quiet`` waits until it has returned.

    Args:
        handler: what ``pyshmem.register_handler`` returned, passed to the kernel.
        a, b, c, d: integers, given as int64.

    Example: ``shmem.post(handler, 1, 2, 3, 4, ctx)``
    Extension.
    """
    tell(
        REQUEST_CALL,
        _one(a),
        _one(b),
        _one(c),
        _one(d),
        0,
        _one(handler) << 32,
        ctx,
    )


@device_function
def call(handler, a, b, c, d, ctx):
    """Have the host run a function, and wait for what it returns.

    What the program stored before is visible to the function.

    Args:
        handler: what ``pyshmem.register_handler`` returned, passed to the kernel.
        a, b, c, d: integers, given as int64.

    Returns: the function's int64; 0 after a fault.
    Faults: a handler that is not registered.
    Example: ``answer = shmem.call(handler, 1, 2, 3, 4, ctx)``
    Extension.
    """
    return ask(
        REQUEST_CALL, _one(a), _one(b), _one(c), _one(d), 0, _one(handler) << 32,
        ctx,
    )  # fmt: skip


_NO_LABEL = tl.constexpr("")


@device_function
def abort(code, ctx, label: tl.constexpr = _NO_LABEL):
    """End the whole job now, with ``code`` as the exit status of this PE's process.

    The other PEs' current or next calls fail with ``PeerDied`` and the label; a launcher ends them.

    Args:
        code: exit status, 0 to 255.
        label: text that stands in the call, at most 24 bytes in UTF-8; part of the message.

    Does not return.
    Example: ``shmem.abort(3, ctx, "no input")``
    Spec: shmem_global_exit, here from a kernel (extension).
    """
    first: tl.constexpr = label_word(label, 0)
    second: tl.constexpr = label_word(label, 1)
    third: tl.constexpr = label_word(label, 2)
    place = to_int64(program_number())
    ask(REQUEST_ABORT, first, second, third, 0, place, _one(code) & 0xFFFFFFFF, ctx)


@device_function
def abort_with(code, ctx, label: tl.constexpr, first, second):
    """``abort`` where the first # of the label is the number ``first``, the next ``second``.

    They are shown as int32; one that is larger, or less, as the largest or the least.
    """
    low, high = _as_int32(first) & 0xFFFFFFFF, _as_int32(second) << 32
    place = to_int64(program_number())
    ask(
        REQUEST_ABORT, label_word(label, 0), label_word(label, 1), label_word(label, 2), low | high,
        place, (to_int64(2) << 32) | (to_int64(code) & 0xFFFFFFFF), ctx,
    )  # fmt: skip


@device_function
def _as_int32(number):
    """The nearest int32, as int64."""
    return tl.minimum(tl.maximum(to_int64(number), -0x80000000), 0x7FFFFFFF)


@device_function
def print(label: tl.constexpr, value, ctx):
    """Print a line on the host's standard output: PE, label, value and program.

    Args:
        label: text that stands in the call, at most 24 bytes in UTF-8.
        value: an integer, shown as int64, or a float, or nothing (None).

    Completes: as ``post``.
    Example: ``shmem.print("counted", tl.load(counter), ctx)``
    Extension.
    """
    first: tl.constexpr = label_word(label, 0)
    second: tl.constexpr = label_word(label, 1)
    third: tl.constexpr = label_word(label, 2)
    place = program_number().to(tl.int64)
    if value is None:
        tell(REQUEST_PRINT, first, second, third, 0, place, to_int64(PRINT_TEXT) << 32, ctx)
    else:
        shown = tl.where(program_number() >= 0, value, value)  # a tensor, of a constant too
        tl.static_assert(not shown.type.is_block(), "print shows a number, not a tensor of them")
        if shown.dtype.is_floating():
            bits = shown.to(tl.float64).to(tl.int64, bitcast=True)
            tell(REQUEST_PRINT, first, second, third, bits, place, to_int64(PRINT_FLOAT) << 32, ctx)
        else:
            number = shown.to(tl.int64)
            tell(REQUEST_PRINT, first, second, third, number, place, to_int64(PRINT_INT) << 32, ctx)
