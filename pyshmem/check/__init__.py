# SPDX-License-Identifier: BSD-3-Clause
"""The checker of order, ``PYSHMEM_CHECK=order``: accesses of different PEs that nothing orders.

Each PE records what it accesses and what orders it (``record``, ``record_arrays``; kernels of the
simulator in ``device.leaf.sim.record``) in a file that the launcher has made. When the job has ended
the launcher merges the files by time and looks (``engine`` with ``clocks`` and ``shadow``), and tells
(``report``). Nothing of it is imported while ``order`` is off.
"""
