# SPDX-License-Identifier: BSD-3-Clause
"""Jobs with several rings: what has to stay in order goes by one, whatever blocks ask for it."""

from __future__ import annotations

import pytest

#: Ring 0 of PE 0 stands behind a handler, which waits for a semaphore of C. Block 0 of each PE meets the
#: other, then block 1; that of PE 1 begins when block 2 of PE 0 says so, by ring 0: behind the first
#: flag.
TURNS = """
    import ctypes
    import sys
    import threading
    import time

    import numpy as np
    import pyshmem
    from numba import cuda
    from pyshmem import device as shmem

    libc = ctypes.CDLL(None)
    held = ctypes.create_string_buffer(64)  # a sem_t
    libc.sem_init(held, 0, 0)

    def let_go_behind(mark):
        while not mark[0]:
            time.sleep(0.001)
        time.sleep(0.2)  # the flag is on its way, or in the queue: nobody can tell
        libc.sem_post(held)

    def prepare(job):
        words = [pyshmem.zeros(1, dtype=np.int64, heap="host") for _ in range(3)]
        if job.my_pe == 0:
            threading.Thread(target=let_go_behind, args=(words[2],), daemon=True).start()
        handler = pyshmem.register_handler(ctypes.cast(libc.sem_wait, ctypes.c_void_p).value)
        own = pyshmem.TEAM_WORLD.split_strided(0, 1, job.n_pes)
        pyshmem.barrier_all()
        return int(handler), ctypes.addressof(held), own, words

    @cuda.jit
    def meet(routine, team):
        if routine == 0:
            shmem.sync_all()
        else:
            shmem.team_sync(team)

    @cuda.jit
    def take_turns(handler, semaphore, me, turn, go, mark, routine, team):
        if cuda.blockIdx.x == 0:
            if me == 0:
                shmem.post(handler, semaphore, 0, 0, 0)
            meet(routine, team)
            turn[0] = 1
        else:
            shmem.wait_until(turn, shmem.CMP_EQ, 1)
            if cuda.blockIdx.x == 2:
                if me == 0:
                    shmem.p(go, 1, 1)
            else:
                if me == 1:
                    shmem.wait_until(go, shmem.CMP_EQ, 1)
                mark[0] = 1
                meet(routine, team)

    with pyshmem.init() as job:
        handler, semaphore, own, words = prepare(job)
        team = shmem.TEAM_WORLD if sys.argv[1] == "1" else shmem.as_argument(own)
        arguments = [shmem.as_argument(word) for word in words]
        take_turns[3, 1](handler, semaphore, job.my_pe, *arguments, int(sys.argv[1]), team)
        pyshmem.barrier_all()
        print("met twice")
"""


@pytest.mark.parametrize("routine", [0, 1, 2], ids=["sync_all", "world", "a team of its own"])
def test_flags_do_not_go_back_when_blocks_of_two_rings_take_turns(run_pes, routine: int) -> None:
    settings = {"PYSHMEM_P2P": "0", "PYSHMEM_RINGS": "2", "PYSHMEM_TIMEOUT": "10"}
    result = run_pes(2, TURNS, [routine], device="sim", env=settings)
    assert result.stdout.splitlines() == ["met twice"] * 2, result.stdout + result.stderr


#: The proxy naps when the request comes, as nothing has been asked of it; nobody calls quiet.
ENDS = """
    import ctypes
    import time

    import pyshmem
    from numba import cuda
    from pyshmem import device as shmem

    libc = ctypes.CDLL(None)

    def semaphore():
        words = ctypes.create_string_buffer(64)  # a sem_t
        libc.sem_init(words, 0, 0)
        return words

    @cuda.jit
    def tell(handler, argument):
        shmem.post(handler, argument, 0, 0, 0)

    with pyshmem.init() as job:
        done, gate = semaphore(), semaphore()
        post, wait = (
            int(pyshmem.register_handler(ctypes.cast(function, ctypes.c_void_p).value))
            for function in (libc.sem_post, libc.sem_wait)
        )
        for _ in range(20):
            time.sleep(0.02)
            tell[1, 1](post, ctypes.addressof(done))
            assert libc.sem_trywait(done) == 0, "the kernel had ended before its request was done"
        tell[1, 1](wait, ctypes.addressof(gate))  # it does not wait for ever
        libc.sem_post(gate)
        print("ended")
"""


def test_a_simulated_kernel_ends_when_what_it_asked_for_has_been_done(run_pes) -> None:
    result = run_pes(1, ENDS, device="sim")
    assert result.stdout.splitlines() == ["ended"], result.stdout + result.stderr


