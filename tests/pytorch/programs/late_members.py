# SPDX-License-Identifier: BSD-3-Clause
"""Steps of experts that leave out members which are late; the program checks itself.

Arguments: ``alike``; ``held`` PLACE SECONDS [STEPS]; ``stopped`` or ``sleeps`` MEMBER STEPS SECONDS
[TOKENS]; ``several`` SECONDS; ``short``; on GPUs ``asleep`` STEPS SECONDS.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton

import pyshmem
import pyshmem.fused as fused
from pyshmem.fused.moe.masked import agreement_kernels, move_kernels
from pyshmem.triton.primitives.backend import now, yield_turn

K, LOCAL, MOST, HIDDEN = 2, 2, 3, 16
HERE = torch.device("cpu")
WRONG_TIMES = -1, 1e-5, 4000, float("inf"), float("nan")
Step = tuple[int, int]  # its number, 0 where the caller is alone; bits of who is in


def given(pe: int, call: int, n: int, hidden: int = HIDDEN) -> tuple[torch.Tensor, ...]:
    """A member's tokens in one of its calls, small integers that say whose and which they are."""
    draw = np.random.default_rng((pe, call))
    tokens = int(draw.integers(0, MOST + 1))
    x = np.tile(np.arange(hidden) % 4, (tokens, 1)) + 64 * pe + 8 * np.arange(tokens)[:, None]
    x[:, 0] = call
    ids = draw.integers(-1, LOCAL * n, (tokens, K))
    weights = draw.integers(1, 4, (tokens, K))
    return torch.from_numpy(x).float(), torch.from_numpy(ids), torch.from_numpy(weights).float()


