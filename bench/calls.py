# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds of the host's calls as programs write them, the look for ``pyshmem.p`` included.

Run: python -m pyshmem run -n 2 bench/calls.py LABEL [OP...]
PE 0 prints one JSON line: the label, and for each operation the least of nine turns of 6,000 calls.
``host.py`` times the routines beside other libraries, by names of their own; to compare two versions,
run this of each in turn, several times, with the label of the version, and take medians.
"""

import json
import sys
import time

import numpy as np

import pyshmem

TURNS, LOOPS, UNROLLED = 9, 600, 10

#: PE 0 alone calls these.
ONE_SIDED = {
    "p": "pyshmem.p(word, 7, 1)",
    "p of np.int64": "pyshmem.p(word, one, 1)",
    "p of np.float64": "pyshmem.p(real, number, 1)",
    "p to PE np.int64": "pyshmem.p(word, 7, one)",
    "g": "pyshmem.g(word, 1)",
    "atomic_fetch_add": "pyshmem.atomic_fetch_add(word, 1, 1)",
    "atomic_add": "pyshmem.atomic_add(word, 1, 1)",
    "atomic_add of np.int64": "pyshmem.atomic_add(word, one, 1)",
    "signal_set": "pyshmem.signal_set(sig, 7, 1)",
    "signal_fetch": "pyshmem.signal_fetch(sig)",
    "test": "pyshmem.test(word, pyshmem.CMP_EQ, 5)",
    "put": "pyshmem.put(dest, source, 1)",
    "put ndarray": "pyshmem.put(dest, plain, 1)",
    "put_nbi": "pyshmem.put_nbi(dest, source, 1)",
    "get_nbi": "pyshmem.get_nbi(dest, source, 1)",
    "put_signal": "pyshmem.put_signal(dest, source, sig, 1, pyshmem.SIGNAL_SET, 1)",
    "put_signal_nbi": "pyshmem.put_signal_nbi(dest, source, sig, 1, pyshmem.SIGNAL_SET, 1)",
    "quiet": "pyshmem.quiet()",
    "my_pe": "pyshmem.my_pe()",
}
#: All PEs call these.
COLLECTIVE = {
    "barrier_all": "pyshmem.barrier_all()",
    "sync_all": "pyshmem.sync_all()",
    "sum_reduce": "pyshmem.sum_reduce(dest, source)",
    "broadcast": "pyshmem.broadcast(dest, source, 0)",
    "fcollect": "pyshmem.fcollect(both, source)",
}


def nanoseconds(text: str, names: dict[str, object], calls: bool) -> float:
    """Of one call; ``calls``: this PE makes them, the others meet it."""
    body = "".join(f"    {text}\n" for _ in range(UNROLLED))
    own = dict(names)
    exec(f"def loop():\n  for _ in range({LOOPS}):\n{body}", own)
    loop, times = own["loop"], []
    for _ in range(TURNS):
        pyshmem.barrier_all()
        begin = time.perf_counter_ns()
        if calls:
            loop()  # type: ignore[operator]
        times.append((time.perf_counter_ns() - begin) / (LOOPS * UNROLLED))
    return min(times)


def main(label: str, *wanted: str) -> None:
    """Times what is wanted, all by default."""
    with pyshmem.init() as job:
        names = {
            "pyshmem": pyshmem,
            "word": pyshmem.zeros(1, np.int64),
            "real": pyshmem.zeros(1, np.float64),
            "sig": pyshmem.new_signal(),
            "dest": pyshmem.zeros(1),
            "source": pyshmem.zeros(1),
            "both": pyshmem.zeros(job.n_pes),
            "plain": np.zeros(1),
            "one": np.int64(1),
            "number": np.float64(2),
        }
        found = {}
        for op, text in (ONE_SIDED | COLLECTIVE).items():
            if not wanted or op in wanted:
                calls = op in COLLECTIVE or job.my_pe == 0
                found[op] = round(nanoseconds(text, names, calls), 1)
        if job.my_pe == 0:
            print(json.dumps([label, found]), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
