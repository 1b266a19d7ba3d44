# SPDX-License-Identifier: BSD-3-Clause
"""The state block that every kernel reads: numbers of its words, and who keeps it filled.

The words mirror ``enum ishmemx_state_word`` of ``native/include/ishmemx.h``; a test compares them.
"""

from __future__ import annotations

#: Name of the constant symbol in compiled kernels. The number is the layout's version: a kernel
#: cached on disk by another version is found out when it is loaded, not when it misbehaves.
SYMBOL = "pyshmem_state_v2"
VERSION = 2
WORDS = 256

ABI = 0
MY_PE = 1
N_PES = 2
MODULE = 3
HEAP_BASE = 4
HEAP_BYTES = 5
TIMEOUT_NS = 6
SYNC_SLOTS = 7
SYNC_EPOCH = 8
FAULT_CLAIM = 9
FAULT_RECORD = 10
HOST_BASE = 11
HOST_BYTES = 12
P2P = 13
TEAMS = 14
GRID_WORD = 15
RINGS = 16
RING_SLOTS = 17
RING_LOG2 = 18
RING = 20
CUTOVER_PUT_MIN = 40
CUTOVER_GET_MIN = 41
CUTOVER_PUT = 48
CUTOVER_GET = 64
CUTOVER_COLL = 80
DELTA = 128

# Words of a row of the table of teams, and the sizes that go with it.
(
    DEVICE_TEAM_N_PES, DEVICE_TEAM_MY_PE, DEVICE_TEAM_PES, DEVICE_TEAM_FLAGS, DEVICE_TEAM_EPOCH,
    DEVICE_TEAM_STAGE,
) = range(6)  # fmt: skip
DEVICE_TEAM_WORDS = 8
DEVICE_STAGE_BYTES = 64 * 1024
MAX_TEAMS = 64

#: Bytes between two PEs' slots of the device synchronisation.
SYNC_SLOT_BYTES = 8
