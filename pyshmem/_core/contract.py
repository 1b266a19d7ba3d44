# SPDX-License-Identifier: BSD-3-Clause
"""What the C library, kernels and Python must agree on to the bit, written once.

Standard library only, as ``type_table``: the build runs this file for C headers (``contract.py public``
for ``ishmemx_contract.h``, ``private`` for ``pysh_contract.h``); Python and kernels import it.
``HASH`` stands for all of it, types and operations included, and is part of the name of the state symbol
in compiled kernels: one cached by a pyshmem with another contract is refused when it is loaded.

A group is a C enumeration of ``PREFIX_NAME``; in Python ``contract.STATE.TEAMS`` is the number.
"""

from __future__ import annotations

import hashlib
import sys

try:
    from . import settings, type_table
    from .contract_groups import Group
except ImportError:  # the build runs this file, not the package
    import settings  # type: ignore[import-not-found,no-redef]
    import type_table  # type: ignore[import-not-found,no-redef]
    from contract_groups import Group  # type: ignore[import-not-found,no-redef]


MAX_RINGS = 4

STATE = Group(
    "ishmemx_state_word",
    "ISHMEMX_STATE_",
    "Words of the state block that every kernel reads.",
    (
        # The first 32 words are in one line of the constant caches, 8 to 15 in one of the first of them:
        # a kernel of microseconds waits for each line that it touches first.
        ("MY_PE", ""),
        ("N_PES", ""),
        ("HEAP_BASE", "device heap of this PE, first byte"),
        ("HEAP_BYTES", ""),
        ("SYNC_SLOTS", "a u64 a sender, or a round, on the device heap: rising epochs"),
        ("SYNC_EPOCH", "u64, on the device heap, used by its own PE only"),
        ("NEAR_BEGIN", "whom DELTA has: from PE 0, or, in a job that is too large,"),
        ("NEAR_END", "of the first PE of the own node on, to here, that one not included"),
        ("ABI", "ISHMEMX_CONTRACT once initialised, else 0"),
        ("TEAMS", "table of ISHMEMX_DEVICE_TEAM_WORDS words a team slot, in device memory"),
        ("CHECK", "1: checking mode"),
        ("P2P", "reach every device heap: 1: loads and stores; 2: atomics too; 0: see DELTA"),
        (
            "DELTA",
            "+ pe % ISHMEMX_MAX_NEAR_PES: the peer's heap address minus the own; ISHMEMX_FAR: loads and "
            "stores do not reach it, nor who is not from NEAR_BEGIN to NEAR_END",
        ),
        ("MODULE", "filled for each loaded module by the Python side"),
        ("TIMEOUT_NS", "of a wait; 0: none"),
        ("FAULT_CLAIM", "u64, device memory: 0 while no fault is recorded"),
        ("FAULT_RECORD", "struct ishmemx_fault in memory that host and device share"),
        ("HOST_BASE", "host heap of this PE as kernels see it"),
        ("HOST_BYTES", "0: kernels do not see the host heap"),
        ("GRID_WORD", "u64, device memory: what a grid's leader gives to all its threads"),
        ("RINGS", "number of rings, 0: none"),
        ("RING_SLOTS", "requests a ring holds: a power of two, and its logarithm"),
        ("RING_LOG2", ""),
        ("TRACE", "where on the device heap kernels write their stages; 0: nowhere"),
        (
            "BY_OWNER",
            "2 words, bits by PE as DELTA: the link has no atomics, the peer's proxy does them",
        ),
        ("RING", "+ 4 k: ring k: addresses of slots, control, device (host_proxy/ring.h)"),
        ("CUTOVER_PUT_MIN", "bytes: below, no put of any shape leaves the store path"),
        ("CUTOVER_GET_MIN", ""),
        ("CUTOVER_PUT", "+ 4 * threads bucket + blocks bucket: bytes from which the ring is taken"),
        ("CUTOVER_GET", ""),
        ("CUTOVER_COLL", "+ enum ishmemx_cutover_coll: bytes a PE"),
        ("WORDS", ""),
    ),
    at={"ABI": 8, "DELTA": 12, "MODULE": 140}
    | {"BY_OWNER": 152, "RING": 160, "CUTOVER_PUT_MIN": 176, "CUTOVER_PUT": 184}
    | {"CUTOVER_GET": 200, "CUTOVER_COLL": 216, "WORDS": 256},
)

