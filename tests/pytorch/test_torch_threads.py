# SPDX-License-Identifier: BSD-3-Clause
"""A process group's calls by several threads, and what a call leaves behind that failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import check

KINDS = pytest.mark.parametrize("kind", ["native", "python"])

#: The group's own object, whichever kind it is; and what several threads do at one time.
OWN = """
import threading
group = dist.group.WORLD
own = group if hasattr(group, "_to_self") else group._get_backend(torch.device("cpu")).group

def together(call, n_threads=8):
    gate, found = threading.Barrier(n_threads), [None] * n_threads
    def one(i):
        gate.wait()
        found[i] = call(i)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n_threads)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return found
"""


def check_kind(run_pes: Callable, kind: str, n: int, code: str, **variables: str) -> None:
    from textwrap import dedent

    check(run_pes, n, OWN + dedent(code), PYSHMEM_TORCH_GROUPS=kind, **variables)


@KINDS
def test_a_message_that_timed_out_is_sent_and_received_again(run_pes: Callable, kind: str) -> None:
    """A receive before its message, and a send while both slots of the receiver are full."""
    code = """
    store = dist.distributed_c10d._get_default_store()
    x = torch.zeros(4)
    if me == 0:
        with pytest.raises(pyshmem.ShmemTimeout):
            dist.recv(x, 1)
        with pytest.raises(pyshmem.ShmemTimeout):
            dist.recv(x, tag=3)
        store.set("send", b"1")
        dist.recv(x, 1)
        assert x.tolist() == [1.0] * 4, x
        dist.recv(x, tag=3)
        assert x.tolist() == [2.0] * 4, x
        store.set("fill", b"1")
        store.wait(["full"])
        for value in (3.0, 5.0, 6.0):  # not 4: that one was not sent
            dist.recv(x, 1)
            assert x.tolist() == [value] * 4, (value, x)
    else:
        store.wait(["send"])
        dist.send(x + 1, 0)
        dist.send(x + 2, 0, tag=3)
        store.wait(["fill"])
        dist.send(x + 3, 0)
        with pytest.raises(pyshmem.ShmemTimeout):
            dist.send(x + 4, 0)
        store.set("full", b"1")
        dist.send(x + 5, 0)
        dist.send(x + 6, 0)
    """
    check_kind(run_pes, kind, 2, code, PYSHMEM_TIMEOUT="3")


@KINDS
def test_nothing_follows_a_message_that_was_cut_off(run_pes: Callable, kind: str) -> None:
    """Of many pieces, whose receiver does not come; other pairs go on."""
    code = """
    store = dist.distributed_c10d._get_default_store()
    if me == 0:
        many = torch.ones(1 << 22)
        with pytest.raises(pyshmem.ShmemTimeout):
            dist.send(many, 1)
        with pytest.raises(pyshmem.ShmemError, match="send to rank 1: an error has cut off an earlier"):
            dist.send(torch.ones(1), 1)
        store.set("cut", b"1")
        store.wait(["refused"])
        dist.recv(many[:1], 1)
    else:
        store.wait(["cut"])
        many = torch.zeros(1 << 22)
        with pytest.raises(pyshmem.ShmemTimeout):
            dist.recv(many, 0)
        for src in (0, None):
            with pytest.raises(pyshmem.ShmemError, match="cut off an earlier|all other ranks have left"):
                dist.recv(many[:1], src)
        store.set("refused", b"1")
        dist.send(many[:1], 0)
    """
    check_kind(run_pes, kind, 2, code, PYSHMEM_TIMEOUT="4")


@KINDS
def test_a_refused_message_to_itself_counts_for_nothing(run_pes: Callable, kind: str) -> None:
    code = """
    x, wrong = torch.arange(3.0), torch.ones(3).to_sparse()
    with pytest.raises(Exception):
        group.send([wrong], me, 0)
    with pytest.raises(ValueError, match="sent itself nothing"):
        group.recv([x], me, 0)
    group.send([x], me, 0).wait()
    y = torch.zeros(3)
    with pytest.raises(Exception):
        group.recv([wrong], me, 0)
    group.recv([y], me, 0).wait()
    assert (x == y).all()
    assert own._to_self == 0
    works = [group.send([x], me, 5) for _ in range(20)]
    for i in range(10):
        assert dist.irecv(y.zero_(), tag=5).wait() and (x == y).all()
    for i in range(10):
        group.recv([y], me, 5).wait()
    assert own._to_self == 0
    """
    check_kind(run_pes, kind, 1, code)


@KINDS
def test_threads_that_call_first_get_one_queue(run_pes: Callable, kind: str) -> None:
    """And messages of several threads to one rank stay whole."""
    code = """
    import time, types
    given = own._queues_of
    class Slow:
        def __getattr__(self, name):
            time.sleep(0.01)
            return getattr(given, name)
    own._queues_of = Slow()
    for key in range(3):
        assert len({id(queue) for queue in together(lambda i: own._queue("cpu", key))}) == 1
    own._queues_of = given
    size = 100_000
    if me == 0:
        together(lambda i: [dist.send(torch.full((size,), float(i)), 1, tag=5) for _ in range(5)])
    else:
        boxes = [torch.zeros(size) for _ in range(40)]
        def take(i):
            for box in boxes[5 * i : 5 * i + 5]:
                dist.irecv(box, None if i % 2 else 0, tag=5).wait()
        together(take)
        assert all((box == box[0]).all() for box in boxes)
        assert sorted(int(box[0]) for box in boxes) == sorted([*range(8)] * 5)
    """
    check_kind(run_pes, kind, 2, code)


@KINDS
def test_threads_that_ask_one_work_for_its_future_all_hear_of_it(
    run_pes: Callable, kind: str
) -> None:
    code = """
    import sys
    sys.setswitchinterval(1e-6)
    x = torch.ones(2)
    for _ in range(100):
        work = dist.all_reduce(x.fill_(1), async_op=True)
        futures = together(lambda i: work.get_future(), 4)
        for future in futures:
            assert future.wait()[0][0] == n
    """
    check_kind(run_pes, kind, 2, code)


def test_a_thread_still_sending_tells_that_its_member_has_left(run_pes: Callable) -> None:
    """An abort waits for nobody, so that a piece may be stored behind the word of leaving."""
    code = """
    box = own._heaps["cpu"].mailbox
    if me == 0:
        box.leave(0, None)
        box.send(torch.ones(2), 1, 0)
        dist.barrier()
    else:
        dist.barrier()
        x = torch.zeros(2)
        box.receive(x, 0, 0)
        assert x.tolist() == [1.0, 1.0]
        with pytest.raises(pyshmem.MismatchError, match="has left the process group"):
            box.receive(x, 0, 0)
    """
    check_kind(run_pes, "python", 2, code)


def test_a_receive_that_fails_ends_no_other_ones_reading() -> None:
    from pyshmem.interop.torch.send_recv import Receives

    receives = Receives(2)
    first, second = receives.called(None, 7), receives.called(1, 0)
    receives.reads(1, first)
    receives.over(second, 1)
    assert receives.is_read(1)
    receives.over(first, None)
    assert not receives.is_read(1)


def test_callbacks_go_on_behind_a_call_that_ended_by_no_exception() -> None:
    """SystemExit, for one: torch's futures take none of its kind."""
    from pyshmem import ShmemError
    from pyshmem.interop.torch.worker_queues import HostQueue

    queue, go = HostQueue("pyshmem test"), __import__("threading").Event()

    def ends() -> None:
        go.wait()
        raise SystemExit(3)

    bad, good = queue.submit(ends, []), queue.submit(lambda: None, [])
    futures = bad.get_future(), good.get_future()
    go.set()
    with pytest.raises(ShmemError, match="ended by SystemExit: 3"):
        futures[0].wait()
    assert futures[1].wait() == []
    with pytest.raises(SystemExit):
        bad.wait()
    queue.close()
