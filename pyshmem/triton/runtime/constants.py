# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that kernels and the library agree on, as constants of kernels.

Triton hashes constants of this kind into the key of a cached kernel, so one that another version of
pyshmem compiled is not found.
"""

import triton.language as tl

from ..._core.contract import (
    DEVICE_TEAM,
    FAULT,
    PRINT,
    REQUEST_FLAG,
    REQUEST_OP,
    RING_AWAITS,
    SIZES,
    STATE,
)
from ..._core.contract import RING as RINGS_AT
from ..._core.type_table import ROUTINES
from ..._core.values import Cmp, SignalOp

MY_PE = tl.constexpr(STATE.MY_PE)
N_PES = tl.constexpr(STATE.N_PES)
HEAP_BASE = tl.constexpr(STATE.HEAP_BASE)
HEAP_BYTES = tl.constexpr(STATE.HEAP_BYTES)
TIMEOUT_NS = tl.constexpr(STATE.TIMEOUT_NS)
FAULT_CLAIM = tl.constexpr(STATE.FAULT_CLAIM)
FAULT_RECORD = tl.constexpr(STATE.FAULT_RECORD)
P2P = tl.constexpr(STATE.P2P)
TEAMS = tl.constexpr(STATE.TEAMS)
DELTA = tl.constexpr(STATE.DELTA)
BY_OWNER = tl.constexpr(STATE.BY_OWNER)
FAR = tl.constexpr(SIZES.FAR)
MAX_PES = tl.constexpr(SIZES.MAX_NEAR_PES)  # a power of two
MAX_TEAMS = tl.constexpr(SIZES.MAX_TEAMS)

STATE_TRACE = tl.constexpr(STATE.TRACE)

RINGS = tl.constexpr(STATE.RINGS)
MAX_RINGS = tl.constexpr(RINGS_AT.MAX_RINGS)  # a power of two
RING_SLOTS = tl.constexpr(STATE.RING_SLOTS)
RING_LOG2 = tl.constexpr(STATE.RING_LOG2)
RING = tl.constexpr(STATE.RING)

#: Words of the ring's control block and of its words in device memory.
CONTROL_CONSUMED = tl.constexpr(RINGS_AT.CONTROL_CONSUMED // 8)
CONTROL_ASKED = tl.constexpr(RINGS_AT.CONTROL_ASKED // 8)
CONTROL_ACKED = tl.constexpr(RINGS_AT.CONTROL_ACKED // 8)
CONTROL_CELLS = tl.constexpr(RINGS_AT.CONTROL_CELLS // 8)
CELL_WORDS = tl.constexpr(RINGS_AT.CELL_BYTES // 8)
RING_TICKET = tl.constexpr(RINGS_AT.DEVICE_TICKET // 8)
RING_CONSUMED = tl.constexpr(RINGS_AT.DEVICE_CONSUMED // 8)
RING_PENDING = tl.constexpr(RINGS_AT.DEVICE_PENDING // 8)
RING_ACKED = tl.constexpr(RINGS_AT.DEVICE_ACKED // 8)
RING_BUSY = tl.constexpr(RINGS_AT.DEVICE_WORDS // 8)
BUSY_LEFT = tl.constexpr(1 << RINGS_AT.BUSY_LEFT_BIT)
BUSY_ENGINE = tl.constexpr(1 << RINGS_AT.BUSY_ENGINE_BIT)
BUSY_TURN = tl.constexpr(RINGS_AT.BUSY_TURN_BIT)

#: What a sender waits for, in the note that it leaves for reports.
AWAITS_CREDIT = tl.constexpr(RING_AWAITS.CREDIT)
AWAITS_CELL = tl.constexpr(RING_AWAITS.CELL)
AWAITS_REPLY = tl.constexpr(RING_AWAITS.REPLY)
AWAITS_QUIET = tl.constexpr(RING_AWAITS.QUIET)
#: Where it leaves it, in bytes: in the ring's words in device memory, and in its control block.
RING_NOTED = tl.constexpr(RINGS_AT.DEVICE_NOTED)
CONTROL_WAITER = tl.constexpr(RINGS_AT.CONTROL_WAITER)

#: What a wait in PTX has to know, in the order of ``ptx.report_text``.
WAIT_NUMBERS = tl.constexpr(
    (
        STATE.FAULT_CLAIM, STATE.FAULT_RECORD, STATE.TIMEOUT_NS,
        STATE.RINGS, STATE.RING, STATE.RING_SLOTS, STATE.RING_LOG2,
        RINGS_AT.DEVICE_TICKET // 8, RINGS_AT.DEVICE_PENDING // 8,
        RINGS_AT.CONTROL_CONSUMED // 8, RINGS_AT.CONTROL_CELLS // 8, RINGS_AT.CELL_BYTES // 8,
        REQUEST_OP.WAITING,
    )
)  # fmt: skip

#: Requests to the host, host_proxy/ring.h.
REQUEST_PUT = tl.constexpr(REQUEST_OP.PUT)
REQUEST_GET = tl.constexpr(REQUEST_OP.GET)
REQUEST_PUT_SIGNAL = tl.constexpr(REQUEST_OP.PUT_SIGNAL)
REQUEST_PRINT = tl.constexpr(REQUEST_OP.PRINT)
REQUEST_RELEASE = tl.constexpr(REQUEST_FLAG.RELEASE << 16)
REQUEST_REPLY = tl.constexpr(REQUEST_FLAG.REPLY << 16)
PRINT_INT = tl.constexpr(PRINT.INT)
PRINT_FLOAT = tl.constexpr(PRINT.FLOAT)
PRINT_TEXT = tl.constexpr(PRINT.TEXT)
REQUEST_CALL = tl.constexpr(REQUEST_OP.CALL)
REQUEST_ABORT = tl.constexpr(REQUEST_OP.ABORT)
REQUEST_P = tl.constexpr(REQUEST_OP.P)
REQUEST_G = tl.constexpr(REQUEST_OP.G)
REQUEST_AMO = tl.constexpr(REQUEST_OP.AMO)
REQUEST_WAITING = tl.constexpr(REQUEST_OP.WAITING)

TEAM_N_PES = tl.constexpr(DEVICE_TEAM.N_PES)
TEAM_MY_PE = tl.constexpr(DEVICE_TEAM.MY_PE)
TEAM_PES = tl.constexpr(DEVICE_TEAM.PES)
TEAM_FLAGS = tl.constexpr(DEVICE_TEAM.FLAGS)
TEAM_EPOCH = tl.constexpr(DEVICE_TEAM.EPOCH)
TEAM_NEAR = tl.constexpr(DEVICE_TEAM.NEAR)
TEAM_OF_ROUNDS = tl.constexpr(SIZES.TEAM_OF_ROUNDS)
TEAM_GRID_COUNT = tl.constexpr(DEVICE_TEAM.GRID_COUNT)
TEAM_GRID_TURN = tl.constexpr(DEVICE_TEAM.GRID_TURN)
TEAM_WORDS = tl.constexpr(DEVICE_TEAM.WORDS)

FAULT_PE = tl.constexpr(FAULT.PE)
FAULT_ADDRESS = tl.constexpr(FAULT.ADDRESS)
FAULT_TIMEOUT = tl.constexpr(FAULT.TIMEOUT)
FAULT_NELEMS = tl.constexpr(FAULT.NELEMS)
FAULT_FAR = tl.constexpr(FAULT.FAR)
FAULT_ATOMICS = tl.constexpr(FAULT.ATOMICS)
FAULT_TEAM = tl.constexpr(FAULT.TEAM)
FAULT_PROXY = tl.constexpr(FAULT.PROXY)
FAULT_CHOICE = tl.constexpr(FAULT.CHOICE)

#: Device routines by name, for reports.
LOAD = tl.constexpr(ROUTINES.index("load"))
STORE = tl.constexpr(ROUTINES.index("store"))
GET = tl.constexpr(ROUTINES.index("get"))
PUT = tl.constexpr(ROUTINES.index("put"))
COPY = tl.constexpr(ROUTINES.index("copy"))
PTR = tl.constexpr(ROUTINES.index("ptr"))
ATOMIC_ADD = tl.constexpr(ROUTINES.index("atomic_add"))
ATOMIC_AND = tl.constexpr(ROUTINES.index("atomic_and"))
ATOMIC_OR = tl.constexpr(ROUTINES.index("atomic_or"))
ATOMIC_XOR = tl.constexpr(ROUTINES.index("atomic_xor"))
ATOMIC_MIN = tl.constexpr(ROUTINES.index("atomic_min"))
ATOMIC_MAX = tl.constexpr(ROUTINES.index("atomic_max"))
ATOMIC_XCHG = tl.constexpr(ROUTINES.index("atomic_swap"))
ATOMIC_CAS = tl.constexpr(ROUTINES.index("atomic_compare_swap"))
PUT_SIGNAL = tl.constexpr(ROUTINES.index("put_signal"))
SIGNAL_OP = tl.constexpr(ROUTINES.index("signal_op"))
SIGNAL_WAIT_UNTIL = tl.constexpr(ROUTINES.index("signal_wait_until"))
TEST = tl.constexpr(ROUTINES.index("test"))
WAIT_UNTIL = tl.constexpr(ROUTINES.index("wait_until"))
WAIT_UNTIL_ANY = tl.constexpr(ROUTINES.index("wait_until_any"))
WAIT_UNTIL_ALL = tl.constexpr(ROUTINES.index("wait_until_all"))
TEAM_SYNC = tl.constexpr(ROUTINES.index("team_sync"))
TRANSLATE = tl.constexpr(ROUTINES.index("team_translate_pe"))
BROADCAST = tl.constexpr(ROUTINES.index("broadcast"))
FCOLLECT = tl.constexpr(ROUTINES.index("fcollect"))
ALLTOALL = tl.constexpr(ROUTINES.index("alltoall"))
RING_WAIT = tl.constexpr(ROUTINES.index("ring"))
QUIET = tl.constexpr(ROUTINES.index("quiet"))
ALL_REDUCE = tl.constexpr(ROUTINES.index("all_reduce"))
TASK_WAIT = tl.constexpr(ROUTINES.index("task"))

# -- the specification's constants, which kernels' authors use too -----------------------------------

SIGNAL_SET = tl.constexpr(SignalOp.SET)
SIGNAL_ADD = tl.constexpr(SignalOp.ADD)
CMP_EQ = tl.constexpr(Cmp.EQ)
CMP_NE = tl.constexpr(Cmp.NE)
CMP_GT = tl.constexpr(Cmp.GT)
CMP_GE = tl.constexpr(Cmp.GE)
CMP_LT = tl.constexpr(Cmp.LT)
CMP_LE = tl.constexpr(Cmp.LE)
TEAM_WORLD = tl.constexpr(0)
TEAM_SHARED = tl.constexpr(1)
TEAM_NODE = tl.constexpr(2)
