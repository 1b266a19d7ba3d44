# SPDX-License-Identifier: BSD-3-Clause
"""Receives from any source: who takes which message, beside receives from one."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import BEGIN, VARIABLES, check

KINDS = pytest.mark.parametrize("kind", ["native", "python"])


def check_kind(run_pes: Callable, kind: str, n: int, code: str) -> None:
    check(run_pes, n, code, PYSHMEM_TORCH_GROUPS=kind)


@KINDS
def test_each_message_is_taken_once_and_its_sender_told(run_pes: Callable, kind: str) -> None:
    """Of few bytes and of several pieces, waited for at once and later; in a smaller group too."""
    code = """
    for size in (1, 1_000_000):
        if me == 0:
            boxes = [torch.zeros(size) for _ in range(2 * n - 2)]
            first = [dist.recv(box) for box in boxes[: n - 1]] if size == 1 else []
            works = [dist.irecv(box) for box in boxes[len(first) :]]
            for work in works:
                work.wait()
            senders = first + [work._source_rank() for work in works]
            assert all((box == sender).all() for box, sender in zip(boxes, senders))
            assert sorted(senders) == sorted([*range(1, n)] * 2), senders
        else:
            for _ in range(2):
                dist.send(torch.full((size,), float(me)), 0)
        dist.barrier()
    some = dist.new_group([1, 2])
    if me == 1:
        assert dist.recv(torch.zeros(3), group=some) == 2
    elif me == 2:
        dist.send(torch.ones(3), 1, group=some)
    one = torch.ones(2)
    dist.isend(one, me).wait()
    work = dist.irecv(one.zero_())  # dist.recv refuses what it has got from itself
    work.wait()
    assert work._source_rank() == me and (one == 1).all()
    """
    check_kind(run_pes, kind, 3, code)


@KINDS
def test_messages_are_for_the_receive_that_was_called_first(run_pes: Callable, kind: str) -> None:
    """From rank 1 before and behind one from any source, each with a tag of its own."""
    code = """
    if me == 0:
        calls = [(1, 7), (None, 8), (1, 9), (None, 8), (1, 8), (None, 6)]
        boxes = [torch.zeros(1) for _ in calls]
        works = [dist.irecv(box, src, tag=tag) for box, (src, tag) in zip(boxes, calls)]
        dist.barrier()
        for work in works:
            work.wait()
        assert [int(box) for box in boxes] == [70, 80, 90, 81, 82, 60], boxes
    else:
        dist.barrier()
        if me == 1:
            for tag, value in ((7, 70), (8, 80), (9, 90), (8, 81), (8, 82), (6, 60)):
                dist.send(torch.tensor([float(value)]), 0, tag=tag)
    """
    check_kind(run_pes, kind, 2, code)


@KINDS
def test_messages_of_other_tags_are_kept(run_pes: Callable, kind: str) -> None:
    """Each rank sends its tags in an order of its own; they are taken in another one."""
    code = """
    import random
    plan = [(random.Random(i).randrange(1, n), random.Random(-i).randrange(3)) for i in range(90)]
    if me == 0:
        found = {}
        for src, tag in sorted(plan, key=lambda one: -one[1]):
            box = torch.zeros(1, dtype=torch.int64)
            found.setdefault((dist.recv(box, tag=tag), tag), []).append(int(box))
        for one, numbers in found.items():
            assert numbers == [i for i, planned in enumerate(plan) if planned == one], (one, numbers)
    else:
        for i, (src, tag) in enumerate(plan):
            if src == me:
                dist.send(torch.tensor([i]), 0, tag=tag)
    dist.barrier()
    if me == 0:  # one that was kept is for a receive from its sender, too
        assert dist.recv(torch.zeros(2), tag=1) == 1
        with pytest.raises(pyshmem.MismatchError, match="tag 5 from rank 1 met a message of float32.2."):
            dist.recv(torch.zeros(1), 1, tag=5)
        box = torch.zeros(4)
        dist.recv(box, 1, tag=3)
        assert (box == 3).all()
    elif me == 1:
        dist.send(torch.ones(2), 0, tag=5)
        dist.send(torch.full((4,), 3.0), 0, tag=3)
        dist.send(torch.ones(2), 0, tag=1)
    """
    check_kind(run_pes, kind, 3, code)


@KINDS
def test_a_message_that_is_kept_wakes_its_receive(run_pes: Callable, kind: str) -> None:
    """Two of different tags wait; the message for the second comes, and the first one's behind it."""
    code = """
    for _ in range(20):
        a, b = torch.zeros(1), torch.zeros(1)
        if me == 0:
            first, second = dist.irecv(a, tag=1), dist.irecv(b, tag=2)
            second.wait()
            assert b == 2
            dist.send(b, 1)
            first.wait()
            assert a == 1
        else:
            dist.send(b + 2, 0, tag=2)
            dist.recv(b, 0)
            dist.send(a + 1, 0, tag=1)
    """
    check_kind(run_pes, kind, 2, code)


@KINDS
def test_messages_of_another_dtype_are_told(run_pes: Callable, kind: str) -> None:
    """Of as many bytes; by one that was read before its receive was called, too."""
    code = """
    if me == 0:
        for tag in (1, 2):
            dist.send(torch.ones(4), 1, tag=tag)
        dist.send(torch.ones(2, dtype=torch.complex64), 1)
    else:
        told = r"recv of int64.2. with tag 1 from rank 0 met a message of float32.4. with tag 1"
        assert dist.recv(torch.zeros(4), tag=2) == 0
        with pytest.raises(pyshmem.MismatchError, match=told):
            dist.recv(torch.zeros(2, dtype=torch.int64), 0, tag=1)
        box = torch.zeros(2, dtype=torch.complex64)
        dist.recv(box, 0)
        assert (box == 1).all()
    """
    check_kind(run_pes, kind, 2, code)


@KINDS
def test_it_ends_when_all_others_have_left(run_pes: Callable, kind: str) -> None:
    """What they sent before is received."""
    code = """
    group = dist.new_group()
    if me == 0:
        for _ in range(n - 1):
            x = torch.zeros(1)
            assert dist.recv(x, group=group) == int(x)
        with pytest.raises(pyshmem.MismatchError, match="all other ranks have left"):
            dist.recv(x, group=group)
    else:
        dist.send(torch.tensor([float(me)]), 0, group=group)
    dist.destroy_process_group(group)
    dist.destroy_process_group()
    print("ok", flush=True)
    """
    env = {**VARIABLES, "PYSHMEM_TORCH_GROUPS": kind}
    program = BEGIN + textwrap.dedent(code)
    done = run_pes(3, program, device="none", env=env, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == 3, done.stdout


@KINDS
def test_a_wait_for_nobody_ends_by_its_time(run_pes: Callable, kind: str) -> None:
    """A PE alone, whom no other keeps waiting."""
    code = """
    with pytest.raises(pyshmem.ShmemTimeout):
        dist.recv(torch.zeros(1), tag=4)
    """
    check(run_pes, 1, code, PYSHMEM_TORCH_GROUPS=kind, PYSHMEM_TIMEOUT="2")