def check_tokens(tokens: torch.Tensor, handle: Any, calls: list[int], mask: list[bool]) -> None:
    """What has come is a call of each member that takes part, whole; it was made after its last one."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(LOCAL)]
    first, came = LOCAL * me, set(handle.rows.tolist()[: int(handle.offsets[-1])])
    rows = tokens.cpu().view(n, MOST, HIDDEN)
    for pe in range(n):
        if not mask[pe]:
            continue
        there = sorted({row - pe * MOST for row in came if row // MOST == pe})
        if not there:
            continue
        call = int(rows[pe, there[0], 0])
        assert call == calls[me] if pe == me else call > calls[pe], (pe, call, calls)
        calls[pe] = call
        x, ids, _ = given(pe, call, n)
        here = ((ids >= first) & (ids < first + LOCAL)).any(1)
        assert here.nonzero().view(-1).tolist() == there, (pe, call, there)
        assert torch.equal(rows[pe, there], x[there]), (pe, call, rows[pe], x)
        for t, row in enumerate(ids.tolist()):
            for expert in row:
                if first <= expert < first + LOCAL:
                    found[expert - first].append((pe, t))
    assert all(mask[row // MOST] for row in came), (came, mask)
    counts = handle.counts.tolist()
    assert counts == [len(pairs) for pairs in found], (counts, found, mask)
    flat = [pe * MOST + t for pairs in found for pe, t in pairs]
    assert handle.rows.tolist()[: len(flat)] == flat


@triton.jit(do_not_specialize=["limit"])
def sleep(limit):  # type: ignore[no-untyped-def]
    """For ``limit`` nanoseconds."""
    start = now()
    while now() - start < limit:
        yield_turn()


def nothing() -> None:
    """Between a dispatch and its combine."""


def one_step(
    call: int, calls: list[int], timeout: float, between: Callable[[], None] = nothing
) -> Step:
    """A dispatch and its combine, both checked."""
    x, ids, weights = (one.to(HERE) for one in given(me, call, n))
    options = {"max_tokens": MOST, "timeout": timeout, "topk_weights": weights}
    tokens, handle = fused.expert_dispatch(x, ids, LOCAL * n, **options)
    between()
    came = handle.mask.tolist()
    calls[me] = call
    check_tokens(tokens, handle, calls, came)
    y = handle.by_expert(torch.nan_to_num(tokens))
    for e in range(LOCAL):
        lo, hi = handle.offsets.tolist()[e : e + 2]
        y[lo:hi] *= LOCAL * me + e + 1
    out = fused.expert_combine(y.contiguous(), handle)
    mask = handle.mask.tolist()
    assert mask[me]
    assert not any(late and not early for early, late in zip(came, mask, strict=True))
    wanted = torch.zeros_like(x)
    for j in range(K):
        there = (ids[:, j] >= 0) & handle.mask[ids[:, j].clamp(min=0) // LOCAL]
        factor = torch.where(there, weights[:, j] * (ids[:, j] + 1), 0.0)
        wanted += factor[:, None] * x
    assert torch.equal(out, wanted), (call, mask, out, wanted)
    number = int(handle.number)
    assert number or sum(mask) == 1
    return number, sum(1 << pe for pe, there in enumerate(mask) if there)


def compare(steps: list[Step]) -> list[int]:
    """Masks by number of step, 0 of none: all that take part in one have the same, and those alone."""
    most = 1 << 14
    mine, every = pyshmem.zeros(most, np.int64), pyshmem.zeros((n, most), np.int64)
    for number, mask in steps:
        mine[number] = mask if number else 0
    pyshmem.fcollect(every, mine)
    found = np.array(every)
    for number in range(1, most):
        seen = set(found[:, number].tolist()) - {0}
        inside = [pe for pe in range(n) if found[pe, number]]
        assert len(seen) <= 1, f"step {number}: masks {found[:, number]}"
        assert all(inside == [pe for pe in range(n) if mask >> pe & 1] for mask in seen), number
    return np.trim_zeros(found.max(axis=0), "b").tolist()


def together(steps: list[Step], least: int) -> bool:
    """Whether all have just done three steps with all; they know it behind the same one."""
    last = steps[-3:]
    first, full = last[0][0] if last else 0, (1 << n) - 1
    return first >= least and last == [(first + k, full) for k in range(3)]


def alike() -> None:
    """With all there, the bits of calls without timeout; all formats, dtypes and numbers of tokens."""
    for quantize, dtype in (
        (None, torch.float32), (None, torch.bfloat16), ("fp8", torch.bfloat16),
        ("mxfp8", torch.float32), ("nvfp4", torch.float16),
    ):  # fmt: skip
        for turn in range(2):
            draw = torch.Generator().manual_seed(10 * turn + me)
            x = torch.randn(4 * (me + turn != 1), 128, generator=draw).to(HERE, dtype)
            ids = torch.randint(-1, 3 * n, (len(x), 3), generator=draw).to(HERE)
            weights = torch.rand(len(x), 3, generator=draw).to(HERE, dtype)
            unit = torch.tensor([0.3], device=HERE) if quantize == "nvfp4" and turn else None
            options = {"quantize": quantize, "max_tokens": 5, "global_scale": unit}
            plain, other = fused.expert_dispatch(x, ids, 3 * n, **options)
            tokens, handle = fused.expert_dispatch(
                x, ids, 3 * n, timeout=50, topk_weights=weights, **options
            )
            assert handle.mask.all()
            pairs = int(other.offsets[-1])
            assert torch.equal(handle.offsets, other.offsets)
            assert torch.equal(handle.pairs, other.pairs)
            assert torch.equal(handle.rows, other.rows)
            wanted, got = other.by_expert(plain)[:pairs], handle.by_expert(tokens)[:pairs]
            assert torch.equal(got.float(), wanted.float()), (quantize, turn)
            y = torch.randn(handle.rows.shape[0], 72, generator=draw).to(HERE, dtype)
            into = torch.empty(len(x), 72, dtype=dtype, device=HERE)
            assert fused.expert_combine(y, handle, out=into) is into
            assert torch.equal(into, fused.expert_combine(y, other, weights)), (quantize, turn)
    seen = fused.expert_mask()
    assert (seen.mask.tolist(), seen.absences.tolist()) == ([True] * n, [0] * n)
    assert int(seen.steps) == 10


def refusals() -> None:
    x, ids, weights = (one.to(HERE) for one in given(0, 1, n))
    call, good = fused.expert_dispatch, {"max_tokens": MOST, "topk_weights": weights}
    for kind, message, options in (
        (ValueError, "needs topk_weights", {"max_tokens": 3, "timeout": 1}),
        (ValueError, "where there is a timeout", good),
        (ValueError, "timeout is 0 s", {**good, "timeout": 0}),
        (TypeError, "timeout is str", {**good, "timeout": "1"}),
        (TypeError, "timeout is bool", {**good, "timeout": True}),
        *((ValueError, "to 3600 s", {**good, "timeout": wrong}) for wrong in WRONG_TIMES),
        (ValueError, "needs decode mode", {**good, "timeout": 1, "mode": "throughput"}),
        (ValueError, "topk_weights has size", {**good, "timeout": 1, "topk_weights": weights[:1]}),
    ):
        with pytest.raises(kind, match=message):
            call(x, ids, LOCAL * n, **options)
    if n > 1:  # all are told, whatever PYSHMEM_CHECK says
        with pytest.raises(pyshmem.MismatchError, match=r"on PE 0 and timeout=2\.5 on PE 1"):
            call(x, ids, LOCAL * n, timeout=2.5 if me == 1 else np.float32(3), **good)
    with pytest.raises(TypeError, match="team is None, as a split returns"):
        fused.expert_mask(team=None)
    with pytest.raises(RuntimeError, match="no derivative"):
        call(x.clone().requires_grad_(), ids, LOCAL * n, timeout=1, **good)
    _, handle = call(x, ids, LOCAL * n, timeout=50, **good)
    y = torch.zeros(handle.rows.shape[0], HIDDEN, device=HERE)
    with pytest.raises(ValueError, match="leave them out here"):
        fused.expert_combine(y, handle, weights)
    with pytest.raises(ValueError, match="y has"):
        fused.expert_combine(y[1:], handle)
    fused.expert_combine(y, handle)
    with pytest.raises(RuntimeError, match="another "):
        fused.expert_combine(y, handle)
    one = {"max_tokens": MOST, "timeout": 50, "topk_weights": weights[:, :1].contiguous()}
    tokens, handle = call(x, ids[:, :1].contiguous(), LOCAL * n, **one)
    with pytest.raises(ValueError, match="y is the tokens as they came"):
        fused.expert_combine(tokens, handle)
    fused.expert_combine(handle.by_expert(tokens), handle)
    _, plain = call(x, ids, LOCAL * n, max_tokens=MOST)
    with pytest.raises(ValueError, match="topk_weights is None"):
        fused.expert_combine(y, plain)


class Gate:
    """Before one launch of a kernel, the caller waits until it is let go."""

    def __init__(self, owner: Any, name: str, skip: int) -> None:
        self.kernel, self.skip, self.launches = getattr(owner, name), skip, 0
        setattr(owner, name, self)

    def __getitem__(self, grid: Any) -> Callable:
        def launch(*arguments: Any, **named: Any) -> Any:
            self.launches += 1
            if self.launches == self.skip:
                while not flags[0]:
                    time.sleep(1e-3)
            return self.kernel[grid](*arguments, **named)

        return launch


#: Where a member is held: the kernel that it does not begin in time, and in which of its launches.
PLACES = {
    "begins": (agreement_kernels, "begin_step", 4),
    "sends": (move_kernels, "send_tokens", 4),
    "commits": (agreement_kernels, "end_operation", 7),
    "takes": (move_kernels, "take_tokens", 4),
    "answers": (move_kernels, "send_sums", 4),
    "commits sums": (agreement_kernels, "end_operation", 8),
    "adds": (move_kernels, "add_sums", 4),
}


def held(place: str, timeout: float, least: int = 8) -> None:
    """A member that is late in one place: the others go on, and it is back once it is let go.

    Of many steps it is one in the first third.
    """
    late, steps, calls, absent = 1 % n, [], [0] * n, 0
    if me == late:
        owner, name, launch = PLACES[place]
        a_step = 2 if name == "end_operation" else 1
        Gate(owner, name, launch + a_step * (least // 3 - 2))
    while not together(steps, least):
        steps.append(one_step(len(steps) + 1, calls, timeout))
        number, mask = steps[-1]
        absent += me != late and (number == 0 or not mask >> late & 1)
        if absent == 3:
            pyshmem.p(flags, 1, late)
    masks = compare(steps)
    told = [number for number, mask in enumerate(masks) if mask and not mask >> late & 1]
    assert len(told) >= 3, masks[:40]
    seen = fused.expert_mask()
    assert seen.mask.all()
    assert int(seen.steps) == len(steps)
    missing = [sum(not mask >> pe & 1 for _, mask in steps) for pe in range(n)]
    assert seen.absences.tolist() == missing


def stopped(late: int, least: int, timeout: float) -> None:
    """A process that is stopped at any time, and goes on once others have done 3 steps without it."""
    pids, mine = pyshmem.zeros(n, np.int64), pyshmem.array(np.array([os.getpid()]))
    pyshmem.fcollect(pids, mine)
    steps: list[Step] = []
    calls, absent = [0] * n, 0
    controls, pid = me == (late + 1) % n, int(pids[late])
    try:
        while not together(steps, least):
            if controls and len(steps) == least // 3:
                os.kill(pid, signal.SIGSTOP)
            steps.append(one_step(len(steps) + 1, calls, timeout))
            number, mask = steps[-1]
            absent += number == 0 or not mask >> late & 1
            if controls and absent == 3:
                os.kill(pid, signal.SIGCONT)
    finally:
        if controls:
            os.kill(pid, signal.SIGCONT)
    masks = compare(steps)
    absent = sum(mask > 0 and not mask >> late & 1 for mask in masks)
    assert absent >= 3, masks
    print(f"PE {me}: {len(steps)} steps; in {absent} the stopped one was absent")


def sleeps(late: int, least: int, timeout: float) -> None:
    """A member whose kernel sleeps for four time-outs in the middle of a step, twice: it is back."""
    steps: list[Step] = []
    calls, turns = [0] * n, {least // 3, 2 * least // 3}
    while not together(steps, least):
        between = nothing
        if me == late and len(steps) in turns:

            def between() -> None:
                sleep[(1,)](int(4e9 * timeout))

        steps.append(one_step(len(steps) + 1, calls, timeout, between))
    masks = compare(steps)
    absent = [number for number, mask in enumerate(masks) if mask and not mask >> late & 1]
    assert len(absent) >= 2, masks
    assert (1 << n) - 1 in masks[absent[0] + 1 : absent[-1]], "back between its two sleeps"
    print(f"PE {me}: {len(steps)} steps; in {len(absent)} the late one was absent")


def until_let_go() -> None:
    """The host of a late member waits until another one has seen enough steps without it."""
    while not flags[0]:
        time.sleep(1e-3)


def stop() -> None:
    """The process is stopped, until another one lets it go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def in_plan(
    plan: dict[int, str], steps: list[Step], calls: list[int], timeout: float, pids: list[int]
) -> None:
    """Steps in which some members are late, until each has been missed thrice and all are back.

    The first of the others lets them go by what steps it has seen, however long these took.
    """
    place, controls = plan.get(me), min(pe for pe in range(n) if pe not in plan)
    missed = dict.fromkeys(plan, 0)
    between = {"between": until_let_go, "stopped": stop}.get(place or "", nothing)
    if place == "before":
        until_let_go()
    mine: list[Step] = []
    while not together(mine, 0):
        mine.append(one_step(len(steps) + len(mine) + 1, calls, timeout, between))
        between = nothing
        for pe in missed:
            missed[pe] += not mine[-1][1] >> pe & 1
        if me == controls and plan and min(missed.values()) >= 3:
            for pe, how in plan.items():
                pyshmem.p(flags, 1, pe)
                if how == "stopped":  # in each step from now on: it may not have stopped so far
                    os.kill(pids[pe], signal.SIGCONT)
    assert me != controls or min(missed.values(), default=3) >= 3, missed
    steps += mine


