# SPDX-License-Identifier: BSD-3-Clause
"""The job that ``doctor`` runs: each PE puts its number into its right neighbour's memory."""

from __future__ import annotations

import numpy as np

import pyshmem


def main() -> None:
    """Exit 0 when every PE got its left neighbour's number."""
    with pyshmem.init():
        me, n_pes = pyshmem.my_pe(), pyshmem.n_pes()
        inbox = pyshmem.zeros(1, dtype=np.int64)
        pyshmem.put(inbox, np.array([me + 100]), (me + 1) % n_pes)
        pyshmem.barrier_all()
        left = (me - 1) % n_pes
        if inbox[0] != left + 100:
            raise SystemExit(f"PE {me} got {inbox[0]} from PE {left}, not {left + 100}")


if __name__ == "__main__":
    main()