#: Blocks ring 0 in four ways; a thread of the program waits until reports say so, and lets it go on.
#: Slots: 8.
STANDS = """
    import ctypes
    import sys
    import threading
    import time

    import numpy as np
    import pyshmem
    from pyshmem._core import library
    from pyshmem.device import state
    from pyshmem.device.ring import requests
    from pyshmem.host.faults import report

    libc = ctypes.CDLL(None)
    gate = ctypes.create_string_buffer(64)  # a sem_t
    libc.sem_init(gate, 0, 0)

    def word(address):
        return ctypes.c_uint64.from_address(address)

    def lose_a_ticket():
        '''Of a sender that never comes.'''
        words = library.device_state()
        word(words[state.RING + 2]).value += 1
        skipped = words[state.RING + 1] + requests.CONTROL_CELLS + 16 * 8
        def find():
            word(skipped).value = 1
        return find

    def keep_a_cell():
        '''As if its last reader had not come by.'''
        busy = word(library.device_state()[state.RING + 2] + requests.DEVICE_WORDS)
        busy.value = 1
        def free():
            busy.value = 0
        return free

    case, expected, told = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
    seen = []

    def release_when_reported(job, go_on, n):
        while True:
            text = report()
            if expected in text and (not told or "its kernel waits" in text):
                break
            time.sleep(0.01)
        seen.append(text)
        go_on()
        for _ in range(n):
            libc.sem_post(gate)

    with pyshmem.init() as job:
        handler = int(pyshmem.register_handler(ctypes.cast(libc.sem_wait, ctypes.c_void_p).value))
        out, at = pyshmem.zeros(1, dtype=np.int64, heap="device"), ctypes.addressof(gate)
        go_on = {"lost": lose_a_ticket, "cell": keep_a_cell}.get(case, lambda: lambda: None)()
        n_before = 8 if case in ("lost", "credit") else 0
        thread = threading.Thread(target=release_when_reported, args=(job, go_on, n_before + 1))
        thread.start()
        launch(case == "quiet", handler, at, out, n_before)
        thread.join()
        told = [line for line in report().splitlines() if "'s ring" in line]
        assert not any("waits" in line for line in told), told  # the rings' line says so no longer
        print(seen[0])
"""

#: ``launch`` for STANDS: block 1 waits for the host, or settles.
KERNELS = {
    "numba": """
    from numba import cuda
    from pyshmem import device as shmem

    @cuda.jit
    def ask(handler, argument, out, n_before):
        if cuda.grid(1) == 5:
            for _ in range(n_before):
                shmem.post(handler, argument, 0, 0, 0)
            out[0] = shmem.call(handler, argument, 0, 0, 0)

    @cuda.jit
    def settle(handler, argument):
        if cuda.grid(1) == 5:
            shmem.post(handler, argument, 0, 0, 0)
            shmem.quiet()

    def launch(settles, handler, argument, out, n_before):
        if settles:
            settle[2, 4](handler, argument)
        else:
            ask[2, 4](handler, argument, out, n_before)
""",
    "triton": """
    import pyshmem.triton as shmem
    import triton
    import triton.language as tl

    @triton.jit
    def ask(handler, argument, n_before, ctx):
        if tl.program_id(0) == 1:
            for _ in range(n_before):
                shmem.post(handler, argument, 0, 0, 0, ctx)
            shmem.call(handler, argument, 0, 0, 0, ctx)

    @triton.jit
    def settle(handler, argument, ctx):
        if tl.program_id(0) == 1:
            shmem.post(handler, argument, 0, 0, 0, ctx)
            shmem.quiet(ctx)

    def launch(settles, handler, argument, out, n_before):
        if settles:
            settle[(2,)](handler, argument, shmem.context())
        else:
            ask[(2,)](handler, argument, n_before, shmem.context())
""",
}

HANDLER = "; a handler of the program is running"


@pytest.mark.parametrize(("language", "thread"), [("numba", 1), ("triton", 0)])
@pytest.mark.parametrize(
    ("case", "expected", "told"),
    [
        ("reply", f"block 1, thread 1 (ticket 0) waits for its reply{HANDLER}", False),
        ("quiet", f"block 1, thread 1 (ticket 1) waits for the requests below it{HANDLER}", False),
        ("credit", f"block 1, thread 1 (ticket 8) waits for room for its request{HANDLER}", False),
        ("lost", "block 1, thread 1 (ticket 8) waits for room for its request", True),
        (
            "cell",
            "block 1, thread 1 (ticket 0) waits for the kernel that has not read the reply",
            True,
        ),
    ],
)
def test_reports_say_who_waits_for_a_ring_that_stands_still(
    run_pes, language: str, thread: int, case: str, expected: str, told: bool
) -> None:
    """With a proxy that is idle all PEs' reports do: it tells them."""
    pytest.importorskip(language)
    expected = expected.replace("thread 1", f"thread {thread}")
    settings = {"PYSHMEM_RING_SLOTS": "8", "PYSHMEM_REPORT_AFTER": "0.5"}
    program = KERNELS[language] + STANDS
    result = run_pes(1, program, [case, expected, told], device="sim", env=settings)
    assert result.returncode == 0, result.stdout + result.stderr
    assert expected in result.stdout


def test_another_proxy_tells_of_a_ring_whose_own_runs_a_handler(run_pes) -> None:
    expected = f"ring 1: block 1, thread 1 (ticket 0) waits for its reply{HANDLER}"
    settings = {"PYSHMEM_RINGS": "2", "PYSHMEM_RING_SLOTS": "8"}
    program = KERNELS["numba"] + STANDS
    result = run_pes(1, program, ["reply", expected, True], device="sim", env=settings)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "its kernel waits" in result.stdout
