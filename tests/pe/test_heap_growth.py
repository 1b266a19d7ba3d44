# SPDX-License-Identifier: BSD-3-Clause
"""A device heap that grows: by itself where its size is not given, or PYSHMEM_DEVICE_HEAP_GROWS=1."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from test_interrupted_collectives import PROGRAM

GROWS = {"PYSHMEM_DEVICE_HEAP_GROWS": "1", "PYSHMEM_DEVICE_HEAP_SIZE": "4M"}

DEVICES = pytest.mark.parametrize("device", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])

BEGIN = """
    import numpy as np
    import pyshmem

    def make(mib, value, **options):
        return pyshmem.full(mib << 18, value, dtype=np.int32, heap="device", **options)

    def ends(array):
        return pyshmem.to_numpy(array[:1])[0].item(), pyshmem.to_numpy(array[-1:])[0].item()

    def memory():
        return pyshmem.heap_info("device").memory >> 20

    job = pyshmem.init()
    me, n = job.my_pe, job.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    first = memory()
"""

PUTS = """
    arrays = []
    for turn in range(4):
        target, source = make(40, -1), make(40, 10 * turn + me)
        pyshmem.put(target, source, right)
        pyshmem.barrier_all()
        arrays.append((turn, target))
    assert all(ends(target) == (10 * turn + left,) * 2 for turn, target in arrays)
    assert memory() >= first + 200, memory()
    print("ok")
"""


@DEVICES
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_what_was_added_is_reached_by_all(run_pes: Callable, device: str, n: int) -> None:
    done = run_pes(n, BEGIN + PUTS, device=device, env=GROWS, check=True)
    assert done.stdout.split() == ["ok"] * n


@DEVICES
@pytest.mark.parametrize("how", ["PYSHMEM_P2P=0", "PYSHMEM_ENGINE=process", "PYSHMEM_ENGINE=thread",
                                 "PYSHMEM_NODE_SIZE=1"])  # fmt: skip
def test_and_by_every_way(run_pes: Callable, device: str, how: str) -> None:
    env = GROWS | dict([how.split("=")])
    done = run_pes(2, BEGIN + PUTS, device=device, env=env, check=True)
    assert done.stdout.split() == ["ok"] * 2


KERNEL = """
    from numba import cuda
    from pyshmem import device

    @cuda.jit
    def kernel(target, source, pe):
        device.put(target, source, pe)
        device.quiet()

    few = pyshmem.zeros(8, dtype=np.int64, heap="device")
    kernel[1, 1](few, few, right)  # loaded before the heap grows
    cuda.synchronize()
    target, source = make(40, -1), make(40, me)
    kernel[1, 1](target[-64:], source[-64:], right)
    cuda.synchronize()
    pyshmem.barrier_all()
    assert ends(target) == (-1, left), ends(target)
    print("ok")
