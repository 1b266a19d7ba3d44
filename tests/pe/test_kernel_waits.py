# SPDX-License-Identifier: BSD-3-Clause
"""Waits in kernels that nobody ends: a report after the timeout, and no hang."""

from __future__ import annotations

import pytest

#: PEs whose kernels give up at different times meet by polling, which has no deadline: a wait of the
#: host would time out as the kernels' do, and end a job that still has a kernel to report.
TELL = """
    import pyshmem
    from numba import cuda
    from pyshmem import device as shmem

    def tell_all(told):
        for pe in range(pyshmem.n_pes()):
            pyshmem.atomic_inc(told, pe)

    def await_told(told, n):
        while not pyshmem.test(told, pyshmem.CMP_GE, n):
            pass
"""

WAIT = (
    TELL
    + """
    @cuda.jit
    def wait_for_nobody(sig):
        shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, 7)
        shmem.signal_wait_until_work_group(sig, shmem.CMP_GE, 8)  # gives up with the first

    with pyshmem.init(device_heap_size="1M") as job:
        sig, told = pyshmem.new_signal(heap="device"), pyshmem.zeros(1, dtype="int64")
        try:
            wait_for_nobody[2, 32](sig)
            pyshmem.quiet()
        except pyshmem.KernelFault as fault:
            print(fault)
        tell_all(told)
        await_told(told, job.n_pes)
        pyshmem.barrier_all()
"""
)


def test_a_wait_past_the_timeout_says_who_waited_for_what(run_pes):
    result = run_pes(2, WAIT, device="sim", env={"PYSHMEM_TIMEOUT": "3"}, check=True)
    lines = [line for line in result.stdout.splitlines() if line.startswith("in kernel")]
    assert len(lines) == 2, result.stdout + result.stderr
    for line in lines:
        assert "wait_for_nobody" in line
        assert "signal_wait_until" in line
        assert "waited longer than PYSHMEM_TIMEOUT for >= 7 and saw 0" in line


IN_VAIN = """
    import sys
    import numpy as np
    import pyshmem
    from numba import cuda
    from pyshmem import device as shmem

    @cuda.jit
    def wait_in_vain(which, words, indices):
        if which == 0:
            shmem.wait_until_all(words, 3, None, shmem.CMP_NE, 0)
        elif which == 1:
            shmem.wait_until_any(words, 3, None, shmem.CMP_NE, 0)
        elif which == 2:
            shmem.wait_until_some(words, 3, indices, None, shmem.CMP_NE, 0)
        else:
            shmem.set_lock(words)
            shmem.set_lock(words)

    with pyshmem.init(device_heap_size="1M") as job:
        words = pyshmem.zeros(3, dtype=np.int64, heap="device")
        indices = pyshmem.zeros(3, dtype=np.int64, heap="device")
        try:
            wait_in_vain[1, 1](int(sys.argv[1]), words, indices)
            pyshmem.quiet()
        except pyshmem.KernelFault as fault:
            print(fault)
"""


@pytest.mark.parametrize("p2p", "10")
@pytest.mark.parametrize(
    "routine", ["wait_until_all", "wait_until_any", "wait_until_some", "set_lock"]
)
def test_every_kind_of_wait_gives_up(routine, p2p, run_pes):
    number = ["wait_until_all", "wait_until_any", "wait_until_some", "set_lock"].index(routine)
    settings = {"PYSHMEM_TIMEOUT": "0.3", "PYSHMEM_P2P": p2p}
    result = run_pes(1, IN_VAIN, [str(number)], device="sim", env=settings, check=True)
    assert f"device routine {routine}: waited longer than PYSHMEM_TIMEOUT" in result.stdout


A_PROXY_ASLEEP = """
    import ctypes
    from pyshmem.device import faults
    import numpy as np
    import pyshmem
    from numba import cuda
    from pyshmem import device as shmem

    @cuda.jit
    def send(handler, semaphore, words):
        if cuda.grid(1) == 0 and semaphore:
            shmem.post(handler, semaphore, 0, 0, 0)
        cuda.syncthreads()
        shmem.atomic_add(words, 1, 0)
        shmem.atomic_fetch_add(words[1:], 1, 0)

    with pyshmem.init(device_heap_size="1M") as job:
        words = pyshmem.zeros(2, dtype=np.int64, heap="device")
        libc, semaphore = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        libc.sem_init(semaphore, 0, 0)
        handler = pyshmem.register_handler(libc.sem_wait)
        try:
            send[1, 64](handler, ctypes.addressof(semaphore), words)
            pyshmem.quiet()
        except pyshmem.KernelFault as fault:
            print(fault)
        libc.sem_post(semaphore)
        pyshmem.quiet()  # until the handler is through
        before = pyshmem.to_numpy(words).copy()
        send[4, 64](handler, 0, words)
        pyshmem.quiet()
        print(pyshmem.to_numpy(words) - before, " 0 of them given up" not in faults.report())
"""


