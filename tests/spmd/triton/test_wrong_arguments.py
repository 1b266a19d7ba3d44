# SPDX-License-Identifier: BSD-3-Clause
"""What is no context, array, team, PE, pointer or atomic operation is refused in words."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem
import pyshmem.triton as shmem
from pyshmem import device
from pyshmem import my_pe as pe_of_the_host


@triton.jit
def store_in_order(dest, first, second):
    shmem.store(dest, 1, first, second)


def test_what_is_no_context_is_told(job, place, ctx, refusal):
    if job.device == "cuda":
        pytest.skip("a GPU would look into whatever memory it is")
    dest = place(np.zeros(1, np.int32))
    for second in (job.my_pe, dest, None):
        text = refusal(lambda second=second: store_in_order[(1,)](dest, ctx, second))
        assert "ctx is not what shmem.context() gave the kernel" in text


def test_functions_of_kernels_are_for_kernels(job, ctx, refusal):
    if job.device == "sim":  # on a GPU Triton says so
        assert "called from kernels, not from the host" in refusal(lambda: shmem.my_pe(ctx))


@triton.jit
def who_am_i(dest, ctx):
    tl.store(dest, shmem.my_pe(ctx))


def test_launches_as_triton_has_none_are_told_how_one_is(job, place, show, ctx, refusal):
    if job.device != "sim":
        pytest.skip("on a GPU Triton says so")
    dest = place(np.full(1, -1, np.int32))
    for grid in (4, (1, 1, 1, 1), ()):
        text = refusal(lambda grid=grid: who_am_i[grid](dest, ctx))
        assert f"in the brackets is {grid}" in text
    text = refusal(lambda: who_am_i(dest, ctx))
    assert "a kernel is launched with a grid, who_am_i[(1,)](...)" in text
    for wrong, told in (
        (job, "ctx, an argument of the kernel, is the job; give what pyshmem.triton.context() ret"),
        (pyshmem.TEAM_WORLD, "is a team; give its number, pyshmem.triton.team_number(team)"),
        (shmem.context, "is the function context; what is meant may be context()"),
    ):
        assert told in refusal(lambda wrong=wrong: who_am_i[(1,)](dest, wrong))
    who_am_i[(1,)](dest, ctx)
    assert show(dest).tolist() == [job.my_pe]


@pytest.mark.parametrize("dtype", ["complex64", "longdouble", ">i4", "S4", "datetime64[s]"])
def test_dtypes_that_triton_does_not_have_are_refused(job, refusal, dtype):
    assert "kernels of Triton have none like it" in refusal(lambda: shmem.wrap(np.zeros(4, dtype)))


def test_what_is_no_array_or_team_is_told(job, refusal):
    assert "is a list, not an array" in refusal(lambda: shmem.wrap([1, 2]))
    assert "None, as a split returns where" in refusal(lambda: shmem.team_number(None))
    assert "is of type int, not a Team" in refusal(lambda: shmem.team_number(3))


def test_a_contexts_number_is_its_teams_in_both_languages(job):
    """Handles of contexts and of teams are both small numbers: which it is, its class says."""
    team = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
    world = shmem.team_number(pyshmem.TEAM_WORLD)
    with team.create_ctx() as ctx, pyshmem.Context() as of_world:
        assert shmem.team_number(ctx) == shmem.team_number(team) != world
        assert shmem.team_number(of_world) == shmem.team_number(pyshmem.CTX_DEFAULT) == world
        for given in (team, team.channels(1)[0], ctx, of_world, pyshmem.TEAM_NODE):
            assert shmem.team_number(given) == int(device.as_argument(given))
    with pytest.raises(ValueError, match="destroyed"):
        shmem.team_number(ctx)
    team.destroy()


@triton.jit
def atomic_of(dest, ctx, WHAT: tl.constexpr, SEM: tl.constexpr):
    if WHAT == "xor":
        shmem.atomic_xor(dest, 1, 0, ctx, sem=SEM)
    elif WHAT == "and":
        shmem.atomic_and(dest, 1, 0, ctx, sem=SEM)
    else:
        shmem.atomic_max(dest, 1, 0, ctx, sem=SEM)


def test_atomics_that_there_are_not_are_refused_on_every_road(job, place, show, ctx, refusal):
    numbers, floats = place(np.zeros(1, np.int32)), place(np.ones(1, np.float32))
    for what in ("and", "max"):
        text = refusal(lambda what=what: atomic_of[(1,)](numbers, ctx, WHAT=what, SEM="seq_cst"))
        assert "sem is 'seq_cst'; it is relaxed, acquire" in text
    for what in ("and", "xor"):
        text = refusal(lambda what=what: atomic_of[(1,)](floats, ctx, WHAT=what, SEM="relaxed"))
        assert f"atomic_{what} is of integers, not of fp32" in text
    pyshmem.barrier_all()
    assert show(floats)[0] == 1
    assert show(numbers)[0] == 0


@triton.jit
def not_there(dest, sig, ctx, WHAT: tl.constexpr):
    if WHAT == "store":
        shmem.store(dest, 1, shmem.my_pe(ctx) / 2, ctx)
    elif WHAT == "load":
        tl.store(dest, shmem.load(dest, 0.5, ctx))
    elif WHAT == "signal":
        shmem.signal_op(sig, 1, shmem.SIGNAL_SET, shmem.my_pe(ctx) / 2, ctx)
    elif WHAT == "number":
        shmem.store(1, dest, 0, ctx)
    else:
        shmem.ptr(dest.to(tl.int64), 0, ctx)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("store", "pe is a float"),
        ("load", "pe is a float"),
        ("signal", "pe is a float"),
        ("number", "a pointer, or a tensor of pointers, comes here, not int"),
        ("ptr", "a pointer, or a tensor of pointers, comes here, not int64"),
    ],
)
def test_what_is_no_pe_or_no_pointer_is_refused(job, place, show, ctx, refusal, near, what, text):
    if what == "ptr" and not near:
        pytest.skip("there is no pointer out of reach")
    dest, sig = place(np.zeros(1, np.int32)), place(np.zeros(1, np.int64))
    assert text in refusal(lambda: not_there[(1,)](dest, sig, ctx, WHAT=what))


@triton.jit
def call_the_host(dest, WHAT: tl.constexpr):
    if WHAT == "my_pe":
        tl.store(dest, pyshmem.my_pe())
    elif WHAT == "name":
        tl.store(dest, pe_of_the_host())
    else:
        tl.store(dest, pyshmem.TEAM_WORLD.n_pes())


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("my_pe", "pyshmem.my_pe is a host routine; in kernels use pyshmem.triton.my_pe"),
        ("name", "pyshmem.my_pe is a host routine; in kernels use pyshmem.triton.my_pe"),
        ("method", "Team.n_pes is a host routine"),
    ],
)
def test_routines_of_the_host_are_refused_in_kernels(job, place, what, text):
    if job.device == "cuda":
        pytest.skip("Triton compiles no such call")
    dest = place(np.zeros(1, np.int32))
    with pytest.raises(Exception, match=r".") as caught:
        call_the_host[(1,)](dest, WHAT=what)
    assert text in f"{caught.value} {caught.value.__cause__}"
    assert pyshmem.my_pe() == pe_of_the_host() == job.my_pe
