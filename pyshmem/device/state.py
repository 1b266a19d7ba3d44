# SPDX-License-Identifier: BSD-3-Clause
"""The state block that every kernel reads: numbers of its words, and who keeps it filled.

The words mirror ``enum ishmemx_state_word`` of ``native/include/ishmemx.h``; a test compares them.
"""

#: Name of the constant symbol in compiled kernels. The number is the layout's version: a kernel
#: cached on disk by another version is found out when it is loaded, not when it misbehaves.
SYMBOL = "pyshmem_state_v2"
VERSION = 2
WORDS = 256

(
    ABI, MY_PE, N_PES, MODULE, HEAP_BASE, HEAP_BYTES, TIMEOUT_NS, SYNC_SLOTS, SYNC_EPOCH, FAULT_CLAIM,
    FAULT_RECORD, HOST_BASE, HOST_BYTES, P2P, TEAMS, GRID_WORD, RINGS, RING_SLOTS, RING_LOG2,
) = range(19)  # fmt: skip
# The first of several, and words at places of their own.
RING, CUTOVER_PUT_MIN, CUTOVER_GET_MIN = 20, 40, 41
CUTOVER_PUT, CUTOVER_GET, CUTOVER_COLL, DELTA = 48, 64, 80, 128

# Words of a row of the table of teams, and the sizes that go with it.
(
    DEVICE_TEAM_N_PES, DEVICE_TEAM_MY_PE, DEVICE_TEAM_PES, DEVICE_TEAM_FLAGS, DEVICE_TEAM_EPOCH,
    DEVICE_TEAM_STAGE,
) = range(6)  # fmt: skip
DEVICE_TEAM_WORDS = 8
DEVICE_STAGE_BYTES = 64 * 1024
MAX_TEAMS = 64
