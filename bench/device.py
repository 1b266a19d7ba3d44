# SPDX-License-Identifier: BSD-3-Clause
"""Device figures of pyshmem: one JSON line each, timed inside the kernels.

Run: python -m pyshmem run -n 2 bench/device.py [put] [get] [ring] [collectives] [signals]
The same as ``python -m pyshmem bench --json``. ``nvshmem_device.cu`` prints these figures of NVSHMEM
and ``bare_cuda.cu`` those of plain CUDA, measured the same way; ``compare.py`` puts them side by side.
"""

import sys

import pyshmem  # before numba
from pyshmem.bench.operations import PARTS
from pyshmem.bench.timing import Clock

with pyshmem.init() as job:
    clock = Clock(job)
    for part in sys.argv[1:] or PARTS:
        if part not in PARTS:
            raise SystemExit(f"{part}: no such part; there are {', '.join(PARTS)}")
        if job.n_pes > 1 or part not in ("put", "get"):
            PARTS[part](clock)
