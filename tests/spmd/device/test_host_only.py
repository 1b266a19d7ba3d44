# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that run as Python refuse the host's routines, which a GPU's compiler does not know."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda

import pyshmem
from pyshmem import device as shmem
from pyshmem import put as put_of_the_host
from pyshmem.host.kernels import host_only

HELD = SimpleNamespace(call=None)


@pytest.fixture(autouse=True)
def python_runs_kernels(job):
    if job.device in ("cuda", "cpu"):
        pytest.skip("a compiler refuses them: for device cpu see tests/pe/test_device_cpu.py")


@cuda.jit
def run_what_is_held(dest):
    HELD.call(dest)


@cuda.jit
def by_its_own_name(dest):
    put_of_the_host(dest, dest, 0)


def refusal(job, call):
    HELD.call = call
    dest = pyshmem.zeros(4, np.int64, heap="device")
    with pytest.raises(RuntimeError, match="is a host routine") as caught:
        run_what_is_held[1, 1](dest)
    return str(caught.value)


def is_routine(name):
    value = getattr(pyshmem, name)
    return callable(value) and not isinstance(value, type)


@pytest.mark.parametrize("name", [name for name in pyshmem.__all__ if is_routine(name)])
def test_every_routine_of_the_host_is_refused(job, name):
    text = refusal(job, lambda dest: getattr(pyshmem, name)(dest))
    assert f"pyshmem.{name} is a host routine; " in text
    assert (f"in kernels use pyshmem.device.{name}" in text) == (name in shmem.__all__)


def test_methods_properties_and_modules_are_refused(job):
    world, ctx = pyshmem.TEAM_WORLD, pyshmem.CTX_DEFAULT
    text = refusal(job, lambda dest: world.my_pe())
    assert "Team.my_pe is a host routine; in kernels use pyshmem.device.team_my_pe" in text
    assert "in kernels use pyshmem.device.quiet" in refusal(job, lambda dest: ctx.quiet())
    assert "in kernels use pyshmem.device.team_sync" in refusal(job, lambda dest: world.sync())
    assert "Team.pes is" in refusal(job, lambda dest: world.pes())
    assert "Team.handle is" in refusal(job, lambda dest: world.handle)
    assert "Job.finalize is" in refusal(job, lambda dest: job.finalize())
    assert "kernels have none like it" in refusal(job, lambda dest: pyshmem.streams.Stream())
    assert "Context.__init__ is" in refusal(job, lambda dest: pyshmem.Context())
    assert "profiling.stop" in refusal(job, lambda dest: pyshmem.profiling.stop())


def test_a_routine_that_a_module_imports_by_name_is_refused(job):
    dest = pyshmem.zeros(4, np.int64, heap="device")
    with pytest.raises(RuntimeError, match=r"in kernels use pyshmem\.device\.put"):
        by_its_own_name[1, 1](dest)
    pyshmem.put(dest, dest, job.my_pe)  # when the kernel has ended it is the host's again
    put_of_the_host(dest, dest, job.my_pe)


def test_nothing_stands_in_when_no_kernel_runs(job):
    dest = pyshmem.zeros(4, np.int64, heap="device")
    before = {name: getattr(pyshmem, name) for name in pyshmem.__all__}
    seen = {}
    HELD.call = lambda _dest: seen.update(put=vars(pyshmem)["put"])
    run_what_is_held[1, 1](dest)
    assert seen["put"] is not before["put"]
    assert all(getattr(pyshmem, name) is value for name, value in before.items())
    assert put_of_the_host is before["put"]


def test_what_profiling_puts_there_stays(job):
    dest = pyshmem.zeros(4, np.int64, heap="device")
    pyshmem.profiling.start()
    try:
        recorded = pyshmem.put
        assert "pyshmem.put is a host" in refusal(job, lambda dest: pyshmem.put(dest, dest, 0))
        assert pyshmem.put is recorded
    finally:
        pyshmem.profiling.stop()
    assert "pyshmem.put is a host" in refusal(job, lambda dest: pyshmem.put(dest, dest, 0))
    pyshmem.put(dest, dest, job.my_pe)


def test_attributes_of_the_job_are_refused_in_kernels_alone(job):
    text = refusal(job, lambda dest: job.my_pe)
    assert "Job.my_pe is a host routine; in kernels use pyshmem.device.my_pe" in text
    assert "Job.device is a host routine" in refusal(job, lambda dest: job.device)
    assert job.my_pe == pyshmem.my_pe()


@pytest.mark.parametrize("given", [[1, 2], {"a": 1}, "text", None])
def test_what_no_compiler_takes_is_no_argument_of_a_kernel(job, given):
    HELD.call = lambda dest: None
    with pytest.raises(TypeError, match="kernels take arrays, numbers and tuples"):
        run_what_is_held[1, 1](given)
    with pytest.raises(TypeError, match=f"is a {type(given).__name__};"):
        run_what_is_held[1, 1]((1, given))


def test_other_threads_use_the_host_while_a_kernel_runs(job):
    dest, found = pyshmem.zeros(4, np.int64, heap="device"), []

    def use(_dest):
        thread = threading.Thread(target=lambda: found.append(pyshmem.TEAM_WORLD.n_pes()))
        thread.start()
        thread.join(60)

    HELD.call = use
    run_what_is_held[1, 1](dest)
    assert found == [job.n_pes]


def test_arrays_of_the_host_heap_are_no_arguments_where_peers_are_near(job, p2p):
    array = pyshmem.zeros(4, np.int64, heap="host")
    HELD.call = lambda dest: None
    if not p2p:
        run_what_is_held[1, 1](array)
        run_what_is_held[1, 1](array[1:])
        shmem.as_argument(array)
        return
    for given in (array, array[1:], array.reshape(2, 2).T):
        with pytest.raises(ValueError, match='make it with heap="device"'):
            run_what_is_held[1, 1](given)
    for given in (array, np.zeros(3)):
        with pytest.raises(TypeError, match="an array in host memory"):
            shmem.as_argument(given)


def test_the_stand_ins_cover_all_that_is_public(job):
    """Whatever is called in ``__all__`` has one: a function of a new kind would be forgotten."""
    dest = pyshmem.zeros(4, np.int64, heap="device")
    missing = []

    def look(_dest):
        found = {id(one) for kept in host_only._owners.values() for one in kept.stand_ins.values()}
        missing.extend(
            name
            for name in pyshmem.__all__
            if is_routine(name) and id(vars(pyshmem)[name]) not in found
        )

    HELD.call = look
    run_what_is_held[1, 1](dest)
    assert missing == []


@pytest.mark.parametrize("configuration", [32, (), (1,), (1, 2, 0, 0, 0), "1"])
def test_a_launch_without_blocks_and_threads_shows_how_it_is_done(configuration):
    with pytest.raises(TypeError, match=r"run_what_is_held\[blocks, threads\]\(\.\.\.\)"):
        run_what_is_held[configuration]
