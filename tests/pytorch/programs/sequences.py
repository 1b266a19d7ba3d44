# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products in random sequences, which share links, slots and words: ``sequences.py SEED CALLS``.

Elements are small integers, so results are exact by every algorithm and in every dtype. PEs are late by
a few milliseconds now and then, with calls and with copies and words within, and members make wrong
calls alone. Four PEs are two pairs, each of which makes calls of its own when the workspaces have grown.
"""

from __future__ import annotations

import random
import sys
import time

import pytest
import torch

import pyshmem
import pyshmem.fused as fused
import pyshmem.interop.torch as tensors
from pyshmem.fused._shared import copy_engine as links

FP8 = torch.float8_e4m3fn
DTYPES = (torch.float32, torch.bfloat16, torch.float16, FP8)
OPERATIONS = ("all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce", "groups")
ALGORITHMS = ("copy_engine", "copy_engine", "copy_engine", "unfused", None, "persistent")
MOST = 96 * 48 * 4  # bytes of a result


def given(seed: int, *size: int, dtype: torch.dtype) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, size, generator=source).to(dtype)


def late(part: float, own: random.Random) -> None:
    if own.random() < part:
        time.sleep(own.random() * 4e-3)


def sometimes_late(function, own: random.Random):
    """What copies, or sets a word, but later."""

    def call(*arguments) -> None:
        late(0.1, own)
        function(*arguments)

    return call


class Calls:
    """The calls of a team's members."""

    def __init__(self, team: pyshmem.Team, room: torch.Tensor) -> None:
        self.team, self.me, self.n, self.room = team, team.my_pe(), team.n_pes(), room

    def one(self, seed: int) -> None:
        """The call of this seed, the same on all members but for what they give."""
        chosen, own = random.Random(seed), random.Random()
        if chosen.random() < 0.2 and own.random() < 0.3:
            self.wrong()
        late(0.2, own)
        operation = chosen.choice(OPERATIONS)
        if operation == "groups":
            self.groups(chosen, seed)
        else:
            self.product(operation, chosen, seed)

    def wrong(self) -> None:
        with pytest.raises(ValueError, match="out has size"):
            fused.matmul_all_reduce(
                torch.ones(32, 8), torch.ones(8, 16), out=torch.ones(1, 1), team=self.team
            )

    def place(self, chosen: random.Random, rows: int, columns: int, dtype: torch.dtype):
        """Where a result goes: a new tensor, one of the caller's, one on the device heap."""
        kind = chosen.randrange(3)
        if kind == 0:
            return None
        flat = self.room if kind == 1 else torch.empty(MOST, dtype=torch.uint8)
        place = flat[: rows * columns * dtype.itemsize].view(dtype).view(rows, columns)
        return place.fill_(torch.nan)

    def product(self, operation: str, chosen: random.Random, seed: int) -> None:
        gathers, dtype = operation == "all_gather_matmul", chosen.choice(DTYPES)
        algorithm, inner, columns = chosen.choice(ALGORITHMS), 16, chosen.choice((5, 16, 48))
        rows = fused.share_of_rows(chosen.choice((1, 7, 32, 96)), self.n)
        if algorithm != "persistent" and chosen.random() < 0.4:
            rows = tuple(chosen.choice((0, 1, 9, 24, 31)) for _ in range(self.n))
        result = chosen.choice(DTYPES[:3]) if dtype == FP8 else dtype
        bias = given(seed, columns, dtype=result) if chosen.random() < 0.5 else None
        heights = rows if gathers else (sum(rows),) * self.n
        xs = [given(seed + p, heights[p], inner, dtype=dtype) for p in range(self.n)]
        ws = [given(seed + 20 + p, columns, inner, dtype=dtype).t() for p in range(self.n)]
        if gathers:
            exact = torch.cat(xs).double() @ ws[self.me].double()
        else:
            exact = sum(x.double() @ w.double() for x, w in zip(xs, ws, strict=True))
        exact = torch.relu(exact if bias is None else exact + bias.double())
        if operation == "matmul_reduce_scatter":
            exact = exact.split(rows)[self.me]
        options = {"scale_x": 1.0, "scale_w": 1.0, "out_dtype": result} if dtype == FP8 else {}
        got = getattr(fused, operation)(
            xs[self.me], ws[self.me], bias=bias, activation="relu", rows=rows, team=self.team,
            out=self.place(chosen, *exact.shape, result), algorithm=algorithm, **options,
        )  # fmt: skip
        assert torch.equal(got.double(), exact), (operation, algorithm, dtype, rows, columns)
        got.fill_(torch.nan)  # nobody else writes there now, or reads

    def groups(self, chosen: random.Random, seed: int) -> None:
        rows = [chosen.choice((0, 3, 8)) for _ in range(self.n)]
        x, ids = given(seed + self.me, rows[self.me], 16, dtype=torch.float32), []
        for p in range(self.n):
            source = torch.Generator().manual_seed(seed + p)
            ids.append(torch.randint(0, 3, (rows[p], 1), generator=source))
        ws = given(seed + 20, self.n, 3, 16, 8, dtype=torch.float32)
        down = given(seed + 21, self.n, 3, 8, 4, dtype=torch.float32)
        hidden, routing = fused.all_gather_group_matmul(
            x, ws[self.me], ids[self.me], rows=rows, team=self.team, algorithm="copy_engine"
        )
        weights = torch.ones(rows[self.me], 1)
        got = fused.group_matmul_reduce_scatter(
            hidden, down[self.me], routing, weights, algorithm="copy_engine"
        )
        expert = ids[self.me][:, 0]
        exact = sum(
            torch.einsum("tk,tkn->tn", torch.einsum("tk,tkn->tn", x, w[expert]), d[expert])
            for w, d in zip(ws, down, strict=True)
        )
        assert torch.equal(got, exact), rows


def main() -> None:
    torch.set_num_threads(1)
    for name in ("_put", "_get", "set_word"):
        setattr(links, name, sometimes_late(getattr(links, name), random.Random()))
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    with pyshmem.init() as job:
        me, n, team, stride = job.my_pe, job.n_pes, pyshmem.TEAM_WORLD, 1
        if n == 4:
            team, stride = [team.split_strided(first, 2, 2) for first in range(2)][me % 2], 2
        room = tensors.empty(MOST, dtype=torch.uint8, heap="device")
        calls, chosen = Calls(team, room), random.Random(seed)
        seeds = [chosen.randrange(1 << 30) for _ in range(count)]
        for one in seeds:
            calls.one(one)
        if stride == 2:
            chosen = random.Random(seed + 1 + me % 2)
            for _ in range(count):
                calls.one(chosen.choice(seeds))
    print("ok", flush=True)


if __name__ == "__main__":
    main()
