# SPDX-License-Identifier: BSD-3-Clause
"""A wait for memory out of reach that serves others meanwhile still sees what ends it."""

from __future__ import annotations

from collections.abc import Callable


def test_a_far_wait_ends_by_its_timeout_while_others_keep_it_busy(run_pes: Callable) -> None:
    """PE 2 stands still, PE 1 puts to PE 0 without a pause, and PE 0 waits for PE 2."""
    done = run_pes(
        3,
        """
        import os, signal, threading, time
        import numpy as np
        import pyshmem

        pyshmem.init()
        me = pyshmem.my_pe()
        cells = pyshmem.zeros(1 << 15, dtype=np.int64, heap="device")
        pids = pyshmem.zeros(3, dtype=np.int64)
        pyshmem.p(pids[2:3], os.getpid(), 0) if me == 2 else None
        pyshmem.barrier_all()
        if me == 2:
            time.sleep(60)
        if me == 1:
            data = np.ones(1 << 15, np.int64)
            end = time.monotonic() + 30
            while time.monotonic() < end:
                pyshmem.put(cells, data, 0)
        os.kill(int(pids[2]), signal.SIGSTOP)
        tasks = f"/proc/{pids[2]}/task"
        while any(open(f"{tasks}/{task}/stat").read().split()[2] != "T" for task in os.listdir(tasks)):
            time.sleep(0.01)  # its proxy might still answer
        try:
            pyshmem.get(np.zeros(8, np.int64), cells, 2)
        except pyshmem.ShmemTimeout as error:
            print("timeout", "PE 2" in str(error), flush=True)
        os.kill(int(pids[2]), signal.SIGKILL)
        os._exit(0)
        """,
        device="sim",
        env={"PYSHMEM_NODE_SIZE": "1", "PYSHMEM_TIMEOUT": "2"},
        timeout=60,
    )
    assert "timeout True" in done.stdout, done.stdout + done.stderr
