# SPDX-License-Identifier: BSD-3-Clause
"""The scopes a routine can have: how many threads share the work, and how they meet.

In a ``_warp`` or ``_work_group`` routine every thread of the group makes the same call with the same
arguments. The group meets on entry, so that what any of its threads wrote is what all of them
send, and on exit, unless the routine is ``_nbi``.
"""

from collections.abc import Callable
from typing import NamedTuple

from .leaf import backend as leaf
from .leaf.backend import cold, device_function, grid_sync
from .state import GRID_WORD


@cold
def _quotient64(a: int, b: int) -> int:
    return a // b


@device_function
def quotient(a: int, b: int) -> int:
    """``a // b``, of nothing negative: sharing work among members is where small collectives divide.

    GPUs divide 64 bits in a hundred instructions, 32 bits in twenty.
    """
    if (a | b) >> 32 != 0:
        return _quotient64(a, b)
    return leaf.quotient32(a, b)


class Scope(NamedTuple):
    """Device functions of one scope.

    ``rank`` is the thread's index in its group, ``size`` the group's size, ``sync`` its barrier,
    ``share`` gives the leader's int64 to all of its threads (a barrier too), and ``leads`` says
    whether this is the leader, when its rank would else be kept for that.
    """

    suffix: str
    rank: Callable[[], int]
    size: Callable[[], int]
    sync: Callable[[], None]
    share: Callable[[int], int]
    leads: Callable[[], bool]
    help: str


@device_function
def _grid_rank() -> int:
    return leaf.block_index() * leaf.block_threads() + leaf.thread_in_block()


@device_function
def _grid_size() -> int:
    return leaf.grid_blocks() * leaf.block_threads()


@device_function
def _grid_share(value: int) -> int:
    word = leaf.state(GRID_WORD)
    if _grid_rank() == 0:
        leaf.write64(word, value)
    grid_sync()
    shared = leaf.read64(word)
    grid_sync()
    return shared


_zero, _one = device_function(lambda: 0), device_function(lambda: 1)
_nothing, _itself = device_function(lambda: None), device_function(lambda value: value)

_yes = device_function(lambda: True)
_leads_warp = device_function(lambda: leaf.lane() == 0)
_leads_block = device_function(lambda: leaf.follows_in_block() == 0)
_leads_grid = device_function(lambda: _grid_rank() == 0)

SCOPES = (
    Scope("", _zero, _one, _nothing, _itself, _yes, "the calling thread alone."),
    Scope(
        "_warp", leaf.lane, leaf.warp_threads, leaf.warp_sync, leaf.warp_share,
        _leads_warp, "all threads of a warp call it together.",
    ),
    Scope(
        "_work_group", leaf.thread_in_block, leaf.block_threads, leaf.block_sync, leaf.block_share,
        _leads_block, "all threads of a block call it together.",
    ),
)  # fmt: skip
#: For routines that a whole grid can share. The launch is cooperative, which Numba sees to by itself.
GRID = Scope(
    "_grid", _grid_rank, _grid_size, grid_sync, _grid_share,
    _leads_grid, "all threads of all blocks call it together, in a cooperative launch.",
)  # fmt: skip