DEVICE_TEAM = Group(
    "ishmemx_device_team_word",
    "ISHMEMX_DEVICE_TEAM_",
    "Words of a row of the table of teams; a slot that holds no team has n_pes 0. Behind all rows "
    "stand the EPOCHs, and then a u64 a slot: in checking mode, 1 while a group is in a collective.",
    (
        ("N_PES", ""),
        ("MY_PE", ""),
        ("PES", "address of int32 world PEs, one a member"),
        ("FLAGS", "symmetric: a u64 a member, or a round, rising"),
        ("EPOCH", "u64 of the own PE: rounds of flags so far"),
        ("STAGE", "symmetric: two halves of ISHMEMX_DEVICE_STAGE_BYTES"),
        ("GRID_COUNT", "of Triton's kernels: programs of the grid that have come"),
        ("GRID_TURN", "of Triton's kernels: meetings of grids so far"),
        ("LL", "symmetric: two halves of ISHMEMX_LL_HALF_BYTES for data with flags in it; 0: none"),
        ("LL_SLOT", "bytes of a half that a member stores to: a multiple of 1,024"),
        (
            "NEAR",
            "1: all members reach each other's device heaps by loads and stores; 0: not; "
            "ISHMEMX_TEAM_OF_ROUNDS: not, and there is no flag for each member",
        ),
        ("WORDS", ""),
    ),
    at={"WORDS": 16},
)

CUTOVER = Group(
    "ishmemx_cutover_coll",
    "ISHMEMX_CUTOVER_",
    "Thresholds of the device collectives: from so many bytes a PE the second way is taken.",
    (
        ("REDUCE", "every PE combines all -> every PE combines its share"),
        ("LL", "data with flags in it -> data, a fence and a flag"),
        ("COUNT", ""),
    ),
)

FAULT = Group(
    "ishmemx_fault_kind",
    "ISHMEMX_FAULT_",
    "What a kernel, or the proxy, recorded as wrong.",
    (
        ("NONE", ""),
        ("PE", "pe outside the job; a: pe, b: number of PEs"),
        ("ADDRESS", "not on the device heap; a: address, b: bytes"),
        (
            "TIMEOUT",
            "a wait; a: value waited for, b: value seen; `op` has bits of PYSH_WAITING_ too",
        ),
        ("NELEMS", "a: nelems, b: elements there are"),
        ("PROXY", "a request failed on the host; a: status; ishmemx_proxy_error() has the text"),
        ("TEAM", "a: slot that holds no team of this PE"),
        ("STRIDE", "a: stride, b: block"),
        ("LOCK", "cleared by a PE that does not have it; a: its word there"),
        ("CHOICE", "a: no comparison, or no signal operation; b: the last one there is"),
        ("FAR", "a pe that loads and stores do not reach; a: pe"),
        ("ATOMICS", "a pe whose GPU the link to has no native atomic operations; a: pe"),
        ("CHANNEL", "checking mode: two groups in a collective of one slot at a time; a: the slot"),
    ),
)

FAULT_FIELD = Group(
    "pysh_fault_field",
    "PYSH_FAULT_AT_",
    "Bytes from the start of ishmemx_fault_t, the record that kernels write: `kind` last.",
    tuple((name, "") for name in ("KIND", "OP", "PE", "MODULE", "BLOCK", "THREAD", "A", "B")),
    at={
        name: 8 * n
        for n, name in enumerate(("KIND", "OP", "PE", "MODULE", "BLOCK", "THREAD", "A", "B"))
    },
    public=False,
)

TRACE = Group(
    "pysh_trace_word",
    "PYSH_TRACE_",
    "Bytes in the buffer of kernels' stages, and in each of its records: host/observe/stages.py.",
    tuple((name, "") for name in (
        *("TICKET", "CAPACITY", "DROPPED", "LOSSES", "RECORDS", "RECORD_BYTES"),
        *("AT_BEGIN", "AT_END", "AT_KERNEL", "AT_PLACE", "AT_LABEL", "AT_PRIORITY"),
    )),
    at={"DROPPED": 128, "CAPACITY": 8, "LOSSES": 128, "RECORDS": 2048, "RECORD_BYTES": 64}
    | {"AT_BEGIN": 0, "AT_END": 8, "AT_KERNEL": 16, "AT_PLACE": 24, "AT_LABEL": 32}
    | {"AT_PRIORITY": 56},
    public=False,
)  # fmt: skip

