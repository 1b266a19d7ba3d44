# SPDX-License-Identifier: BSD-3-Clause
"""Teams: making, translating, using and destroying them. Every split is a collective of its parent."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pyshmem
from pyshmem import TEAM_NODE, TEAM_SHARED, TEAM_WORLD, Team, TeamConfig
from pyshmem._core.library import lib


def test_predefined_teams_hold_all_pes_of_one_host(job):
    if len({lib.ishmemx_node(pe) for pe in range(job.n_pes)}) > 1:
        pytest.skip("the PEs are on several hosts")
    word = pyshmem.zeros(1)
    mapped = all(pyshmem.ptr(word, pe) is not None for pe in range(job.n_pes))
    # TEAM_SHARED is those who load and store each other's heap, wherever they run.
    for team in (TEAM_WORLD, TEAM_NODE, *([TEAM_SHARED] if mapped else [])):
        assert team.my_pe() == job.my_pe
        assert team.n_pes() == job.n_pes
        assert team.pes() == list(range(job.n_pes))


@pytest.mark.parametrize("reverse", [False, True])
def test_split_strided_with_both_directions(job, reverse):
    n = job.n_pes
    start, stride = (n - 1, -1) if reverse else (0, 1)
    with TEAM_WORLD.split_strided(start, stride, n) as team:
        expected = list(range(n))[:: -1 if reverse else 1]
        assert team.pes() == expected
        assert team.my_pe() == expected.index(job.my_pe)


def test_pes_outside_a_strided_team_get_none(job):
    size = (job.n_pes + 1) // 2
    team = TEAM_WORLD.split_strided(0, 2, size)
    assert (team is None) == (job.my_pe % 2 == 1)
    if team is not None:
        assert team.my_pe() == job.my_pe // 2
        team.destroy()


def test_a_split_makes_a_team_for_each_triple(job, not_checking):
    first = job.my_pe // 2 * 2
    size = min(2, job.n_pes - first)
    with TEAM_WORLD.split_strided(first, 1, size) as team:
        assert team.pes() == list(range(first, first + size))
        total = pyshmem.zeros(1)
        pyshmem.sum_reduce(total, pyshmem.array([float(job.my_pe)]), team=team)
        assert total[0] == sum(team.pes())


def test_different_triples_are_told_to_all_in_checking_mode(job, checking):
    if job.n_pes < 3:
        pytest.skip("two triples need three PEs")
    first = job.my_pe // 2 * 2
    with pytest.raises(pyshmem.MismatchError):
        TEAM_WORLD.split_strided(first, 1, min(2, job.n_pes - first))


def test_stride_zero_makes_a_team_of_one(job):
    team = TEAM_WORLD.split_strided(job.n_pes - 1, 0, 1)
    assert (team is not None) == (job.my_pe == job.n_pes - 1)
    if team is not None:
        assert team.n_pes() == 1
        team.destroy()


def test_wrong_triples_fail_on_all_pes_and_lose_nothing(job):
    n = job.n_pes
    for start, stride, size in [
        (0, 1, n + 1),
        (n, 1, 1),
        (0, 0, 2),
        (0, n, 2),
        (0, -1, 2),
        (0, 1, 0),
    ]:
        with pytest.raises((ValueError, pyshmem.MismatchError)):
            TEAM_WORLD.split_strided(start, stride, size)
    with TEAM_WORLD.split_strided(0, 1, n) as team:
        team.sync()


@pytest.mark.parametrize("xrange", [1, 2, 3, 100])
def test_split_2d_has_rows_and_columns(job, xrange):
    row, column = TEAM_WORLD.split_2d(xrange)
    width = min(xrange, job.n_pes)
    x, y = job.my_pe % width, job.my_pe // width
    assert (row.my_pe(), column.my_pe()) == (x, y)
    assert row.pes() == list(range(y * width, min((y + 1) * width, job.n_pes)))
    assert column.pes() == list(range(x, job.n_pes, width))
    row.destroy()
    column.destroy()


def test_split_2d_refuses_an_empty_row(job):
    with pytest.raises(ValueError, match="xrange"):
        TEAM_WORLD.split_2d(0)


def test_from_pes_keeps_the_order_given(job):
    order = [*range(1, job.n_pes), 0]
    with Team.from_pes(order) as team:
        assert team.pes() == order
        assert team.translate_pe(team.my_pe(), TEAM_WORLD) == job.my_pe


def test_from_pes_of_some(job):
    team = Team.from_pes([job.n_pes - 1])
    assert (team is None) == (job.my_pe != job.n_pes - 1)
    if team is not None:
        team.destroy()


def test_from_pes_refuses_strangers_and_twins(job):
    for pes in ([0, 0], [job.n_pes], [-1], []):
        with pytest.raises((ValueError, pyshmem.MismatchError)):
            Team.from_pes(pes)


def test_split_by_colour_and_key(job):
    team = TEAM_WORLD.split(job.my_pe % 2, -job.my_pe)
    assert team.pes() == list(range(job.my_pe % 2, job.n_pes, 2))[::-1]
    team.destroy()


def test_split_without_a_colour_gives_no_team(job):
    team = TEAM_WORLD.split(None if job.my_pe else 7)
    assert (team is None) == (job.my_pe > 0)
    if team is not None:
        assert team.n_pes() == 1
        team.destroy()
    with pytest.raises(ValueError, match="color is -1"):
        TEAM_WORLD.split(-1)


def test_a_team_of_a_team(job):
    with TEAM_WORLD.split_strided(job.n_pes - 1, -1, job.n_pes) as back:
        team = back.split_strided(0, 1, 1)
        assert (team is not None) == (job.my_pe == job.n_pes - 1)
        if team is not None:
            assert team.pes() == [job.n_pes - 1]
            team.destroy()


def test_translate_pe_of_strangers_is_minus_one(job):
    half = TEAM_WORLD.split(job.my_pe % 2)
    for pe in range(job.n_pes):
        expected = pe // 2 if pe % 2 == job.my_pe % 2 else -1
        assert TEAM_WORLD.translate_pe(pe, half) == expected
    for pe in range(half.n_pes()):
        assert half.translate_pe(pe, TEAM_WORLD) == 2 * pe + job.my_pe % 2
    for pe in (-1, job.n_pes):
        with pytest.raises(ValueError, match=f"pe {pe} is outside the team of {job.n_pes} PEs"):
            TEAM_WORLD.translate_pe(pe, half)
    half.destroy()


def test_get_config_tells_what_the_team_was_made_with(job):
    with TEAM_WORLD.split_strided(0, 1, job.n_pes, config=TeamConfig(num_contexts=3)) as team:
        assert team.get_config() == TeamConfig(3)
    with TEAM_WORLD.split_strided(0, 1, job.n_pes) as team:
        assert team.get_config() == TeamConfig(0)


def test_a_destroyed_team_is_refused_everywhere(job):
    team = TEAM_WORLD.split_strided(0, 1, job.n_pes)
    ctx = team.create_ctx()
    team.destroy()
    team.destroy()
    array = pyshmem.zeros(4 * job.n_pes, int)
    for use in (
        team.my_pe, team.n_pes, team.pes, team.sync, team.get_config, team.create_ctx,
        lambda: team.translate_pe(0, TEAM_WORLD), lambda: TEAM_WORLD.translate_pe(0, team),
        lambda: team.split_strided(0, 1, 1), lambda: team.split_2d(1), lambda: team.split(0),
        lambda: Team.from_pes([0], parent=team), lambda: team.ptr(array, 0),
        lambda: pyshmem.broadcast(array, array, 0, team=team),
        lambda: pyshmem.sum_reduce(array, array, team=team),
        lambda: pyshmem.put(array, array, 0, ctx=ctx),
    ):  # fmt: skip
        with pytest.raises((ValueError, pyshmem.ShmemError)):
            use()


def test_a_predefined_team_cannot_be_destroyed(job):
    for team in (TEAM_WORLD, TEAM_SHARED, TEAM_NODE):
        with pytest.raises(ValueError, match="predefined"):
            team.destroy()
        team.sync()


def test_many_teams_one_after_the_other(job):
    for i in range(150):
        with TEAM_WORLD.split(job.my_pe % (1 + i % 3), i) as team:
            team.sync()


def test_ptr_of_a_team_has_the_teams_numbers(job, make):
    array = make(np.full(3, job.my_pe))
    with TEAM_WORLD.split_strided(job.n_pes - 1, -1, job.n_pes) as team:
        pyshmem.barrier_all()
        for pe in range(job.n_pes):
            theirs = team.ptr(array, pe)
            if theirs is not None:  # not on another host
                assert (theirs == job.n_pes - 1 - pe).all()
        with pytest.raises(ValueError, match=f"pe {job.n_pes} is outside"):
            team.ptr(array, job.n_pes)
    pyshmem.barrier_all()


def test_sync_of_disjoint_teams_does_not_wait_for_the_others(job):
    team = TEAM_WORLD.split(job.my_pe % 2)
    for _ in range(10 * (1 + job.my_pe % 2)):
        team.sync()
    team.destroy()


#: Calls with one argument that is wrong, and how the error begins.
WRONG = {
    "start": (lambda team: team.split_strided("0", 1, 1), "start is '0' (str), not an integer"),
    "stride": (lambda team: team.split_strided(0, None, 1), "stride is None (NoneType)"),
    "size": (lambda team: team.split_strided(0, 1, 1.0), "size is 1.0 (float)"),
    "config": (lambda team: team.split_strided(0, 1, 1, config={}), "config is {} (dict), not a"),
    "contexts": (
        lambda team: team.split(0, config=pyshmem.TeamConfig("x")), "num_contexts is 'x' (str)",
    ),
    "xrange": (lambda team: team.split_2d("2"), "xrange is '2' (str)"),
    "color": (lambda team: team.split("red"), "color is 'red' (str)"),
    "key": (lambda team: team.split(0, None), "key is None (NoneType)"),
    "pes": (lambda team: team.from_pes(3), "pes is 3 (int)"),
    "one of pes": (lambda team: team.from_pes(["0"]), "pe is '0' (str)"),
    "parent": (lambda team: team.from_pes([0], parent=3), "parent is of type int, not a Team"),
    "no parent": (lambda team: team.from_pes([0], parent=None), "parent is None, as a split returns"),
    "no parent, of the class": (
        lambda team: pyshmem.Team.from_pes([0], parent=team.split(None)), "parent is None, as a split",
    ),
    "channels": (lambda team: team.channels("2"), "n is '2' (str)"),
    "pe": (lambda team: team.translate_pe("0", team), "pe is '0' (str)"),
    "no team": (lambda team: team.translate_pe(0, None), "dest_team is None, as a split returns"),
    "dest_team": (lambda team: team.translate_pe(0, 3), "dest_team is of type int, not a Team"),
    "ptr": (lambda team: team.ptr(pyshmem.zeros(1), "0"), "pe is '0' (str)"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_the_argument_of_a_wrong_type_is_named(job, what):
    call, told = WRONG[what]
    with pytest.raises(TypeError, match=re.escape(told)):
        call(pyshmem.TEAM_WORLD)


def test_a_pe_that_no_job_has(job):
    with pytest.raises(ValueError, match=f"start {2**40} is outside the job"):
        pyshmem.TEAM_WORLD.split_strided(2**40, 1, 1)
    with pytest.raises(ValueError, match=f"pe {2**40} is outside the job"):
        pyshmem.Team.from_pes([2**40])
    with pytest.raises(OverflowError, match=f"color is {2**40}, which is outside int32"):
        pyshmem.TEAM_WORLD.split(2**40)
