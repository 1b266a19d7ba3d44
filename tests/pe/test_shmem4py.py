# SPDX-License-Identifier: BSD-3-Clause
"""A program in shmem4py's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

WAYS = [
    "from pyshmem.interop import shmem4py as shmem",
    "from pyshmem.interop.shmem4py import shmem",
]
PROGRAM = """
import numpy as np

me, n = shmem.my_pe(), shmem.n_pes()
right = (me + 1) % n
box = shmem.full(4, -1, dtype='i4')
shmem.barrier_all()
shmem.put(box, np.full(2, me, dtype='i4'), right, size=2, ctx=shmem.CTX_DEFAULT)
shmem.barrier_all()
assert box.tolist() == [(me - 1) % n] * 2 + [-1, -1]
shmem.barrier_all()
shmem.iput(box, np.arange(4, dtype='i4'), right, 2)
shmem.barrier_all()
assert box[::2].tolist() == [0, 1]

signal, data = shmem.new_signal(), shmem.zeros(1)
shmem.put_signal(data, np.array([me + 0.5]), right, signal, 3, shmem.SIGNAL_SET)
assert shmem.signal_wait_until(signal, ">=", 3) == 3
assert data[0] == (me - 1) % n + 0.5

counter = shmem.array([0], dtype='i8')
shmem.atomic_op(counter, 1, shmem.AMO_INC, 0)
shmem.atomic_fetch_op(counter, 2, "add", 0)
shmem.barrier_all()
assert shmem.atomic_fetch(counter, 0) == 3 * n
shmem.barrier_all()

mine, before = shmem.array([6], dtype='i8'), np.zeros(1, 'i8')
for op, now in (("set", 5), ("INC", 6), ("add", 11), ("and", 1), ("or", 5), (shmem.AMO_XOR, 0)):
    was = mine[0]
    assert shmem.atomic_fetch_op(mine, 5, op, me) == was and mine[0] == now
    mine[0] = was
    shmem.atomic_op(mine, 5, op, me)
    assert mine[0] == now
    mine[0] = was
    shmem.atomic_fetch_op_nbi(before, mine, 5, op, me)
    shmem.quiet()
    assert before[0] == was and mine[0] == now
for call, rest in ((shmem.atomic_op, (1, "inc_nbi", me)), (shmem.reduce, (mine, "bor"))):
    try:
        call(mine, *rest)
    except ValueError as error:
        assert "is not a valid" in str(error)
    else:
        raise AssertionError(call)
total = shmem.zeros(1, dtype='i8')
shmem.reduce(total, shmem.array([me], dtype='i8'), shmem.OP_MAX)
assert total[0] == n - 1

lock = shmem.Lock()
with lock:
    pass
while not lock.acquire(blocking=False):
    pass
lock.release()
shmem.barrier_all()
try:
    shmem.put(box, box, right, 2, None, 7)
except TypeError as error:
    assert "5 arguments" in str(error)

other = shmem.Team(shmem.TEAM_WORLD)
assert other == shmem.TEAM_WORLD
assert other is not shmem.TEAM_WORLD
other.destroy()
assert not other and shmem.TEAM_WORLD and other == shmem.TEAM_INVALID
try:
    other.my_pe()
except RuntimeError as error:
    assert "invalid" in str(error)
else:
    raise AssertionError
whole = shmem.TEAM_WORLD.split_strided(num_contexts=2)
assert (whole.n_pes(), whole.translate_pe(), whole.get_config()) == (n, me, {"num_contexts": 2})
shmem.reduce(total, shmem.array([1], dtype='i8'), team=whole)
assert total[0] == n
with shmem.Ctx.create(shmem.CTX_SERIALIZED, whole) as ctx:
    shmem.put(box, np.full(1, 7, dtype='i4'), right, size=1, ctx=ctx)
    ctx.quiet()
    assert ctx.get_team() == whole
assert ctx == shmem.CTX_INVALID
shmem.sync(whole)
assert box[0] == 7
first = shmem.TEAM_WORLD.split_strided(0, 1, 1)
assert bool(first) == (me == 0)
whole.destroy()
print("ok", flush=True)
"""


MEMORY = """
me, n = shmem.my_pe(), shmem.n_pes()
right, left = (me + 1) % n, (me - 1) % n


def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{call} was not refused")


for make in (shmem.zeros, shmem.empty, shmem.ones, shmem.new_array):
    made = make((2, 3), "i4", "F")
    assert made.flags.f_contiguous and not made.flags.c_contiguous
    shmem.free(made)
    refused(KeyError, shmem.free, made)
