# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed: what the others see when a member has left its group. No call gives a number."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="make test-torch installs it")

from torch_cases import BEGIN, VARIABLES

#: Every call that needs the other members; ``x`` has few elements, ``many`` more than the staging.
CALLS = {
    "all_reduce": "dist.all_reduce(x, group=group)",
    "all_reduce, many": "dist.all_reduce(many, group=group)",
    "all_reduce, async": "dist.all_reduce(x, group=group, async_op=True).wait()",
    "all_reduce, future": "dist.all_reduce(x, group=group, async_op=True).get_future().wait()",
    "coalesced": "symmetric_coalesced(x, group)",
    "reduce": "dist.reduce(x, 1, group=group)",
    "broadcast": "dist.broadcast(x, 0, group=group)",
    "broadcast, many": "dist.broadcast(many, 0, group=group)",
    "broadcast, own": "dist.broadcast(x, 1, group=group)",
    "all_gather": "dist.all_gather([torch.zeros(4) for _ in range(n)], x, group=group)",
    "all_gather, one": "dist.all_gather_into_tensor(torch.zeros(4 * n), x, group=group)",
    "reduce_scatter": "dist.reduce_scatter(x, [torch.ones(4) for _ in range(n)], group=group)",
    "reduce_scatter, one": "dist.reduce_scatter_tensor(x, torch.ones(4 * n), group=group)",
    "all_to_all": "dist.all_to_all(list(torch.zeros(n, 4)), [x] * n, group=group)",
    "all_to_all, one": "dist.all_to_all_single(torch.zeros(4 * n), torch.ones(4 * n), group=group)",
    "gather": "dist.gather(x, [torch.zeros(4) for _ in range(n)] if me == 1 else None, 1, group=group)",
    "scatter": "dist.scatter(x, [torch.ones(4) for _ in range(n)] if me == 1 else None, 1, group=group)",
    "barrier": "dist.barrier(group)",
    "send": "dist.send(x, 0, group=group)",
    "send, many": "dist.send(many, 0, group=group)",
    "recv": "dist.recv(x, 0, group=group)",
    "isend": "dist.isend(x, 0, group=group).wait()",
    "irecv": "dist.irecv(x, 0, group=group).wait()",
    "batch": "[w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, 0, group)])]",
    "objects": "dist.all_gather_object([None] * n, {1: 2}, group=group)",
    "object list": "dist.broadcast_object_list([None], 0, group=group)",
    "gathered objects": "dist.gather_object(5, [None] * n if me == 1 else None, 1, group=group)",
    "sent objects": "dist.recv_object_list([None], 0, group=group)",
}  # fmt: skip

FEWER = {
    name: CALLS[name]
    for name in (
        "all_reduce",
        "reduce",
        "all_gather",
        "broadcast",
        "barrier",
        "send",
        "recv",
        "objects",
    )
}
#: Rank 0 leaves each group, at times before the others call and at times while they wait.
PROGRAM = """
import time
CALLS = {calls!r}

def symmetric_coalesced(x, group):
    with dist._coalescing_manager(group):
        dist.all_reduce(x, group=group)
        dist.all_reduce(x, group=group)

many = torch.ones(1 << 20)
for number, (name, call) in enumerate(CALLS.items()):
    group = dist.new_group()
    x = torch.ones(4)
    dist.all_reduce(x, group=group)
    x.fill_(1)
    dist.barrier()
    late = number % 2 and "send" not in name  # a message is on its way before it is received
    if me == 0:
        time.sleep(0.1 * late)
        {leave}(group)
    else:
        time.sleep(0.1 * (1 - late))
        for again in range(2):
            with pytest.raises(pyshmem.MismatchError, match="has left the (team|process group)"):
                eval(call)
                print("no error:", name, flush=True)
            assert x.tolist() == [1.0] * 4, (name, x)
        dist.destroy_process_group(group)
    dist.barrier()
dist.destroy_process_group()
print("ok", flush=True)
"""


