# SPDX-License-Identifier: BSD-3-Clause
"""An all-reduce that the host starts on a stream, beside copies and signals, captured into a CUDA graph.

You learn: stream=, pyshmem.streams.prepare, capture and replay. The host waits once, at the end.
Run: python -m pyshmem run -n 4 examples/09_all_reduce_in_a_graph.py    (a GPU, or the simulator)
Output: 100 replays on 4 PEs, mean 2.5: ok
"""

import numpy as np

import pyshmem

REPLAYS = 100

with pyshmem.init() as job:
    right = (job.my_pe + 1) % job.n_pes
    gradient = pyshmem.full(1 << 10, job.my_pe + 1, dtype=np.float32, heap="device")
    total = pyshmem.zeros_like(gradient, heap="device")
    passed_on = pyshmem.zeros_like(gradient, heap="device")
    rounds = pyshmem.new_signal(heap="device")

    # Kernels are compiled and loaded before a capture, which allows neither.
    pyshmem.streams.prepare(pyshmem.sum_reduce, dtype=np.float32)
    pyshmem.streams.prepare(pyshmem.put_signal)
    pyshmem.barrier_all()

    stream = pyshmem.streams.Stream()  # or one of CuPy, PyTorch or Numba
    with stream.capture() as graph:
        pyshmem.sum_reduce(total, gradient, stream=stream)
        pyshmem.put_signal(passed_on, total, rounds, 1, pyshmem.SIGNAL_ADD, right, stream=stream)

    for _ in range(REPLAYS):
        graph.replay(stream)
    # A wait on a stream: what comes behind it finds the left neighbour's last message.
    pyshmem.signal_wait_until(rounds, pyshmem.CMP_EQ, REPLAYS, stream=stream)
    stream.synchronize()

    result = pyshmem.to_numpy(passed_on)
    assert (result == sum(range(1, job.n_pes + 1))).all()
    if job.my_pe == 0:
        print(f"{REPLAYS} replays on {job.n_pes} PEs, mean {result[0] / job.n_pes}: ok", flush=True)
