# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of several meetings keep their place: ``native/src/teams/resume.h``.

Walks who meets the other PEs, so that a routine that does so newly is told to say how it goes on when
it is made again after a handler or a deadline has ended it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_native_sizes import functions_of

SOURCES = Path(__file__).parents[2] / "native" / "src"
MEETS = re.compile(
    r"\b(pysh_team_sync|pysh_team_gather|pysh_share|pysh_cells_share|pysh_cells_spread|pysh_stage_share"
    r"|pysh_stage_sync|pysh_sync_node|pysh_heap_barrier"
    r"|pysh_release_agree|agree->(exchange|barrier))\("
)
STEP, LAST, OWN = "notes it as a step", "its only or last meeting", "keeps its place by itself"

#: Functions that meet, and how they go on.
KNOWN = {
    "collectives/barrier_sync.c": {
        "barrier_and_drain": STEP,
        "ishmemx_team_sync": LAST,
        "sweep_teams": LAST,
    },
    "collectives/broadcast.c": {"broadcast_staged": LAST},
    "collectives/fcollect.c": {"fcollect_staged": LAST},
    "collectives/alltoall.c": {"alltoall_staged": LAST},
    "collectives/reduce.c": {"reduce_staged": LAST},
    "collectives/scan.c": {"scan_piece": LAST},
    "collectives/collect.c": {"fetch_contributions": STEP},
    "collectives/chain.c": {"chain_run": OWN},  # chain_step
    "collectives/rails.c": {"pysh_rails_collect": STEP, "pysh_rails_broadcast": STEP},
    "collectives/collective.c": {"agree": STEP, "pysh_coll_start": STEP, "pysh_coll_end": LAST},
    "collectives/malloc.c": {
        "agree": LAST,  # by its callers
        "attempt": STEP,
        "grow_for": STEP,
        "sync_to_trim": STEP,
    },
    "memory/release.c": {
        "pysh_release_agree": OWN,
        "pysh_heap_barrier": LAST,
        "pysh_heap_drain_if_pending": OWN,
    },
    "teams/gather.c": {
        "pysh_share": LAST,
        "pysh_stage_share": LAST,
        "pysh_stage_share_told": LAST,
        "pysh_team_gather": LAST,
    },
    "teams/stage.c": {"pysh_stage_sync": LAST},
    "teams/sync.c": {"pysh_team_sync": LAST},
    "teams/team_split.c": {"split_once": STEP, "conclude": LAST},
}  # fmt: skip

FILES = [
    path
    for folder in ("collectives", "teams", "memory")
    for path in sorted((SOURCES / folder).glob("*.c"))
    if path.name
    not in ("heap.c", "static_share.c", "descriptors.c")  # of init, which is not made again
]


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCES))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_who_meets_says_how_it_goes_on(path: Path) -> None:
    known = KNOWN.get(name_of(path), {})
    functions = functions_of(path.read_text())
    meeting = {name for name, body in functions.items() if MEETS.search(body)}
    assert meeting == set(known), "see teams/resume.h, then KNOWN"
    for name, how in known.items():
        if how is STEP:
            assert re.search(r"\bpysh_passed\(", functions[name]), name


def test_work_between_two_meetings_that_cannot_be_done_twice_is_a_step() -> None:
    """Reductions and scans in place: who reads again what it has written gets other sums."""
    for name, function in (("reduce.c", "reduce_sliced"), ("scan.c", "scan_sliced")):
        body = functions_of((SOURCES / "collectives" / name).read_text())[function]
        assert body.index("pysh_coll_start(") < body.index("pysh_passed(") < body.index("_end(")


def test_every_claim_gives_back_the_status_of_its_call() -> None:
    for path in FILES:
        for given in re.findall(r"pysh_team_unclaim\([^,;]+, (\w+)\)", path.read_text()):
            assert given in ("status", "begun"), (path.name, given)