def test_senders_that_give_up_leave_the_ring_to_others(run_pes):
    settings = {"PYSHMEM_TIMEOUT": "0.5", "PYSHMEM_P2P": "0", "PYSHMEM_RING_SLOTS": "8"}
    result = run_pes(1, A_PROXY_ASLEEP, device="sim", env=settings, check=True)
    assert "device routine ring: waited longer than PYSHMEM_TIMEOUT" in result.stdout
    assert result.stdout.splitlines()[-1] == "[256 256] True"


#: One after the other: which PE a wait names that two have not come to is open.
ONE_STAYS_AWAY = (
    TELL
    + """
    import sys

    @cuda.jit
    def meet():
        shmem.barrier_all_work_group()

    with pyshmem.init(device_heap_size="1M") as job:
        told = pyshmem.zeros(1, dtype="int64")
        turn = {int(sys.argv[1]): 0, 1 - int(sys.argv[1]): 1}.get(job.my_pe)
        if turn is not None:
            await_told(told, turn)
            try:
                meet[1, 32]()
                pyshmem.quiet()
            except pyshmem.KernelFault as fault:
                print(job.my_pe, fault)
            tell_all(told)
        await_told(told, 2)
"""
)


@pytest.mark.parametrize("first", [0, 1])
def test_a_barrier_that_one_pe_does_not_reach_names_that_pe(first, run_pes):
    settings = {"PYSHMEM_TIMEOUT": "1"}
    result = run_pes(3, ONE_STAYS_AWAY, [first], device="sim", env=settings, check=True)
    lines = [line for line in result.stdout.splitlines() if " in kernel " in line[:13]]
    assert [line[0] for line in lines] == [str(first), str(1 - first)], result.stdout
    assert all("device routine barrier_all: waited longer" in line for line in lines)
    assert f"from PE {1 - first};" in lines[0] or "from PE 2;" in lines[0]  # neither had come
    assert "from PE 2;" in lines[1]


A_TEAM_ANEW = (
    TELL
    + """
    import numpy as np

    @cuda.jit
    def begin():
        shmem.quiet()

    @cuda.jit
    def add_up(team, dest, source):
        shmem.sum_reduce_work_group(team, dest, source, 4)

    with pyshmem.init(device_heap_size="1M") as job:
        dest = pyshmem.zeros(4, dtype=np.int64, heap="device")
        source = pyshmem.full(4, job.my_pe + 1, dtype=np.int64, heap="device")
        told = pyshmem.zeros(1, dtype="int64")
        team = pyshmem.Team.from_pes(range(job.n_pes))
        begin[1, 1]()  # a first launch takes long; the others are to meet in time below
        if job.my_pe != 2:
            try:
                add_up[1, 32](shmem.as_argument(team), dest, source)
                pyshmem.quiet()
            except pyshmem.KernelFault as fault:
                print("fault", str(fault).count("max_reduce): waited longer"))
            tell_all(told)
        await_told(told, 2)
        pyshmem.barrier_all()
        team.destroy()
        with pyshmem.Team.from_pes(range(job.n_pes)) as team:
            for _ in range(3):
                add_up[1, 32](shmem.as_argument(team), dest, source)
            cuda.synchronize()
            pyshmem.barrier_all()
        print(pyshmem.to_numpy(dest).tolist())
"""
)


@pytest.mark.parametrize("p2p", "10")
def test_a_team_made_anew_forgets_the_collective_that_failed(p2p, run_pes):
    settings = {"PYSHMEM_TIMEOUT": "1", "PYSHMEM_P2P": p2p}
    result = run_pes(3, A_TEAM_ANEW, device="sim", env=settings, check=True)
    lines = sorted(result.stdout.splitlines())
    assert lines == ["[6, 6, 6, 6]"] * 3 + ["fault 1"] * 2


UNINITIALISED = """
    import pyshmem
    import numpy as np
    from numba import cuda
    from pyshmem import device as shmem

    @cuda.jit
    def put(dest, source):
        shmem.put(dest, source, 0)

    def attempt(when):
        try:
            put[1, 1](np.zeros(4), np.ones(4))
        except Exception as error:
            print(when, type(error).__name__, error)

    attempt("before")
    with pyshmem.init(device_heap_size="1M"):
        pass
    attempt("after")
"""


def test_a_kernel_outside_init_and_finalize_is_an_error_not_a_write(run_pes):
    result = run_pes(1, UNINITIALISED, device="sim", check=True)
    before, after = result.stdout.splitlines()
    assert before.startswith("before NotInitialized a kernel uses pyshmem.device")
    assert after.startswith("after NotInitialized")
