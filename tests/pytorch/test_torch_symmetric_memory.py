# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed._symmetric_memory over a heap."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

import torch.distributed as dist
from torch_cases import BEGIN, check

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
#: Rank 0 has a tensor more, so that parts do not lie at the same place.
OFFERED = (
    BEGIN
    + """
import torch.distributed._symmetric_memory as symm_mem
symmetric.use_symmetric_memory("1M")
group, to, before = dist.group.WORLD, (me + 1) % n, (me - 1) % n
kept = symm_mem.empty(100, device="cpu") if me == 0 else None
"""
)


@needs_compiler
def test_members_load_store_and_signal(run_pes: Callable) -> None:
    code = """
    box = symm_mem.empty(4, 8, dtype=torch.int32, device="cpu").fill_(-1)
    peers = symm_mem.rendezvous(box, group)
    assert (peers.rank, peers.world_size, peers.buffer_size) == (me, n, 128)
    theirs = peers.get_buffer(to, box.shape, box.dtype)
    theirs.copy_(torch.arange(32).view(4, 8) + me)
    peers.barrier()
    wanted = torch.arange(32, dtype=torch.int32).view(4, 8) + before
    assert box.equal(wanted), (box, wanted)
    peers.barrier()  # before it is written again
    for turn in range(3):
        for channel in (0, 3):
            peers.get_buffer(to, (1,), box.dtype, channel).fill_(100 * turn + channel)
            peers.put_signal(to, channel)
            peers.wait_signal(before, channel)
            assert box.view(-1)[channel] == 100 * turn + channel
            peers.barrier(channel=channel)
    peers.get_signal_pad(to, (2,), torch.int32).fill_(7 + me)
    peers.barrier()
    assert peers.get_signal_pad(me).view(torch.int32)[:3].tolist() == [7 + before, 7 + before, 0]
    """
    check(run_pes, 3, code, OFFERED)


@needs_compiler
def test_memory_is_given_back_and_groups_of_some_meet(run_pes: Callable) -> None:
    code = """
    import time
    for _ in range(100):
        symm_mem.empty(1 << 17, device="cpu")
    some = dist.new_group([0, n - 1])
    if me in (0, n - 1):
        box = symm_mem.empty(2, device="cpu")
        peers = symm_mem.rendezvous(box, some)
        peers.get_buffer(1 - peers.rank, (2,), torch.float32).fill_(peers.rank + 1.0)
        peers.barrier()
        assert box.tolist() == [2.0 - peers.rank] * 2
    box = symm_mem.empty(2, device="cpu").zero_()
    for members in (range(n), (0, n - 1)):  # signals to one tensor in two groups
        of_all = dist.new_group(list(members))
        if me in members:
            peers = symm_mem.rendezvous(box, of_all)
            for turn in range(3):
                if peers.rank == 1:
                    time.sleep(0.1)
                    peers.get_buffer(0, (2,), torch.float32).fill_(len(members) + turn)
                    peers.put_signal(0, 5)
                elif peers.rank == 0:
                    peers.wait_signal(1, 5)
                    assert box.tolist() == [len(members) + turn] * 2, box
                peers.barrier()
        dist.barrier()
    """
    check(run_pes, 3, code, OFFERED)


@needs_compiler
def test_what_cannot_be_is_told(run_pes: Callable) -> None:
    code = """
    with pytest.raises(pyshmem.HeapExhausted, match="in a row are free"):
        symm_mem.empty(1 << 20, device="cpu")
    with pytest.raises(ValueError, match="already"):
        symmetric.use_symmetric_memory("1M")
    with pytest.raises(ValueError, match="'host' or 'device'"):
        symmetric.use_symmetric_memory("1M", heap="both")
    box = symm_mem.empty(1 + me, device="cpu")
    with pytest.raises(ValueError, match="bytes"):
        symm_mem.rendezvous(box, group)
    box = symm_mem.empty(1, device="cpu")
    peers = symm_mem.rendezvous(box, group)
    with pytest.raises(pyshmem.ShmemTimeout, match=" timeout of 0.1 s is over"):
        peers.wait_signal(to, 1, timeout_ms=100)
    for call in (lambda: peers.put_signal(n, 0), lambda: peers.wait_signal(to, 1 << 20)):
        with pytest.raises(ValueError, match=f"rank {n} of a group|channel 1048576"):
            call()
    peers.barrier()
    """
    check(run_pes, 2, code, OFFERED)


@needs_compiler
@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "new_window"), reason="comes with torch 2.14")
def test_windows_are_written_and_signalled(run_pes: Callable) -> None:
    code = """
    from datetime import timedelta
    box = symm_mem.empty(4, 2, device="cpu").zero_()
    assert group.supports_window
    window = group.new_window(box)
    assert window.get_attr(to).access_type.name == "UNIFIED"
    for turn in range(3):
        window.put(torch.full((3,), me + 10.0 * turn), to, 2 * turn, False)
        window.signal(to, False)
        work = window.wait_signal(before, True) if turn == 1 else None
        (work.wait if work else lambda: window.wait_signal(before, False))()
        assert box.view(-1)[2 * turn : 2 * turn + 3].tolist() == [before + 10.0 * turn] * 3
        assert window.map_remote_tensor(to).shape == (4, 2)
        dist.barrier()
    soon = torch._C._distributed_c10d.WaitSignalOptions()
    soon.timeout = timedelta(seconds=0.2)
    with pytest.raises(pyshmem.ShmemTimeout, match="0.2 s is over"):
        window.wait_signal(before, False, soon)
    dist.barrier()
    for call, error, text in (
        (lambda: window.put(torch.ones(2), to, 7, False), ValueError, "2 elements at element 7 of"),
        (lambda: window.put(torch.ones(2).int(), to, 0, False), TypeError, "into a window of"),
        (lambda: window.signal(n, False), ValueError, f"rank {n}"),
        (lambda: window.tensor_register(box), ValueError, "has a tensor"),
        (lambda: group.new_window(torch.ones(4)), ValueError, "a window is a tensor of"),
        (lambda: group.new_window().signal(0, False), ValueError, "call tensor_register"),
    ):
        with pytest.raises(error, match=text):
            call()
    window.tensor_deregister()
    some = dist.new_group([0, 2])
    if me in (0, 2):
        of_some = some.new_window()
        of_some.tensor_register(box)
        peer = 1 - dist.get_rank(some)
        of_some.put(torch.full((8,), me + 0.5), peer, 0, True).wait()
        of_some.signal(peer, True).wait()
        of_some.wait_signal(peer, False)
        assert (box == 2 - me + 0.5).all()
    """
    check(run_pes, 3, code, OFFERED)