def test_calls_of_a_group_that_a_member_has_aborted_raise(run_pes: Callable) -> None:
    """It waits for nobody. What the group had goes back with the job, so there are fewer of them."""
    program = BEGIN + PROGRAM.format(
        calls=FEWER, leave="dist.distributed_c10d._abort_process_group"
    )
    done = run_pes(2, program, device="none", env=VARIABLES, timeout=200, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout
    assert "no error" not in done.stdout


@pytest.mark.parametrize("groups", ["native", "python"])
def test_who_hears_nothing_of_who_refuses_a_call_raises_too(groups: str, run_pes: Callable) -> None:
    """The root of a broadcast refuses it, and the third is not told."""
    calls = {name: call for name, call in CALLS.items() if "object" not in name}
    program = PROGRAM.format(calls=calls, leave="dist.distributed_c10d._abort_process_group")
    program = BEGIN + program.replace("late = number % 2", "late = False")
    settings = {**VARIABLES, "PYSHMEM_CHECK_FIRST": "0", "PYSHMEM_TORCH_GROUPS": groups}
    done = run_pes(3, program, device="none", env=settings, timeout=200, check=True)
    assert done.stdout.splitlines().count("ok") == 3, done.stdout
    assert "no error" not in done.stdout


@pytest.mark.parametrize("n", [2, 3])
def test_calls_of_a_group_that_a_member_has_left_raise(n: int, run_pes: Callable) -> None:
    program = BEGIN + PROGRAM.format(calls=CALLS, leave="dist.destroy_process_group")
    done = run_pes(n, program, device="none", env=VARIABLES, timeout=200, check=True)
    assert done.stdout.splitlines().count("ok") == n, done.stdout
    assert "no error" not in done.stdout


def test_what_was_sent_before_a_member_left_is_received(run_pes: Callable) -> None:
    code = """
    group = dist.new_group()
    if me == 0:
        for i in range(2):
            dist.send(torch.full((3,), float(i)), 1, group=group)
        dist.destroy_process_group(group)
    else:
        import time
        time.sleep(0.3)
        for i in range(2):
            x = torch.zeros(3)
            dist.recv(x, 0, group=group)
            assert x.tolist() == [i] * 3
        with pytest.raises(pyshmem.MismatchError, match="recv from rank 0: rank 0 has left"):
            dist.recv(x, 0, group=group)
        dist.destroy_process_group(group)
    dist.destroy_process_group()
    print("ok", flush=True)
    """
    program = BEGIN + textwrap.dedent(code)
    done = run_pes(2, program, device="none", env=VARIABLES, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


def test_a_rank_that_fails_ends_the_others_collectives(run_pes: Callable) -> None:
    """As most programs have it: the group is destroyed in a ``finally`` clause."""
    code = """
    try:
        dist.all_reduce(torch.ones(4))
        if me == 0:
            raise RuntimeError("the program's own failure")
        for again in range(3):
            with pytest.raises(pyshmem.MismatchError, match="all_reduce: rank 0 has left the process"):
                dist.all_reduce(torch.ones(4))
    except RuntimeError as error:
        assert str(error) == "the program's own failure"
    finally:
        dist.destroy_process_group()
    print("ok", flush=True)
    """
    program = BEGIN + textwrap.dedent(code)
    done = run_pes(3, program, device="none", env=VARIABLES, timeout=100, check=True)
    assert done.stdout.splitlines().count("ok") == 3, done.stdout


INTERRUPTED = """
import dis, sys, pyshmem
import torch.distributed as dist
from pyshmem.host.job import runtime
from pyshmem.interop.torch import start
LOOKS = {dis.opmap[name] for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")}
made = []
dist.init_process_group = lambda *given, **named: made.append(runtime.init())  # a group counts one

class Interrupt:
    def __init__(self, n): self.left = n
    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename != start.__file__: return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = None
        def local(frame, event, arg):
            nonlocal last
            if event == "opcode":
                looks, last = last in LOOKS, frame.f_code.co_code[frame.f_lasti]
                self.left -= looks
                if looks and self.left == 0: raise KeyboardInterrupt
            return local
        return local

with pyshmem.init(heap_size="8M"):
    n, ended = 1, False
    while not ended:
        interrupt, before = Interrupt(n), runtime.inits()
        sys.settrace(interrupt)
        try:
            start.init_process_group()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        ended = interrupt.left > 0
        n += 1
        assert runtime.inits() - before == len(made), n
        while made:
            made.pop().finalize()
    print(n)
"""


def test_an_interrupted_start_of_a_group_leaves_no_init(run_pes: Callable) -> None:
    """Wherever Python looks for signals; a group that was made counts one of its own."""
    done = run_pes(1, INTERRUPTED, device="none", timeout=100, check=True)
    assert int(done.stdout) > 10


@pytest.mark.parametrize("queues", ["python", "cpp"])
@pytest.mark.parametrize("n_before", [0, 40])  # compared by the members, and no more
def test_gradients_of_more_batches_are_told_by_what_the_program_gave(
    run_pes: Callable, queues: str, n_before: int
) -> None:
    code = f"""
    for again in range({n_before}):
        dist.all_reduce(torch.ones(4))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for batch in range(2):
        model(torch.ones(4)).sum().backward()
    if me:
        with pytest.raises((pyshmem.MismatchError, RuntimeError)) as told:
            model(torch.ones(4)).sum().backward()
        words = str(told.value)
        assert "all_reduce: rank 0 has left the process group" in words, words
        assert "give all ranks as many batches" in words and "model.join()" in words, words
        assert "notes" not in words and "fcollect" not in words, words
        assert "At:" not in words or {queues == "python"}, words  # pybind's, of callbacks
    dist.destroy_process_group()
    print("ok", flush=True)
    """
    program = BEGIN + textwrap.dedent(code)
    env = VARIABLES | ({"PYSHMEM_TORCH_GROUPS": "python"} if queues == "python" else {})
    done = run_pes(2, program, device="none", env=env, timeout=200, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout


#: Calls that nobody answers, by what their waits are told as; rank 0 makes others.
UNANSWERED = {
    "recv from rank 0 (tag 7)": "dist.irecv(x, 0, tag=7, group=group).wait()",
    "recv from any rank (tag 0)": "dist.recv(x, group=group)",
    "send to rank 0 (tag 0)": "dist.send(torch.ones(1 << 25), 0, group=group)",
    "all_reduce": "dist.all_reduce(x, group=group)",
    "barrier": "dist.barrier(group)",
}


@pytest.mark.parametrize("queues", ["python", "cpp"])
def test_waits_are_told_as_the_calls_of_the_program(run_pes: Callable, queues: str) -> None:
    code = f"""
    import os
    to_1 = "dist.send(torch.ones(1 << 25), 1, group=group)"
    FIRST = {{"send to rank 0 (tag 0)": ("send to rank 1 (tag 0)", to_1)}}
    x = torch.zeros(4)
    for told, call in {UNANSWERED!r}.items():
        group = dist.new_group()
        if me == 0:
            call = "dist.recv(x, 1, tag=3, group=group)"
            told, call = FIRST.get(told, ("recv from rank 1 (tag 3)", call))
        with pytest.raises(pyshmem.ShmemTimeout) as error:
            exec(call)
        assert str(error.value).startswith(f"torch's {{told}} took longer than"), error.value
    print("ok", flush=True)
    os._exit(0)  # groups that waits have been ended in are not left
    """
    env = VARIABLES | {"PYSHMEM_TIMEOUT": "2"}
    env |= {"PYSHMEM_TORCH_GROUPS": "python"} if queues == "python" else {}
    program = BEGIN + textwrap.dedent(code)
    done = run_pes(2, program, device="none", env=env, timeout=200, check=True)
    assert done.stdout.splitlines().count("ok") == 2, done.stdout + done.stderr
