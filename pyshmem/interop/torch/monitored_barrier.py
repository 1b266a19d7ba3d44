# SPDX-License-Identifier: BSD-3-Clause
"""A barrier that names who does not come. It goes by the group's store."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

#: How much longer the others wait for what rank 0 says than rank 0 for them.
_ANSWER = 5.0
#: Stores count milliseconds, and of none of them they wait for ever.
_LEAST = 1e-3


def monitored_barrier(
    store: Any, number: int, rank: int, size: int, seconds: float, all_ranks: bool
) -> None:
    """Wait for all members; the texts of errors are Gloo's.

    Args:
        store: of the group.
        number: of this call among the group's.
        rank: the caller's.
        size: of the group.
        seconds: that rank 0 waits for the others altogether.
        all_ranks: rank 0 names all that are missing, not the first alone.

    Raises: RuntimeError (a member has not come; on the others: so rank 0 says).
    """
    about = f"pyshmem/monitored/{number}"
    if rank == 0:
        _collect(store, about, size, seconds, all_ranks)
        return
    store.set(f"{about}/{rank}", b"here")
    try:
        store.wait([f"{about}/answer"], timedelta(seconds=seconds + _ANSWER))
        answer = bytes(store.get(f"{about}/answer")).decode()
    except RuntimeError as error:  # each kind of store has one of its own
        answer = f"rank 0 has not answered: {error}"
    if answer != "all":
        raise RuntimeError(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for "
            f"send/recv from rank 0: {answer}"
        )


def _collect(store: Any, about: str, size: int, seconds: float, all_ranks: bool) -> None:
    end, missing = time.monotonic() + seconds, []
    late = False
    for rank in range(1, size):
        left = end - time.monotonic()
        late = late or left < _LEAST
        if not _has_come(store, f"{about}/{rank}", left):
            missing.append(rank)
            if not all_ranks:
                break
    said = "all"
    if missing:
        named = f"Rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        said = f"{named} failed to pass monitoredBarrier in {seconds * 1e3:g} ms"
        if late and not all_ranks:
            said = f"Rank 0 timed out in monitoredBarrier after {seconds * 1e3:g} ms; {said}"
    store.set(f"{about}/answer", said.encode())
    if missing:
        raise RuntimeError(said)


def _has_come(store: Any, key: str, seconds: float) -> bool:
    if seconds < _LEAST:
        return bool(store.check([key]))
    try:
        store.wait([key], timedelta(seconds=seconds))
    except RuntimeError:  # each kind of store has one of its own
        return False
    return True
