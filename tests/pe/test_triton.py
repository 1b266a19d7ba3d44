# SPDX-License-Identifier: BSD-3-Clause
"""The suite of Triton kernels in the interpreter, and jobs whose kernels go wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_suites import SHORT, run_suite

pytest.importorskip("triton")

RunCommand = Callable[..., object]


@pytest.mark.serial
@pytest.mark.parametrize("n_pes", [2, 3, 4])  # 1 PE in test_suites_of_one_pe
def test_triton_suite_in_the_interpreter(n_pes: int, run_command: RunCommand) -> None:
    run_suite("triton", n_pes, "sim", run_command, only=() if n_pes == 3 else SHORT["triton"])


@pytest.mark.long
@pytest.mark.parametrize("n_pes", [1, 2, 4])
def test_whole_triton_suite_in_the_interpreter(n_pes: int, run_command: RunCommand) -> None:
    run_suite("triton", n_pes, "sim", run_command, TRITON_MIXES="30")


@pytest.mark.long
def test_triton_suite_with_peers_out_of_reach(run_command: RunCommand) -> None:
    """Every element through the rings and the proxies; large tiles are more than a ring holds."""
    settings = {"PYSHMEM_P2P": "0", "PYSHMEM_RINGS": "2", "PYSHMEM_RING_SLOTS": "64"}
    run_suite("triton", 2, "sim", run_command, **settings)


def test_requests_through_two_short_rings(run_command: RunCommand) -> None:
    settings = {"PYSHMEM_RINGS": "2", "PYSHMEM_RING_SLOTS": "8"}
    run_suite("triton/test_requests.py", 2, "sim", run_command, **settings)


@pytest.mark.serial
@pytest.mark.gpu
def test_triton_suite_on_gpus(n_pes: int, run_command: RunCommand) -> None:
    run_suite("triton", n_pes, "cuda", run_command)


WAIT = """
    import numpy as np
    import pyshmem
    import pyshmem.triton as shmem
    import triton

    @triton.jit
    def wait_in_vain(word, ctx):
        if tl.program_id(0) == 1:
            shmem.signal_wait_until(word, shmem.CMP_EQ, 42, ctx, 0)

    import triton.language as tl

    with pyshmem.init():
        word = pyshmem.full(1, 17, dtype=np.int64, heap="device")
        told = pyshmem.zeros(1, np.int64)
        try:
            wait_in_vain[(2,)](shmem.wrap(word), shmem.context())
            pyshmem.to_numpy(word)
            pyshmem.quiet()
        except pyshmem.KernelFault as error:
            print(str(error).splitlines()[0])
        # A wait of the host has the same deadline: it would end the job of a PE whose kernel is later.
        for pe in range(pyshmem.n_pes()):
            pyshmem.atomic_inc(told, pe)
        while not pyshmem.test(told, pyshmem.CMP_EQ, pyshmem.n_pes()):
            pass
"""


@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_wait_that_takes_too_long_says_who_waits_for_what(run_pes, device: str) -> None:
    result = run_pes(2, WAIT, device=device, env={"PYSHMEM_TIMEOUT": "1.5"}, check=True)
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "in kernel wait_in_vain (program.py:" in line
        assert "block 1" in line
        assert (
            "device routine signal_wait_until: waited longer than PYSHMEM_TIMEOUT for == 42 and saw 17"
            in line
        )
        assert "from PE 0" in line


WITHOUT_THE_INTERPRETER = """
    import numpy as np
    import pyshmem
    import pyshmem.triton as shmem
    from triton._C.libtriton import native_specialize_impl
    from triton.backends.nvidia.compiler import CUDABackend

    with pyshmem.init():
        try:
            shmem.context()
        except ImportError as error:
            print(error)
        arrays = [pyshmem.zeros(5, dtype, heap="device") for dtype in ("f4", "bfloat16", "u8")]
        for argument in (shmem.Context(), *map(shmem.wrap, arrays), shmem.channel(2, 64)):
            print(native_specialize_impl(CUDABackend, argument, False, True, True)[0])
"""


def test_what_triton_takes_our_arguments_for(run_pes) -> None:
    """Its launcher on GPUs asks for ``data_ptr`` and ``dtype``; that needs no GPU to look at."""
    result = run_pes(
        1, WITHOUT_THE_INTERPRETER, device="sim", env={"TRITON_INTERPRET": "0"}, check=True
    )
    refused, *kinds = result.stdout.splitlines()
    assert "import pyshmem before triton" in refused
    assert kinds == ["*i64", "*fp32", "*bf16", "*u64", "*i64"]


OLD_CONTEXT = """
    import pyshmem
    import pyshmem.triton as shmem
    import triton

    @triton.jit
    def nothing(ctx):
        shmem.fence(ctx)

    pyshmem.init()
    ctx = shmem.context()
    nothing[(1,)](ctx)
    pyshmem.finalize()
    for again in (False, True):
        if again:
            pyshmem.init()
        try:
            nothing[(1,)](ctx)
        except (ValueError, pyshmem.NotInitialized) as error:
            print(error)