def several(timeout: float) -> None:
    """Two are late at once, one of them again once it is back, then all but one; nobody's host waits."""
    first, second, last = 1 % n, 2 % n, n - 1
    plans: list[dict[int, str]] = [
        {},  # memory grows, with all there
        {first: "before", second: "between"},
        {first: "stopped"},
        {pe: "before" for pe in range(n) if pe != last},
    ]
    pids, mine = pyshmem.zeros(n, np.int64), pyshmem.array(np.array([os.getpid()]))
    pyshmem.fcollect(pids, mine)
    steps: list[Step] = []
    calls = [0] * n
    for plan in plans:
        in_plan(plan, steps, calls, timeout, pids.tolist())
        pyshmem.barrier_all()  # all have seen the last three
        flags[0] = 0
        pyshmem.barrier_all()
    compare(steps)
    seen = fused.expert_mask()
    assert seen.mask.all()
    assert int(seen.steps) == len(steps)
    assert seen.absences.tolist() == [
        sum(not mask >> pe & 1 for _, mask in steps) for pe in range(n)
    ]


def short() -> None:
    """A time-out that no step meets: members are left out all the time, and agree on whom."""
    steps: list[Step] = []
    calls = [0] * n
    for call in range(1, 9):
        steps.append(one_step(call, calls, 1e-4))
    compare(steps)
    pyshmem.barrier_all()
    later: list[Step] = []  # apart: who missed some has taken part in others last
    while not together(later, 0):
        later.append(one_step(len(steps) + len(later) + 1, calls, 30))
    compare(steps + later)


