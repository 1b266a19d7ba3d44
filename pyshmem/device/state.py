# SPDX-License-Identifier: BSD-3-Clause
"""The state block that every kernel reads: numbers of its words, as in the contract."""

import re

from .._core.contract import CUTOVER, DEVICE_TEAM, HASH, SIZES, STATE

_PREFIX = "pyshmem_state_"
#: Name of the constant symbol in compiled kernels. With the contract's hash, so that a kernel cached on
#: disk by another version is found out when it is loaded, not when it misbehaves.
SYMBOL = _PREFIX + HASH
WORDS = STATE.WORDS

ABI, MODULE = STATE.ABI, STATE.MODULE
MY_PE, N_PES, TEAMS = STATE.MY_PE, STATE.N_PES, STATE.TEAMS
HEAP_BASE, HEAP_BYTES, DELTA = STATE.HEAP_BASE, STATE.HEAP_BYTES, STATE.DELTA
HOST_BASE, HOST_BYTES, P2P = STATE.HOST_BASE, STATE.HOST_BYTES, STATE.P2P
CHECK, BY_OWNER = STATE.CHECK, STATE.BY_OWNER
NEAR_BEGIN, NEAR_END = STATE.NEAR_BEGIN, STATE.NEAR_END
SYNC_SLOTS, SYNC_EPOCH, GRID_WORD = STATE.SYNC_SLOTS, STATE.SYNC_EPOCH, STATE.GRID_WORD
TIMEOUT_NS, FAULT_CLAIM, FAULT_RECORD = STATE.TIMEOUT_NS, STATE.FAULT_CLAIM, STATE.FAULT_RECORD
TRACE = STATE.TRACE
# The first of several where there are more.
RINGS, RING_SLOTS, RING_LOG2, RING = STATE.RINGS, STATE.RING_SLOTS, STATE.RING_LOG2, STATE.RING
CUTOVER_PUT_MIN, CUTOVER_GET_MIN = STATE.CUTOVER_PUT_MIN, STATE.CUTOVER_GET_MIN
CUTOVER_PUT, CUTOVER_GET, CUTOVER_COLL = STATE.CUTOVER_PUT, STATE.CUTOVER_GET, STATE.CUTOVER_COLL
CUTOVER_LL = CUTOVER_COLL + CUTOVER.LL

# Words of a row of the table of teams, and the sizes that go with it.
DEVICE_TEAM_N_PES, DEVICE_TEAM_MY_PE = DEVICE_TEAM.N_PES, DEVICE_TEAM.MY_PE
DEVICE_TEAM_PES, DEVICE_TEAM_FLAGS = DEVICE_TEAM.PES, DEVICE_TEAM.FLAGS
DEVICE_TEAM_STAGE = DEVICE_TEAM.STAGE
DEVICE_TEAM_LL, DEVICE_TEAM_LL_SLOT = DEVICE_TEAM.LL, DEVICE_TEAM.LL_SLOT
DEVICE_TEAM_NEAR, DEVICE_TEAM_WORDS = DEVICE_TEAM.NEAR, DEVICE_TEAM.WORDS
DEVICE_STAGE_BYTES, MAX_TEAMS = SIZES.DEVICE_STAGE_BYTES, SIZES.MAX_TEAMS
LL_HALF_BYTES, TEAM_OF_ROUNDS = SIZES.LL_HALF_BYTES, SIZES.TEAM_OF_ROUNDS
#: DELTA, and the bits of BY_OWNER, are by a PE's number and this mask: for NEAR_BEGIN to NEAR_END.
NEAR_MASK = SIZES.MAX_NEAR_PES - 1
#: In DELTA: loads and stores do not reach that PE.
FAR = SIZES.FAR


def refuse_other_contracts(code: bytes) -> None:
    """Raises RuntimeError when compiled code names the state block of another contract than ours."""
    names = set(re.findall(rb"\b%s\w+" % _PREFIX.encode(), code)) - {SYMBOL.encode()}
    if names:
        raise RuntimeError(
            "this kernel was cached by another version of pyshmem: clear Numba's cache "
            f"(__pycache__ beside the script, or NUMBA_CACHE_DIR); it reads {min(names).decode()}, "
            f"this version's is {SYMBOL}"
        )
