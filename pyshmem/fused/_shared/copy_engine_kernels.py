# SPDX-License-Identifier: BSD-3-Clause
"""The kernel that waits for a word of a channel, where waits have a deadline."""

import triton
import triton.language as tl

import pyshmem.triton as shmem


@triton.jit(do_not_specialize=["address", "value", "pe"])
def await_word_kernel(address, value, pe, ctx):
    """Wait until the word of 8 bytes at ``address`` is ``value``, which ``pe`` makes it."""
    word = tl.cast(address, tl.int64).to(tl.pointer_type(tl.int64))
    shmem.signal_wait_until(word, shmem.CMP_EQ, value, ctx, pe)