def asleep(least: int, timeout: float) -> None:
    """On GPUs: a step in a CUDA graph, with no host between replays; one member sleeps in a kernel."""
    late, here = 1 % n, {"dtype": torch.int64, "device": HERE}
    x, ids, weights = (one.to(HERE) for one in given(me, 3, n, 256))
    place, log = torch.zeros(1, **here), torch.zeros(8 * least, 2, **here)
    bits = 1 << torch.arange(n, device=HERE)
    options = {"max_tokens": MOST, "timeout": timeout, "topk_weights": weights}

    def step() -> None:
        tokens, handle = fused.expert_dispatch(x, ids, LOCAL * n, **options)
        fused.expert_combine(handle.by_expert(tokens), handle)
        said = torch.stack([handle.number[0], (handle.mask * bits).sum()])
        log.index_copy_(0, place, said[None])
        place.add_(1)
        torch.cuda._sleep(400_000)  # some 0.2 ms

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    pyshmem.barrier_all()
    with torch.cuda.stream(stream):
        for replay in range(4 * least):
            if me == late and replay == least // 3:
                torch.cuda._sleep(int(8e9 * timeout))  # some four time-outs
            if replay >= least or (me == late and replay > least // 3):
                stream.synchronize()
                if (
                    log[: int(place), 0].max() >= least
                    or not log[int(place) - 3 : int(place), 0].any()
                ):
                    break
            graph.replay()
    stream.synchronize()
    steps = [tuple(row) for row in log[: int(place)].tolist()]
    masks = compare(steps)
    absent = [number for number, mask in enumerate(masks) if mask and not mask >> late & 1]
    assert absent, "left out"
    assert (1 << n) - 1 in masks[absent[0] + 1 :], "back again"
    print(f"PE {me}: {len(steps)} steps, without the late one {len(absent)}, from {absent[0]} on")


torch.set_num_threads(1)
with pyshmem.init() as job:
    me, n = job.my_pe, job.n_pes
    if job.device == "cuda":
        HERE = torch.device("cuda", job.gpu)
        torch.cuda.set_device(HERE)
    flags = pyshmem.zeros(1, np.int64)
    part, *options = sys.argv[1:]
    if part == "alike":
        alike()
        refusals()
    elif part == "held":
        held(options[0], float(options[1]), *map(int, options[2:]))
    elif part == "several":
        several(float(options[0]))
    elif part == "short":
        short()
    elif part == "asleep":
        asleep(int(options[0]), float(options[1]))
    else:
        if len(options) == 4:
            MOST = int(options[3])
        {"stopped": stopped, "sleeps": sleeps}[part](
            int(options[0]), int(options[1]), float(options[2])
        )
print("ok", flush=True)
