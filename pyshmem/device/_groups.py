# SPDX-License-Identifier: BSD-3-Clause
"""The scopes a routine can have: how many threads share the work, and how they meet.

In a ``_warp`` or ``_work_group`` routine every thread of the group makes the same call with the same
arguments. The group meets on entry, so that what any of its threads wrote is what all of them
send, and on exit, unless the routine is ``_nbi``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ._backend import (
    block_share,
    block_sync,
    block_threads,
    device_function,
    lane,
    thread_in_block,
    warp_share,
    warp_sync,
    warp_threads,
)


class Scope(NamedTuple):
    """Device functions of one scope.

    ``rank`` is the thread's index in its group, ``size`` the group's size, ``sync`` its barrier, and
    ``share`` gives the leader's int64 to all of its threads (a barrier too).
    """

    suffix: str
    rank: Callable[[], int]
    size: Callable[[], int]
    sync: Callable[[], None]
    share: Callable[[int], int]
    help: str


@device_function
def _one_rank() -> int:
    return 0


@device_function
def _one_size() -> int:
    return 1


@device_function
def _one_sync() -> None:
    pass


@device_function
def _one_share(value: int) -> int:
    return value


SCOPES = (
    Scope("", _one_rank, _one_size, _one_sync, _one_share, "the calling thread alone."),
    Scope(
        "_warp",
        lane,
        warp_threads,
        warp_sync,
        warp_share,
        "all threads of a warp call it together.",
    ),
    Scope(
        "_work_group",
        thread_in_block,
        block_threads,
        block_sync,
        block_share,
        "all threads of a block call it together.",
    ),
)
