# SPDX-License-Identifier: BSD-3-Clause
"""A PE whose stream has waited too long goes through finalize: it has not ended. PEs: 2, with sim."""

import pyshmem

with pyshmem.init(device="sim") as job:
    go = pyshmem.new_signal(heap="device")
    back = pyshmem.new_signal()
    if job.my_pe == 0:
        stream = pyshmem.streams.Stream()
        pyshmem.barrier_all(stream=stream)
        stream.destroy()
    else:
        pyshmem.signal_wait_until(back, pyshmem.CMP_EQ, 1)
# Tells: PE 0, stream 1: barrier_all at
# Tells: waits for PE 1, not there
# Tells: a cycle: PE 0 for PE 1, PE 1 for PE 0
