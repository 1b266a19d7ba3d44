# SPDX-License-Identifier: BSD-3-Clause
"""``make seeds``: thirty short programs with 100 orders of late messages each, and how long that takes.

``python tests/check/seeds.py [SEEDS [FIRST]]`` is of other seeds. With all of them each program has to
print what it prints with the first; else the status is 1. PEs take turns, so a job keeps about one core
busy, and as many run at once as there are cores.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from test_order import HERE, RIGHT, needs

#: Of each kind that is delayed but those of torch, which take long to import.
SHORT = (
    "double_buffer_credits", "fetched_by_quiet", "nbi_and_quiet", "packets", "put_signal_rounds",
    "requests", "two_contexts", "halo", "queue_lock", "tests_and_work", "vector_of_values",
    "work_queue_of_tickets", "uneven_all_to_all", "pipeline_of_four", "ring_all_reduce", "tree",
    "kernel_double_buffer", "kernel_ping_pong", "kernel_put_signal", "kernel_ll_words",
    "kernel_work_group_put", "kernel_tickets", "stream_events", "stream_graph",
    "stream_pipeline_with_credits", "stream_ring", "triton_atomics", "triton_ring",
    "triton_stores_and_signal", "triton_flags_in_data",
)  # fmt: skip
_MOST = 7  # programs of a job
_LIMIT = 3000  # seconds, on machines that do much else


def jobs() -> list[list[Path]]:
    """Programs of the same needs, as PEs take longer to start than to run one; the longest first."""
    of: dict[tuple[str, str], list[Path]] = {}
    for program in RIGHT:
        if program.stem in SHORT:
            of.setdefault(needs(program), []).append(program)
    parts = [some[at : at + _MOST] for some in of.values() for at in range(0, len(some), _MOST)]
    return sorted(parts, key=lambda some: needs(some[0])[1] == "none")


def run(programs: list[Path], seeds: int, first: int) -> tuple[bool, str]:
    """Was it the same with all seeds? And what is told."""
    n_pes, device = needs(programs[0])
    command = [sys.executable, "-m", "pyshmem", "run", "-n", n_pes, "--device", device]
    command += ["--check=deliver", "--seeds", str(seeds), "--seed", str(first)]
    command += ["--timeout", str(_LIMIT), str(HERE / "several.py"), *map(str, programs)]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT + 20)
    took = time.monotonic() - begin
    right = not done.returncode and f"seeds {first} to {first + seeds - 1}" in done.stderr
    names = " ".join(program.stem for program in programs)
    what = "" if right else f"\nstatus {done.returncode}\n{done.stdout}{done.stderr}"
    return right, f"{n_pes} PEs, device {device}, {took:.0f} s: {names}{what}"


def main(seeds: int = 100, first: int = 11) -> bool:
    """Was all the same? Tells each job when it has ended, and what all took."""
    begin, parts, right = time.monotonic(), jobs(), True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for same, told in pool.map(lambda programs: run(programs, seeds, first), parts):
            right &= same
            print(told, flush=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{seeds} seeds of {sum(map(len, parts))} programs: {'the same' if right else 'NOT THE SAME'}; "
        f"{time.monotonic() - begin:.0f} s, of CPU {spent.ru_utime + spent.ru_stime:.0f} s "
        f"on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    return right


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
