# SPDX-License-Identifier: BSD-3-Clause
"""Shared memory of bulk copies: how the few threads of a small block divide it."""

#: Bytes of the buffer, of which a thread's share holds its barrier in the last 16.
BULK_BYTES = 4096
BULK_THREADS = 8  # in larger blocks stores are as fast, and a share too small
BARRIER_BYTES = 16


def bulk_share(threads: int) -> int:
    """Bytes of each thread's share: a multiple of 16, as copies and barriers are aligned."""
    return (BULK_BYTES // threads) & ~15
