# SPDX-License-Identifier: BSD-3-Clause
"""How a job on several hosts ended: its exit status, and what is said of one that failed."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .frames import Broken, texts_of
from .remote import Remote, State

_LOST_STATUS = 1


@dataclass
class Ending:
    """Why the job is being ended."""

    what: str  #: empty: a PE failed or a host was lost, see ``why``
    status: int
    limit: float  #: when hosts whose PEs have not ended are let go of
    why: str = ""  #: for the PEs that are left
    asked: int = 0  #: the signal to the head that asked for it; 0: none
    since: float = field(default_factory=time.monotonic)


def conclusion(remotes: Sequence[Remote], ending: Ending | None) -> tuple[int, list[str]]:
    """The exit status of the job, and what there is to say of it."""
    over = [remote for remote in remotes if remote.state is State.DONE]
    lost = [remote for remote in remotes if remote.state is State.LOST]
    if ending is None:
        return 0, []
    all_well = len(over) == len(remotes) and all(remote.told["zero"] for remote in over)
    if ending.asked == signal.SIGTERM and all_well:
        return 0, []
    if ending.what:
        lines = [ending.what, *map(_of_lost, lost)]
        return ending.status, lines + _standing(over)
    cause = min([*over, *lost], key=_how_likely, default=None)
    if cause is None:
        return ending.status, [ending.why]
    others = [remote for remote in over if remote is not cause]
    more = [f"  {_of_lost(remote)}" for remote in lost if remote is not cause]
    if cause in lost:
        return _LOST_STATUS, [_of_lost(cause), *more, *_standing(others)]
    if _rank(cause) < 0:  # a PE has ended the job with status 0, and none failed
        return 0, []
    first, *rest = _texts(cause, "lines") or [ending.why]
    return int(cause.told["status"]), [
        f"host {cause.name}: {first}",
        *rest,
        *more,
        *_standing(others),
    ]


def _how_likely(remote: Remote) -> tuple[int, float]:
    """Its place among the causes: how a PE of it failed, then which came first."""
    rank = 0 if remote.state is State.LOST else _rank(remote)
    return (rank if rank >= 0 else 9), remote.ended_at


def _rank(remote: Remote) -> int:
    return int(remote.told["rank"])


def _of_lost(remote: Remote) -> str:
    last = remote.first + remote.place.n_pes - 1
    pes = f"PE {last}" if last == remote.first else f"PEs {remote.first}..{last}"
    return f"host {remote.name} was lost, with {pes}: {remote.lost}"


def _standing(remotes: Sequence[Remote]) -> list[str]:
    """Where the PEs of each host stood."""
    return [
        f"  host {remote.name}: {line}" for remote in remotes for line in _texts(remote, "standing")
    ]


def _texts(remote: Remote, name: str) -> list[str]:
    try:
        return texts_of(remote.told[name])
    except Broken:
        return []
