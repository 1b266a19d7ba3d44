# SPDX-License-Identifier: BSD-3-Clause
"""Nobody passes a barrier that somebody has left, and nobody leaves one that somebody has passed.

PEs are interrupted in their waits, and come back later. Each tells all others before it enters where it
is, and when it has left or passed; who passes, and who leaves, looks at what the others have told.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

PROGRAM = """
import os, random, signal, sys, time, numpy as np, pyshmem
os.environ["PYSHMEM_CORES"] = "16"  # with few cores PEs meet as many do
from pyshmem._core import library
class Stop(Exception): pass
control = os.dup(int(os.environ["PYSHMEM_CONTROL_FD"]))
text = library.ffi.new("char[]", 256)
def handler(*_):
    library.check(library.lib.ishmemx_control_describe(control, me, text, len(text)))
    if raises and library.ffi.string(text).startswith(b"in "):  # in a wait
        raise Stop
signal.signal(signal.SIGALRM, handler)
meet, raises, turns = getattr(pyshmem, sys.argv[1]), sys.argv[2] == "raise", int(sys.argv[3])
IN, OUT, PASSED = 1, 2, 3
with pyshmem.init(heap_size="16M") as job:
    me, n = job.my_pe, job.n_pes
    told = pyshmem.zeros(n, dtype=np.int64)  # of each PE: 4 * turn and where it is
    seen = pyshmem.zeros(1, dtype=np.int64)
    def tell(turn, where):
        for pe in range(n):
            pyshmem.atomic_set(told[me : me + 1], 4 * turn + where, pe)
        pyshmem.quiet()
    pyshmem.barrier_all()
    chance, left = random.Random(me), 0
    for turn in range(1, turns + 1):
        while raises and me == n - 1 and seen[0] < turn:  # until PE 0 has left this one
            time.sleep(0.001)
        while True:
            tell(turn, IN)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            try:
                meet()
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except Stop:
                signal.setitimer(signal.ITIMER_REAL, 0)
                left += 1
                tell(turn, OUT)
                past = [pe for pe in range(n) if told[pe] >= 4 * turn + PASSED]
                assert not past, f"PE {me} has left turn {turn}, which {past} passed"
                if me == 0:
                    pyshmem.atomic_set(seen, turn, n - 1)
                    pyshmem.quiet()
                time.sleep(chance.random() * 0.004)
        out = [pe for pe in range(n) if told[pe] < 4 * turn + IN or told[pe] == 4 * turn + OUT]
        assert not out, f"PE {me} has passed turn {turn} without {out}"
        tell(turn, PASSED)
    pyshmem.barrier_all()
    print("left" if left else "stayed")
"""


@pytest.mark.parametrize("meet", ["barrier_all", "sync_all"])
@pytest.mark.parametrize(
    ("n", "settings"),
    [(3, {}), (9, {}), (4, {"PYSHMEM_NODE_SIZE": "2"})],
    ids=["few", "many", "two nodes"],
)
def test_nobody_passes_a_barrier_that_somebody_has_left(
    n: int, settings: dict[str, str], meet: str, run_pes: Callable
) -> None:
    arguments = [meet, "raise", 12]
    done = run_pes(n, PROGRAM, arguments, env={"PYSHMEM_TIMEOUT": "30"} | settings, check=True)
    said = done.stdout.split()
    assert len(said) == n
    assert "left" in said


def test_handlers_that_come_back_keep_their_place(run_pes: Callable) -> None:
    done = run_pes(3, PROGRAM, ["barrier_all", "return", 40], check=True)
    assert done.stdout.split() == ["stayed"] * 3