"""


@DEVICES
@pytest.mark.parametrize("p2p", ["1", "0"])
def test_kernels_reach_it(run_pes: Callable, device: str, p2p: str) -> None:
    env = GROWS | {"PYSHMEM_P2P": p2p}
    done = run_pes(2, BEGIN + KERNEL, device=device, env=env, check=True)
    assert done.stdout.split() == ["ok"] * 2


FULL = """
    kept = make(40, 1)
    before = pyshmem.heap_info("device")
    for nbytes, word in ((1 << 50, "it grows up to"), (before.largest_free // 2, "cannot grow by")):
        try:
            pyshmem.empty(nbytes, dtype=np.uint8, heap="device")
        except MemoryError as error:
            assert word in str(error) or "largest" in str(error), str(error)
            print("refused")
    assert pyshmem.heap_info("device") == before
    assert ends(make(40, 3)) == (3, 3) and ends(kept) == (1, 1)
"""


def test_what_the_machine_has_not_is_refused_on_all(run_pes: Callable) -> None:
    done = run_pes(3, BEGIN + FULL, device="sim", env=GROWS, check=True)
    assert done.stdout.split() == ["refused"] * 6


TRIM = """
    low, high = make(40, 7), make(80, 8)
    grown = memory()
    pyshmem.heap_trim()
    assert memory() == grown  # the last block is still there
    pyshmem.free(high)
    pyshmem.heap_trim()
    smaller = memory()
    assert first <= smaller <= grown - 64, (first, smaller, grown)
    again = make(80, 9)
    pyshmem.put(again, low[:4], right)
    pyshmem.barrier_all()
    assert ends(again) == (7, 9) and ends(low) == (7, 7)
    view = again[-4:]
    del again, high
    pyshmem.heap_trim()
    assert memory() > smaller  # of what one has a view stays
    pyshmem.put(view, low[:4] + me, right)
    pyshmem.barrier_all()
    assert ends(view) == (7 + left,) * 2
    if me:
        del view
    pyshmem.heap_trim()
    assert memory() > smaller  # PE 0 has one still
    view = None
    pyshmem.heap_trim()  # all have dropped it, which needs no call of its own
    assert memory() == smaller, (memory(), smaller)
    pyshmem.heap_trim("host")
    print("ok")
"""


@DEVICES
def test_trim_gives_the_end_back(run_pes: Callable, device: str) -> None:
    done = run_pes(3, BEGIN + TRIM, device=device, env=GROWS, check=True)
    assert done.stdout.split() == ["ok"] * 3


def test_released_blocks_are_freed_before_it_grows(run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
    for turn in range(8):
        array = None
        array = make(40, turn)
        assert ends(array) == (turn, turn)
    assert memory() <= first + 100, (first, memory())
    print("ok")
    """
    )
    done = run_pes(2, program, device="sim", env=GROWS, check=True)
    assert done.stdout.split() == ["ok"] * 2


def test_realloc_moves_what_has_no_memory_behind_it(run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
    array = make(1, 5)
    array = pyshmem.realloc(array, 90 << 18)
    array[-1:] = 6
    assert ends(array) == (5, 6) and pyshmem.to_numpy(array[: 1 << 18]).tolist() == [5] * (1 << 18)
    pyshmem.barrier_all()
    print("ok")
    """
    )
    done = run_pes(2, program, device="sim", env=GROWS, check=True)
    assert done.stdout.split() == ["ok"] * 2


def test_different_sizes_are_told_as_ever(run_pes: Callable) -> None:
    program = (
        BEGIN
        + """
    try:
        make(40 if me else 400, 1)
    except pyshmem.MismatchError as error:
        print("PE 0 asks for" in str(error))
    assert ends(make(40, 1)) == (1, 1)
    """
    )
    done = run_pes(2, program, device="sim", env=GROWS, check=True)
    assert done.stdout.split() == ["True"] * 2


#: One that grows at each turn; see test_interrupted_collectives.py.
GROWING = {
    "full": (
        "pyshmem.full(5 << 20, me + i, dtype=np.int64, heap='device')",
        "globals().setdefault('kept', []).append(made) or int(made[0]) == int(made[-1]) == me + i",
    ),
}  # fmt: skip


def test_a_growth_that_a_handler_ends_goes_on(run_pes: Callable) -> None:
    program = PROGRAM.format(calls=GROWING, turns=8)
    env = GROWS | {"PYSHMEM_TIMEOUT": "60"}
    done = run_pes(2, program, device="sim", env=env, timeout=150, check=True)
    assert done.stdout.count("done") == 2


ITSELF = """
    import os
    import numpy as np
    import pyshmem

    job = pyshmem.init()
    first = pyshmem.heap_info("device")
    assert first.memory >= 1 << 30 and first.nbytes > 2 * first.memory, first
    array = pyshmem.empty(5 << 28, np.uint8, heap="device")
    array[-1:] = 7
    assert pyshmem.to_numpy(array[-1:]).item() == 7
    assert pyshmem.heap_info("device").memory > first.memory
    del array
    pyshmem.finalize()
    os.environ["PYSHMEM_DEVICE_HEAP_SIZE"] = "64M"
    for how in ({}, {"device_heap_size": "64M"}):
        pyshmem.init(**how)
        info = pyshmem.heap_info("device")
        assert info.memory == info.nbytes < 128 << 20, info
        try:
            pyshmem.empty(5 << 28, np.uint8, heap="device")
        except pyshmem.HeapExhausted as error:
            assert "it does not grow: its size was given" in str(error), error
            print("ok")
        pyshmem.finalize()
        os.environ.pop("PYSHMEM_DEVICE_HEAP_SIZE", None)
"""


@DEVICES
def test_it_grows_by_itself_where_no_size_was_given(run_pes: Callable, device: str) -> None:
    done = run_pes(1, ITSELF, device=device, check=True)
    assert done.stdout.split() == ["ok"] * 2


LIMITED = """
    job = pyshmem.init()
    info = pyshmem.heap_info("device")
    assert info.memory == info.nbytes, info
    try:
        pyshmem.empty(5 << 28, np.uint8, heap="device")
    except pyshmem.HeapExhausted as error:
        print("does not grow" in str(error) and "than this process may have (ulimit -v)" in str(error))
"""


def test_a_limit_of_addresses_is_named(run_pes: Callable, tmp_path: Path) -> None:
    """The heap is one of a fixed size then."""
    program = tmp_path / "limited.py"
    program.write_text("import numpy as np, pyshmem" + textwrap.dedent(LIMITED))
    limit = f"ulimit -v {40 << 20}; exec {sys.executable} {program}"
    done = run_pes(2, "/bin/bash", ["-c", limit], device="sim", check=True)
    assert done.stdout.split() == ["True"] * 2


CAPTURE = """
    import torch
    mine = torch.zeros(4, device=f"cuda:{job.gpu}")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        mine.add_(1)
        array = make(90, me)  # grows, by calls that are no part of the graph
        mine.add_(1)
    for turn in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert mine.tolist() == [6] * 4 and ends(array) == (me, me) and memory() >= first + 64
    print("ok")
"""


@pytest.mark.gpu
def test_it_grows_while_a_stream_captures(run_pes: Callable) -> None:
    done = run_pes(2, BEGIN + CAPTURE, device="cuda", env=GROWS, check=True)
    assert done.stdout.split() == ["ok"] * 2


def test_all_pes_say_the_same(run_pes: Callable) -> None:
    program = """
    import os
    import pyshmem
    os.environ["PYSHMEM_DEVICE_HEAP_GROWS"] = os.environ["PYSHMEM_PE"]
    try:
        pyshmem.init()
    except pyshmem.ShmemError as error:
        print("PYSHMEM_DEVICE_HEAP_GROWS must be the same" in str(error))
    """
    done = run_pes(2, program, device="sim", check=False)
    assert done.stdout.count("True") == 2


OUTSIDE = """
    from pyshmem._core.library import check, lib
    array = make(1, 5)
    place = array.__array_interface__["data"][0]
    local, outside = place, place + (1 << 30)
    context = pyshmem.CTX_DEFAULT.handle
    for call, dest, source in (lib.ishmemx_put, outside, local), (lib.ishmemx_get, local, outside):
        try:
            check(call(context, dest, source, 8, right))
        except ValueError as error:
            print(error)
    pyshmem.barrier_all()
"""


def test_addresses_without_memory_are_refused(run_pes: Callable) -> None:
    """They are the heap's, but it has not grown so far."""
    done = run_pes(2, BEGIN + OUTSIDE, device="sim", env=GROWS, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 4, lines
    assert all("8 bytes leave the device heap, which ends 0 bytes behind" in line for line in lines)
