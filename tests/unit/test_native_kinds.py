# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of faults of the C side: for each the one function that all go through, and who calls it.

The table of all kinds, with the tests that walk the callers, is ``tests/kinds.md``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_native_sizes import functions_of

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (TESTS / "kinds.md").read_text()
FILES = [p for folder in ("native/src", "host_proxy") for p in sorted((ROOT / folder).rglob("*.c"))]


def functions(*names: str) -> set[str]:
    return set(names)


#: What is done in one place, or what all go through: what it looks like, and the functions that do it.
WHO = {
    "leaves the barrier of few PEs": (
        r"\| PYSH_FEW_LEAVING\b",
        functions("agree/arrival.c few_withdraw"),
    ),
    "takes the address of a program's handler": (
        r"\benter\(number\)|\benter\(\(int\)",
        functions("host_proxy/user_handlers.c pysh_handle_call"),
    ),
    "checks what a kernel asks for": (
        r"\bpysh_request_check\(",
        functions("host_proxy/requests.c checked"),
    ),
    "checks what a peer asks for": (r"\bpysh_am_wrong\(", functions("am/serve.c pysh_am_serve")),
    "asks whether a thread waits already": (
        r"\bpysh_wait_inside\(",
        functions("api/init.c ishmemx_finalize_check"),
    ),
    "begins a collective of a team": (
        r"\bpysh_team_claim\(",
        functions(
            "api/init.c ishmemx_finalize",
            "collectives/barrier_sync.c ishmemx_barrier_all",
            "collectives/barrier_sync.c ishmemx_team_sync",
            "collectives/barrier_sync.c ishmemx_drain",
            "collectives/collective.c pysh_coll_begin",
            "collectives/malloc.c claim_all",
            "collectives/request.c pysh_request_begin",
            "ops/register.c ishmemx_register",
            "ops/register.c ishmemx_unregister",
            "teams/team_split.c split",
            "teams/team_split.c ishmemx_team_split_2d",
            "teams/team_split.c ishmemx_team_destroy",
        ),
    ),
    "starts a thread that keeps the program's signals": (
        r"\bpysh_thread_create\(",
        functions("base/thread.c pysh_thread_start", "fiber/launch.c pysh_cpu_run"),
    ),
    "gives pages back": (
        r"\bMADV_REMOVE\b|\bFALLOC_FL_PUNCH_HOLE\b",
        functions(
            "transport/mapped/host.c pysh_host_give_back",
            "accel/sim/accel_sim.c trim",
            "accel/sim/accel_sim.c zero",  # much memory at once
        ),
    ),
    "watches a loop of tests": (
        r"\bpysh_polled\(",
        functions(
            "ops/lock.c ishmemx_test_lock",
            "ops/signal.c ishmemx_signal_fetch",
            "ops/wait_set.c ishmemx_test_all",
            "ops/wait_set.c ishmemx_test_any",
            "ops/wait_set.c ishmemx_test_some",
            "ops/wait_set.c pysh_test_polled",
        ),
    ),
}


def found(pattern: str) -> set[str]:
    return {
        f"{str(path.relative_to(ROOT)).removeprefix('native/src/')} {function}"
        for path in FILES
        for function, body in functions_of(path.read_text()).items()
        if re.search(pattern, body)
    }


@pytest.mark.parametrize("what", WHO)
def test_what_has_gone_wrong_is_done_in_one_place(what: str) -> None:
    pattern, may = WHO[what]
    assert found(pattern) == may


def test_every_count_of_a_test_can_be_reported() -> None:
    """A new routine that programs poll with goes by ``pysh_polled`` or ``pysh_test_polled``."""
    counted = found(r"\bpysh_poll_due\(PYSH_POLL_TEST\)")
    watched = found(r"\bpysh_polled\(|\bpysh_test_polled\(")
    assert counted
    assert counted <= watched


def test_the_page_names_functions_and_tests_that_are_there() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| [A-Z0-9]+ \|", line)]
    assert len(rows) >= 12
    sources = "".join(path.read_text() for path in FILES)
    sources += "".join(p.read_text() for p in (ROOT / "pyshmem").rglob("*.py"))
    written = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    for row in rows:
        functions = re.findall(r"`(\w+)\(\)`", row)
        assert functions, row
        for function in functions:
            assert re.search(rf"\b{function}\b", sources), function
        tests = re.findall(r"`(test_\w+)`", row)
        assert tests, row
        assert not set(tests) - written, row
    for path in re.findall(r"`((?:unit|pe|native|model|spmd)/[\w/.]+)`", PAGE):
        assert (TESTS / path).exists(), path