SIGNAL = Group(
    "ishmemx_signal_kind",
    "ISHMEMX_SIGNAL_",
    "How a signal changes its word.",
    (("SET", ""), ("ADD", "")),
)

CMP = Group(
    "ishmemx_cmp",
    "ISHMEMX_CMP_",
    "Comparisons of waits and tests.",
    tuple((name, "") for name in ("EQ", "NE", "GT", "GE", "LT", "LE")),
    first=1,
)

REQUEST_WORD = Group(
    "pysh_request_word",
    "PYSH_WORD_",
    "Words of a request, before they are packed into a slot.",
    (
        ("DEST", "at the caller; PRINT: characters 0..7 of the label; CALL, POST: argument 0"),
        (
            "SOURCE",
            "address at the caller; AMO without a reply: for the old value, or 0; characters 8..15",
        ),
        ("VALUE", "bytes of PUT and GET, blocks of IPUT and IGET, AMO's value; characters 16..23"),
        (
            "EXTRA",
            "cond of AMO, sig_addr of PUT_SIGNAL, dest stride of IPUT and IGET; the value of PRINT",
        ),
        (
            "EXTRA2",
            "signal of PUT_SIGNAL, source stride; PRINT, ABORT: block (low 32), thread (high 32)",
        ),
        (
            "PE",
            "world pe (low 32); high 32: AMO's number, sig_op, elements a block, handler, PRINT's kind",
        ),
        ("KIND", "op (bits 0..7), type or width in bytes (8..15), flags (16..31), scope (32..47)"),
        ("COUNT", ""),
    ),
    public=False,
)

REQUEST_FLAG = Group(
    "pysh_request_flag",
    "PYSH_REQUEST_",
    "Flags of a request, in its word KIND from bit 16.",
    (
        ("REPLY", "a reply is wanted, in the cell"),
        ("DONE", "with REPLY: the tag is stored in device.done[cell] by the engine's stream"),
        ("RELEASE", "the sender fenced before it stored the request: of no concern to the proxy"),
    ),
    at={"REPLY": 1, "DONE": 2, "RELEASE": 4},
    public=False,
)

REQUEST_OP = Group(
    "pysh_request_op",
    "PYSH_OP_",
    "What a request asks for.",
    (
        ("NULL", "answers 0"),
        ("PUT", "dest at pe <- source, VALUE bytes; the reply says that it is complete there"),
        ("GET", "dest <- source at pe"),
        ("IPUT", "strided and block-strided; strides and block in elements of `type` bytes"),
        ("IGET", ""),
        ("AMO", "answers the old bits; PE's high half is ISHMEMX_ATOMIC_*, `type` ISHMEMX_TYPE_*"),
        ("P", "the low `type` bytes of VALUE, 1 to 8, to DEST at pe"),
        ("G", "answers `type` bytes of SOURCE at pe"),
        ("PUT_SIGNAL", "the signal lands after the data"),
        ("PRINT", ""),
        ("ABORT", "PE: exit code; label and place as in PRINT; EXTRA: numbers, PE.high of them"),
        ("CALL", "user handler, answers what it returned (POST is a CALL without a reply)"),
        ("WAITING", "a kernel's wait is slow; see pysh_kernel_wait_t and PYSH_WAITING_"),
        ("SPREAD", "PUT to all far members of a team of the caller's; EXTRA: the team's slot"),
        ("COUNT", ""),
    ),
    first=1,
    public=False,
)

WAITING = Group(
    "pysh_waiting_bit",
    "PYSH_WAITING_",
    "What a wait in a kernel is: bits of the word DEST of a WAITING, and of `op` of its fault.",
    (
        ("COLLECTIVE", "8 bits from here: `collective` of pysh_kernel_wait_t; below, the routine"),
        ("CMP", "4 bits from here: ISHMEMX_CMP_*, 0: no comparison of the caller's"),
        ("MANY", "the word SOURCE is a number of elements, VALUE what they are compared with"),
        ("GAVE_UP", "it has ended"),
    ),
    at={"COLLECTIVE": 16, "CMP": 24, "MANY": 28, "GAVE_UP": 32},
    public=False,
)