"""


@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_context_of_an_earlier_job_is_refused(run_pes, device: str) -> None:
    result = run_pes(1, OLD_CONTEXT, device=device, check=True)
    ended, earlier = result.stdout.splitlines()
    assert "made in a job that has ended" in ended
    assert "belongs to an earlier job: call context() again" in earlier


LATE = """
    import time
    import pyshmem
    import pyshmem.triton as shmem
    import triton

    @triton.jit
    def wait_for_peer(word, ctx):
        shmem.signal_wait_until(word, shmem.CMP_GE, 7, ctx, 0)

    with pyshmem.init() as job:
        word = pyshmem.new_signal(heap="device")
        if job.my_pe == 0:
            for _ in range(300):  # a machine that stands still does so in one of them
                time.sleep(0.01)
            pyshmem.signal_set(word, 7, 1)
        else:
            wait_for_peer[(1,)](shmem.wrap(word), shmem.context())
            pyshmem.quiet()
        pyshmem.barrier_all()
        print("went on")
"""


@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_long_wait_is_reported_by_the_kernel_s_name_and_goes_on(run_pes, device: str) -> None:
    done = run_pes(2, LATE, device=device, env={"PYSHMEM_REPORT_AFTER": "1"}, check=True)
    assert done.stdout.split("\n").count("went on") == 2
    assert "the PEs stand:" in done.stderr
    assert "wait_for_peer (program.py:" in done.stderr
    assert "signal_wait_until for >= 7 from PE 0, seen 0" in done.stderr


ABORT = """
    import pyshmem
    import pyshmem.triton as shmem
    import triton

    @triton.jit
    def give_up(ctx):
        if shmem.my_pe(ctx) == 1:
            shmem.abort(7, ctx, "enough")
        shmem.sync(ctx)

    with pyshmem.init():
        give_up[(1,)](shmem.context())
        pyshmem.quiet()
"""


@pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_kernel_may_end_the_job(run_pes, device: str) -> None:
    result = run_pes(2, ABORT, device=device)
    assert result.returncode == 7
    assert "a kernel called abort(7): enough" in result.stderr


OFF_THE_HEAP = """
    import numpy as np
    import pyshmem
    import pyshmem.triton as shmem
    import triton
    import triton.language as tl

    @triton.jit
    def to_peer(dest, n, ctx, WHAT: tl.constexpr):
        offs = tl.arange(0, 8)
        if WHAT == 0:
            shmem.store(dest + offs, 1, 0, ctx, mask=offs < n)
        elif WHAT == 1:
            shmem.atomic_add(dest + offs, 1, 0, ctx, mask=offs < n)
        else:
            tl.store(dest + offs, shmem.load(dest, 0, ctx), mask=offs < n)

    with pyshmem.init() as job:
        inside = pyshmem.zeros(8, dtype=np.int64, heap="device")
        ctx, elsewhere = shmem.context(), np.zeros(8, np.int64)
        for what in range(3):
            to_peer[(1,)](shmem.wrap(inside), 8, ctx, WHAT=what)
            to_peer[(1,)](shmem.wrap(elsewhere), 0, ctx, WHAT=min(what, 1))  # nothing of it is meant
            try:
                to_peer[(1,)](shmem.wrap(elsewhere), 8, ctx, WHAT=what)
                pyshmem.quiet()
            except pyshmem.KernelFault as error:
                print(error)
        assert not elsewhere.any()
"""


def test_checking_mode_finds_tiles_that_are_not_on_the_heap(run_pes) -> None:
    result = run_pes(1, OFF_THE_HEAP, device="sim", env={"PYSHMEM_CHECK": "1"}, check=True)
    routines = [
        line.partition("device routine ")[2].partition(":")[0]
        for line in result.stdout.splitlines()
    ]
    assert routines == ["store", "atomic_add", "load"]
    assert result.stdout.count("are not on the device heap") == 3


FAR_APART = """
    import numpy as np
    import pyshmem
    import pyshmem.triton as shmem
    import triton
    import triton.language as tl

    @triton.jit
    def apart(dest, source, stride, words, ctx, B: tl.constexpr):
        offs = tl.arange(0, B)
        shmem.fcollect(dest + offs, tl.load(source + offs), stride, words, ctx)
        shmem.alltoall(dest + B + offs, dest + offs, stride, words, ctx)

    with pyshmem.init(device_heap_size=5 << 29) as job:
        stride = 1 << 30  # elements of a byte: the third member's tile is 2**31 behind the first
        dest = pyshmem.empty(2 * stride + 32, dtype=np.int8, heap="device")  # untouched, so not there
        source = pyshmem.full(16, job.my_pe + 1, dtype=np.int8, heap="device")
        words = shmem.channel(1, 16)
        apart[(1,)](shmem.wrap(dest), shmem.wrap(source), stride, words, shmem.context(), B=16)
        for pe in range(3):
            part = pyshmem.to_numpy(dest[pe * stride :][:32])
            assert (part[:16] == pe + 1).all()
            assert (part[16:] == job.my_pe + 1).all()
"""


def test_tiles_of_members_may_be_more_than_2_to_the_31_apart(run_pes) -> None:
    run_pes(3, FAR_APART, device="sim", check=True)
