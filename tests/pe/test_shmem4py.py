# SPDX-License-Identifier: BSD-3-Clause
"""A program in shmem4py's words."""

from __future__ import annotations

from collections.abc import Callable

PROGRAM = """
from pyshmem.interop import shmem4py as shmem
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


def test_a_program_for_shmem4py_runs(n_pes: int, run_pes: Callable) -> None:
    done = run_pes(n_pes, PROGRAM, device="none", timeout=60, check=True)
    assert done.stdout.count("ok") == n_pes
