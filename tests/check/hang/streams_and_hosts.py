# SPDX-License-Identifier: BSD-3-Clause
"""A stream that waits for a signal, and PEs that wait for what comes behind it. PEs: 3, with sim."""

import pyshmem

with pyshmem.init(device="sim") as job:
    go = pyshmem.new_signal(heap="device")
    back = pyshmem.new_signal()
    if job.my_pe == 0:
        stream = pyshmem.streams.Stream()
        pyshmem.signal_wait_until(go, pyshmem.CMP_EQ, 1, stream=stream)
        stream.synchronize()
        for pe in range(1, job.n_pes):
            pyshmem.signal_set(back, 1, pe)
    else:
        pyshmem.signal_wait_until(back, pyshmem.CMP_EQ, 1)
        pyshmem.signal_set(go, 1, 0)
# Tells: PE 0, stream 1: signal_wait_until at
# Tells: waits for go[0] == 1
# Tells: PE 2: signal_wait_until at
# Tells: waits for back[0] == 1
# Tells: a cycle: PE 0 for PE 1, PE 1 for PE 0
