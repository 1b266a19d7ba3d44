# SPDX-License-Identifier: BSD-3-Clause
"""Shared memory of bulk copies: how the few threads of a small block divide it."""

#: Bytes of the buffer, of which a thread's share holds its barrier in the last 16.
BULK_BYTES = 4096
BULK_THREADS = 8  # in larger blocks stores are as fast, and a share too small
BARRIER_BYTES = 16


def bulk_share(even: int) -> int:
    """Bytes of each thread's share when the buffer's are divided evenly.

    A multiple of 16, as copies and barriers are aligned: 3, 5, 6 and 7 threads leave some over.
    """
    return even & ~15