STREAM_KERNEL = Group(
    "ishmemx_stream_kernel",
    "ISHMEMX_KERNEL_",
    "Kernels of the device library that the library launches on streams.",
    (
        ("BARRIER_ALL", "the team's, as all but QUIET, waits and REQUEST: stream/collectives.c"),
        ("QUIET", "fence too"),
        ("TEAM_SYNC", ""),
        ("BROADCAST", "dest, source, bytes, root"),
        ("FCOLLECT", "dest, source, bytes of a PE"),
        ("COLLECT", "dest, source, bytes of this PE"),
        ("ALLTOALL", "dest, source, bytes of a block"),
        ("ALLTOALLS", "dest, source, their strides, elements of a block"),
        ("REDUCE", "dest, source, elements; the operation is ISHMEMX_REDUCE_*"),
        ("REDUCE_SCATTER", "dest, source, elements of a block"),
        ("SCAN", "dest, source, elements; operation 1: exclusive"),
        ("WAIT", "array of one, cmp, value"),
        ("WAIT_ALL", "array, elements, cmp, value"),
        ("WAIT_ANY", "array, elements, cmp, value, array of one for the index"),
        ("WAIT_SOME", "array, elements, array for indices, cmp, value, array for their number"),
        ("REQUEST", "the words of one, where its answer goes, bytes of that (0: nowhere)"),
        ("COUNT", ""),
    ),
)

STREAM_KEY = Group(
    "ishmemx_stream_key",
    "ISHMEMX_KEY_",
    "The key of a kernel for streams: enum ishmemx_stream_kernel, and what is added to it.",
    (
        ("OP_SHIFT", "of the operation"),
        ("TYPE_SHIFT", "of ISHMEMX_TYPE_*"),
        ("WIDE", "for many bytes: direct stores, or a grid whose blocks meet"),
        ("LEAN", "for few bytes in multiples of 4: stream_kernels/small_messages.py"),
        ("FAR", "a collective of a team with members that loads and stores do not reach"),
        ("MODULE", "added once more, the state word MODULE of these kernels"),
    ),
    at={"OP_SHIFT": 8, "TYPE_SHIFT": 16, "WIDE": 1 << 24, "LEAN": 1 << 25, "FAR": 1 << 26}
    | {"MODULE": 1 << 30},
)

SIZES = Group(
    "ishmemx_sizes",
    "ISHMEMX_",
    "Sizes that the library and kernels share.",
    (
        ("DEVICE_STAGE_BYTES", "of a half of a team's stage"),
        ("LL_HALF_BYTES", "of a half of what a team's members store data with flags to"),
        ("MAX_TEAMS", "of a PE at a time, predefined ones included"),
        (
            "MAX_NEAR_PES",
            "of a node of kernels, a power of two: the state block has room for so many",
        ),
        ("MAX_HANDLERS", ""),
        ("RING_OPS", "operations of a request, and one that is none"),
        ("FAR", "in DELTA; no distance, for those are multiples of a page"),
        ("TEAM_OF_ROUNDS", "in NEAR: a flag a round, from the member 2^round in front"),
        ("HOST_WORDS", "that streams may wait for at a time"),
    ),
    at={"DEVICE_STAGE_BYTES": 64 * 1024, "LL_HALF_BYTES": 256 * 1024}
    | {"MAX_TEAMS": 64, "MAX_HANDLERS": 64}
    | {"MAX_NEAR_PES": STATE.MODULE - STATE.DELTA, "RING_OPS": REQUEST_OP.COUNT}
    | {"FAR": 1, "TEAM_OF_ROUNDS": -1, "HOST_WORDS": 512},
)

PRINT = Group(
    "pysh_print_kind",
    "PYSH_PRINT_",
    "What the value of a PRINT is.",
    (("INT", ""), ("FLOAT", ""), ("TEXT", "")),
    public=False,
)

RING_AWAITS = Group(
    "pysh_ring_awaits",
    "PYSH_AWAITS_",
    "What a slow wait for the ring is for, beside a ticket; QUIET: beside the number that it waits for.",
    (
        ("NOTHING", ""),
        ("CREDIT", "room for its request"),
        ("CELL", "the reader of the reply before"),
        ("REPLY", ""),
        ("COPY", "a reply by the copy engine's stream"),
        ("QUIET", ""),
    ),
    public=False,
)

