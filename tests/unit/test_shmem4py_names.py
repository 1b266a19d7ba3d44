# SPDX-License-Identifier: BSD-3-Clause
"""What programs for shmem4py look up: every name, with the parameters it has there."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from pyshmem.interop.shmem4py import rc

FETCHING = ("swap", "fetch_add", "fetch_and", "fetch_or", "fetch_xor")
WHICH = [f"{verb}_{which}" for verb in ("wait_until", "test") for which in ("all", "any", "some")]
MAKING = "order='C', *, align=None, hints=None"
ROUTINES = {
    "put get put_nbi get_nbi": "target, source, pe, size=None, ctx=None",
    "iput iget": "target, source, pe, tst=1, sst=1, size=None, ctx=None",
    "put_signal put_signal_nbi": "target, source, pe, signal, value, sigop, size=None, ctx=None",
    "atomic_set atomic_add atomic_and atomic_or atomic_xor": "target, value, pe, ctx=None",
    " ".join(f"atomic_{op}" for op in FETCHING): "target, value, pe, ctx=None",
    " ".join(f"atomic_{op}_nbi" for op in FETCHING): "fetch, target, value, pe, ctx=None",
    "atomic_inc atomic_fetch_inc": "target, pe, ctx=None",
    "atomic_fetch": "source, pe, ctx=None",
    "atomic_fetch_nbi": "fetch, source, pe, ctx=None",
    "atomic_fetch_inc_nbi": "fetch, target, pe, ctx=None",
    "atomic_compare_swap": "target, cond, value, pe, ctx=None",
    "atomic_compare_swap_nbi": "fetch, target, cond, value, pe, ctx=None",
    "atomic_op atomic_fetch_op": "target, value, op, pe, ctx=None",
    "atomic_fetch_op_nbi": "fetch, target, value, op, pe, ctx=None",
    "broadcast": "target, source, root, size=None, team=None",
    "collect fcollect alltoall": "target, source, size=None, team=None",
    "alltoalls": "target, source, tst=1, sst=1, size=None, team=None",
    "reduce": "target, source, op=<OP.SUM: 'sum'>, size=None, team=None",
    " ".join(f"{op}_reduce" for op in ("and", "or", "xor", "max", "min", "sum", "prod")): (
        "target, source, size=None, team=None"
    ),
    "wait_until test": "ivar, cmp, value",
    " ".join(WHICH): "ivars, cmp, value, status=None",
    " ".join(f"{name}_vector" for name in WHICH): "ivars, cmp, values, status=None",
    "signal_wait_until": "signal, cmp, value",
    "signal_fetch del_signal": "signal",
    "fence quiet": "ctx=None",
    "sync": "team=None",
    "ptr": "target, pe",
    "addr_accessible": "addr, pe",
    "pe_accessible": "pe",
    "alloc": "count, size=1, align=None, hints=None, clear=True",
    "fromalloc": "mem, shape=None, dtype=None, order='C'",
    "free": "mem",
    "new_array": f"shape, dtype=<class 'float'>, {MAKING}, clear=True",
    "empty zeros ones": f"shape, dtype=<class 'float'>, {MAKING}",
    "full": f"shape, fill_value, dtype=None, {MAKING}",
    "array": "obj, dtype=None, *, order='K', align=None, hints=None",
    "del_array": "a",
    "set_lock test_lock clear_lock del_lock": "lock",
    "global_exit": "status=0",
    "pcontrol": "level=1",
    "new_lock new_signal barrier_all sync_all my_pe n_pes finalize": "",
    "info_get_name info_get_version query_thread": "",
}
CONSTANTS = {
    "CTX": "PRIVATE SERIALIZED NOSTORE",
    "MALLOC": "ATOMICS_REMOTE SIGNAL_REMOTE",
    "SIGNAL": "SET ADD",
    "THREAD": "SINGLE FUNNELED SERIALIZED MULTIPLE",
    "AMO": "SET INC ADD AND OR XOR",
    "OP": "AND OR XOR MAX MIN SUM PROD",
    "CMP": "EQ NE GT LE LT GE",
}
WAYS = (
    "from pyshmem.interop.shmem4py import shmem",
    "from pyshmem.interop import shmem4py as shmem; shmem.my_pe",
)
HANDLES = "TEAM_WORLD TEAM_SHARED TEAM_INVALID CTX_DEFAULT CTX_INVALID Team Ctx Lock"


@pytest.fixture(scope="module")
def shmem():
    """The module, in no job."""
    before = rc.initialize
    rc.initialize = False
    from pyshmem.interop.shmem4py import shmem

    rc.initialize = before
    return shmem


@pytest.mark.parametrize(
    ("name", "parameters"),
    [(name, text) for names, text in ROUTINES.items() for name in names.split()],
)
def test_a_routine_has_the_parameters_it_has_there(shmem, name: str, parameters: str) -> None:
    signature = inspect.signature(getattr(shmem, name))
    bare = [value.replace(annotation=value.empty) for value in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == f"({parameters})"


@pytest.mark.parametrize("group", CONSTANTS)
def test_constants_are_members_of_their_enumeration(shmem, group: str) -> None:
    members = CONSTANTS[group].split()
    assert {member.name for member in getattr(shmem, group)} == set(members)
    for member in members:
        assert getattr(shmem, f"{group}_{member}") is getattr(shmem, group)[member]


def test_handles_classes_and_versions_are_there(shmem) -> None:
    names = [*HANDLES.split(), "MAJOR_VERSION", "MINOR_VERSION", "VENDOR_STRING", "ffi", "lib"]
    assert [name for name in names if not hasattr(shmem, name)] == []


def test_options_that_there_are_none_of_are_refused() -> None:
    with pytest.raises(TypeError, match="no option 'thread'"):
        rc(thread=True)
    with pytest.raises(TypeError, match="no option 'thread'"):
        rc.thread = True


@pytest.mark.parametrize(
    ("options", "variables", "initialized"),
    [
        ("", {}, True),
        ("rc.initialize = False", {}, False),
        ("", {"SHMEM4PY_RC_INITIALIZE": "no"}, False),
        ("rc.initialize = False", {"SHMEM4PY_RC_INITIALIZE": "on"}, True),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_importing_joins_the_job_unless_told_not_to(
    way: str, options: str, variables: dict[str, str], initialized: bool, run_command
) -> None:
    program = f"from pyshmem.interop.shmem4py import rc\n{options}\n{way}\n"
    program += "import pyshmem; print(pyshmem.initialized(), rc.finalize)"
    done = run_command([sys.executable, "-c", program], 60, check=True, **variables)
    assert done.stdout.split() == [str(initialized), "True" if initialized else "None"]


def test_the_thread_level_is_what_the_options_say(run_command) -> None:
    program = "from pyshmem.interop.shmem4py import shmem; print(shmem.query_thread().name)"
    level = {"SHMEM4PY_RC_THREADS": "1", "SHMEM4PY_RC_THREAD_LEVEL": "serialized"}
    done: subprocess.CompletedProcess[str] = run_command(
        [sys.executable, "-c", program], 60, check=True, **level
    )
    assert done.stdout == "SERIALIZED\n"
