# SPDX-License-Identifier: BSD-3-Clause
"""One PE waits for a flag that the other one sets behind a barrier. PEs: 2."""

import pyshmem

with pyshmem.init(device="none") as job:
    flag = pyshmem.new_signal()
    if job.my_pe == 0:
        pyshmem.barrier_all()
        pyshmem.signal_set(flag, 1, 1)
    else:
        pyshmem.signal_wait_until(flag, pyshmem.CMP_EQ, 1)
        pyshmem.barrier_all()

# Tells: barrier_in_a_branch.py:9 waits for PE 1, not there
# Tells: waits for flag[0] == 1; no other PE has written there
# Tells: a cycle: PE 0 for PE 1, PE 1 for PE 0