RING = Group(
    "pysh_ring_constant",
    "PYSH_RING_",
    "Bytes in the ring's control block and in its words in device memory; see host_proxy/ring.h.",
    (
        ("MAX_RINGS", ""),
        ("CREDIT", "the proxy publishes `consumed` every so many requests, and when it goes idle"),
        ("CONTROL_CONSUMED", ""),
        ("CONTROL_ASKED", ""),
        ("CONTROL_ACKED", ""),
        ("CONTROL_WAITER", "who has waited for long: 16 bytes, see pysh_ring_waiter()"),
        ("CONTROL_CELLS", ""),
        ("DEVICE_TICKET", ""),
        ("DEVICE_CONSUMED", ""),
        ("DEVICE_PENDING", ""),
        ("DEVICE_ACKED", ""),
        ("DEVICE_NOTED", "when CONTROL_WAITER was stored last, and its ticket"),
        ("DEVICE_WORDS", ""),
        ("CELL_BYTES", ""),
        ("BUSY_LEFT_BIT", "in busy[]: a tag whose reply its sender gave up"),
        ("BUSY_ENGINE_BIT", "in busy[]: that reply is one for device.done[]"),
        ("BUSY_TURN_BIT", "in busy[]: from here on the upper half of the last user's ticket"),
    ),
    at={"MAX_RINGS": MAX_RINGS, "CREDIT": 128, "CELL_BYTES": 16}
    | {"CONTROL_CONSUMED": 0, "CONTROL_ASKED": 128, "CONTROL_ACKED": 256}
    | {"CONTROL_WAITER": 384, "CONTROL_CELLS": 512}
    | {"DEVICE_TICKET": 0, "DEVICE_CONSUMED": 128, "DEVICE_PENDING": 256, "DEVICE_ACKED": 384}
    | {"DEVICE_NOTED": 512, "DEVICE_WORDS": 640}
    | {"BUSY_LEFT_BIT": 32, "BUSY_ENGINE_BIT": 33, "BUSY_TURN_BIT": 34},
    public=False,
)

GROUPS = (
    *(STATE, DEVICE_TEAM, STREAM_KERNEL, STREAM_KEY, SIZES, CUTOVER, FAULT, FAULT_FIELD),
    *(SIGNAL, CMP, TRACE),
    *(REQUEST_WORD, REQUEST_FLAG, REQUEST_OP, WAITING, PRINT, RING_AWAITS, RING),
)


def contract_hash(groups: tuple[Group, ...] = GROUPS) -> str:
    """Twelve hexadecimal digits that are others as soon as one name or number is another.

    All of the tables is in it but help and comments: whole rows of types, which C's dispatch is made of,
    which types each operation has, and settings, whose choices are numbers by their position. Structures
    of ``ishmemx.h`` that are in no group are not: the extension is compiled with them.
    """
    numbers = [(group.prefix, name, value) for group in groups for name, value, _ in group]
    types = [tuple(row) for row in (*type_table.ELEMENTS, *type_table.TYPENAMES)]
    families = [sorted(of.items()) for of in (type_table.FAMILIES, type_table.ATOMIC_FAMILY)]
    read = [tuple(row._replace(help="")) for row in settings.SETTINGS]
    text = repr((numbers, types, families, read, *type_table.NUMBERED))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


HASH = contract_hash()


def c_header(public: bool) -> str:
    """``ishmemx_contract.h``, which users of ``ishmemx.h`` see, or ``pysh_contract.h``. Freestanding."""
    lines = [
        "/* Made by pyshmem/_core/contract.py when the package is built. */",
        "#pragma once",
        "",
    ]
    if public:
        lines += [
            f'#define ISHMEMX_CONTRACT_TEXT "{HASH}"',
            f"#define ISHMEMX_CONTRACT 0x{HASH}LL",
            "",
        ]
    lines += [group.c_text() + "\n" for group in GROUPS if group.public == public]
    return "\n".join(lines)


if __name__ == "__main__":
    print(c_header(sys.argv[1] == "public"), end="")