grid = shmem.array(np.arange(6).reshape(2, 3) + 10 * me, order="F")
other = shmem.array(np.asfortranarray(np.ones((2, 3), int)))
assert grid.strides == other.strides == (8, 16)
shmem.barrier_all()
shmem.put(other, grid, right)
shmem.barrier_all()
assert (other == np.arange(6).reshape(2, 3) + 10 * left).all()
local = np.zeros((2, 3), int, order="F")
shmem.get(local, grid, right)
assert (local == np.arange(6).reshape(2, 3) + 10 * right).all()
shmem.barrier_all()
shmem.put_nbi(other, local, right)
shmem.quiet()
shmem.barrier_all()
assert (other == np.arange(6).reshape(2, 3) + 10 * me).all()
shmem.sum_reduce(other, grid)
assert other[1, 2] == 5 * n + 5 * n * (n - 1)
there = shmem.ptr(grid, right)
assert there.strides == grid.strides and there[0, 1] == 1 + 10 * right
assert shmem.addr_accessible(addr=grid, pe=right)
refused(ValueError, shmem.put, other[:, ::2], local[:, ::2], right)
refused(ValueError, shmem.free, grid[:, :2])
shmem.barrier_all()

# Without size, what both hold.
short = shmem.array([-1, -1])
shmem.put(short, np.arange(5) + me, right)
shmem.barrier_all()
assert short.tolist() == [left, left + 1]
shmem.broadcast(short, shmem.array(np.arange(5) + me), 0)
assert short.tolist() == [0, 1]
shmem.alltoall(shmem.zeros(n, int), shmem.zeros(2 * n, int))
shmem.reduce(short, short, "MAX")
shmem.barrier_all()
shmem.atomic_op(short[:1], 1, shmem.AMO.INC, right)
shmem.barrier_all()
assert shmem.test(short[:1], "EQ", 1)

for count in (0, 3):
    mem = shmem.alloc(count, 8, align=128, clear=True)
    assert isinstance(mem, memoryview) and mem.nbytes == 8 * count and not any(mem)
    shmem.barrier_all()
    array = shmem.fromalloc(mem[8:], dtype="i8") if count else shmem.fromalloc(mem)
    assert array.shape == (max(count - 1, 0),)
    if count:
        shmem.put(array, np.full(2, me), right)
        shmem.barrier_all()
        assert np.frombuffer(mem, int).tolist() == [0, left, left]
        refused(ValueError, shmem.free, array)
    shmem.free(mem)
    refused(KeyError, shmem.free, mem)
refused(TypeError, shmem.fromalloc, bytearray(8))
cell = shmem.full((), 7)
pointer, size, typename = shmem._getbuffer(grid)
assert (size, typename, pointer[1]) == (6, "long", grid[1, 0])
assert shmem._getbuffer(np.zeros((), "f4"))[2] == "float"
refused(TypeError, shmem._getbuffer, [1])
lock = shmem.Lock()
lock.acquire()
lock.release()
lock.destroy()
lock.destroy()
print("ok", flush=True)
"""


@pytest.mark.parametrize("way", WAYS, ids=["package", "module"])
def test_a_program_for_shmem4py_runs(way: str, n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, f"{way}\n{PROGRAM}", check=True)
    assert done.stdout.count("ok") == n_pes


def test_memory_and_arrays_in_either_order(n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, f"{WAYS[1]}\nimport numpy as np\n{MEMORY}", check=True)
    assert done.stdout.count("ok") == n_pes


DIFFERING = """
me = shmem.my_pe()
for said, call in (
    ("int32 in order C, PE 1 for shape (2, 3) float32", lambda: shmem.zeros((2, 3), "if"[me])),
    ("shape (2, 3) int8 in order C, PE 1 for shape (3, 2)", lambda: shmem.empty((2 + me, 3 - me), "b")),
    ("in order C, PE 1 for shape (2, 3) int8 in order F", lambda: shmem.full((2, 3), 1, "b", "CF"[me])),
    ("shape (4,) uint16 in", lambda: shmem.array(np.zeros(4, "Hh"[me]))),
):
    try:
        call()
    except pyshmem.MismatchError as error:
        assert said in str(error), error
    else:
        raise AssertionError(said)
one = shmem.zeros(3, order="CF"[me])  # of one dimension both orders are the same
shmem.free(one)
print("ok", flush=True)
"""


def test_members_that_make_other_arrays_are_told(run_pes: Callable) -> None:
    done = run_pes(2, f"{WAYS[1]}\nimport numpy as np\nimport pyshmem\n{DIFFERING}", check=True)
    assert done.stdout.count("ok") == 2
