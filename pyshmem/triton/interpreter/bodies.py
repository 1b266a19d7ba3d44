# SPDX-License-Identifier: BSD-3-Clause
"""Primitives for Triton's interpreter: the names of ``primitives/gpu.py``, as Python on host memory.

A program is one thread here, so meeting is nothing, and a value is the same for all.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from ..._core.contract import WAITING
from ..._foreign.triton_interpreter import get_np_dtype
from ..runtime import constants as words
from ..runtime import context as job
from . import scheduler as interpreter
from .extents import touch as touch
from .scheduler import DeviceFunction, Ended, pause

device_function = DeviceFunction

_COMPARISONS = dict(
    enumerate((operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le), 1)
)
_POLLS_PER_CHECK = 64


def number(value: Any) -> int:
    """A Python int of a scalar of any kind."""
    if isinstance(value, tl.tensor):
        return int(value.handle.data.reshape(-1)[0])
    return int(getattr(value, "value", value))


def tensor(values: np.ndarray, dtype: Any, block: bool) -> tl.tensor:
    """A tensor of the interpreter; scalars are arrays of one element there."""
    handle = TensorHandle(values.astype(get_np_dtype(dtype)), dtype)
    return tl.tensor(handle, tl.block_type(dtype, list(values.shape)) if block else dtype)


def scalar(value: int, dtype: Any) -> tl.tensor:
    """The same of one integer, cut to the width of ``dtype``."""
    kind = get_np_dtype(dtype)
    cut = np.array([value & ((1 << 8 * kind.itemsize) - 1)], f"u{kind.itemsize}").view(kind)
    return tensor(cut, dtype, False)


def fixed(pointer: Any) -> tl.tensor:
    return tl.load(pointer).to(tl.int64)


def load_here(word: Any) -> None:
    pass


_context = 0  # address of the running job's state block


def _know_context(address: int) -> None:
    global _context
    _context = address


job.on_address(_know_context)


def _address(ctx: Any) -> int:
    """Of the state block: memory that is none is not looked into."""
    if ctx is None or number(ctx) != _context:
        raise TypeError(
            "ctx is not what shmem.context() gave the kernel: it is the argument behind pe"
        )
    return _context


def state(ctx: Any, word: Any) -> tl.tensor:
    _address(ctx)
    return fixed(tl.cast(ctx, tl.int64).to(tl.pointer_type(tl.int64)) + word)


def distance_to(pe: Any, ctx: Any) -> tl.tensor:
    return state(ctx, words.DELTA + pe)


def _word(ctx: Any, word: Any) -> int:
    return job.read(_address(ctx) + 8 * number(word), 8, True)


def threads() -> int:
    return 128  # as Triton's default


def program_barrier() -> None:
    pass


def prefetch(pointers: Any, nbytes: int | None = None) -> None:
    pass


def yield_turn() -> None:
    pause()


def now() -> tl.tensor:
    return scalar(job.now(), tl.int64)


def write_stage(begin: Any, label: Any, ctx: Any, priority: Any) -> None:
    program = interpreter.current()
    label, priority = (getattr(value, "value", value) for value in (label, priority))
    buffer = _word(ctx, words.STATE_TRACE)
    job.write_stage(
        buffer, number(begin), program.grid.number, program.number, label, int(priority)
    )


fence_all = job.fence


def fault(ctx: Any, kind: Any, op: Any, pe: int, a: int, b: int) -> None:
    """Keeps the first fault of the PE."""
    program = interpreter.current()
    values = (number(op), pe, program.grid.number, program.number, 0, a, b)
    job.record(_word(ctx, words.FAULT_CLAIM), _word(ctx, words.FAULT_RECORD), number(kind), values)


def _distance(pe: int, op: Any, ctx: Any) -> int:
    n_pes = _word(ctx, words.N_PES)
    if not 0 <= pe < n_pes:
        fault(ctx, words.FAULT_PE, op, pe, pe, n_pes)
        raise Ended
    distance = _word(ctx, number(words.DELTA) + pe)
    if distance == number(words.FAR):
        fault(ctx, words.FAULT_FAR, op, pe, pe, n_pes)
        raise Ended
    return distance


def reach_pe(pe: Any, op: Any, ctx: Any) -> tl.tensor:
    if isinstance(pe, tl.tensor) and pe.type.is_block():
        pes = _array(pe)
        distances = [_distance(int(one), op, ctx) >> 8 for one in pes.reshape(-1)]
        return tensor(np.array(distances, np.int64).reshape(pes.shape), tl.int64, True)
    return scalar(_distance(number(pe), op, ctx) >> 8, tl.int64)


def reach(pointer: Any, nbytes: Any, pe: Any, op: Any, ctx: Any) -> tl.tensor:
    distance, address, size = _distance(number(pe), op, ctx), number(pointer), number(nbytes)
    touch(pointer, None, size)
    offset = address - _word(ctx, words.HEAP_BASE)
    if offset < 0 or offset + size > _word(ctx, words.HEAP_BYTES):
        fault(ctx, words.FAULT_ADDRESS, op, number(pe), address, size)
        raise Ended
    moved = np.array([address + distance], np.uint64)
    return tl.tensor(TensorHandle(moved, pointer.handle.dtype), pointer.type)


#: When a wait is slow, and how often one of the PE's slow waits is reported to the host, in ns.
_SLOW, _REPORT_EVERY = 200_000_000, 250_000_000
_GAVE_UP = 1 << WAITING.GAVE_UP
_last_report = 0


class _Note(NamedTuple):
    """What a slow wait for the ring says of itself for reports, and where; see ``ptx.note_text``."""

    ticket: int
    awaits: int
    device: int
    control: int

    def leave(self, now: int) -> None:
        """Of several who wait, who has the lowest ticket, for which the others wait."""
        noted = self.device + number(words.RING_NOTED)
        last, ticket = (job.read(noted + 8 * k, 8, False) for k in (0, 1))
        if now - last > _REPORT_EVERY or self.ticket < ticket:
            waiter = self.control + number(words.CONTROL_WAITER)
            place = interpreter.current().number | (self.ticket & 0xFFFFF) << 44
            for k, value in ((0, now), (1, self.ticket)):
                job.release_set(noted + 8 * k, value)
            for k, value in ((0, self.ticket << 8 | self.awaits), (1, _cut(place, 8, True))):
                job.release_set(waiter + 8 * k, value)


class _Wait:
    """A wait's clock: ``turn`` lets others run, and says when it has to end."""

    def __init__(self, ctx: Any, op: Any, pe: int, cmp: Any = 0, note: _Note | None = None) -> None:
        self.reports, self.note = note is None, note
        self.ctx, self.pe = ctx, pe
        self.op = number(op) | number(cmp) << WAITING.CMP if self.reports else number(op)
        self.polls, self.start = 0, 0

    def turn(self, expected: int, seen: int) -> bool:
        global _last_report
        pause()
        self.polls += 1
        if self.polls % _POLLS_PER_CHECK:
            return True
        limit = _word(self.ctx, words.TIMEOUT_NS)
        if job.read(_word(self.ctx, words.FAULT_CLAIM), 8, False):
            return False
        now = job.time_awake()
        self.start = self.start or now
        if limit > 0 and now > self.start + limit:
            fault(self.ctx, words.FAULT_TIMEOUT, self.op, self.pe, expected, seen)
            self._report(_GAVE_UP, expected, seen)
            return False
        if now - self.start > _SLOW and self.note is not None:
            self.note.leave(now)
        elif now - self.start > _SLOW and now - _last_report > _REPORT_EVERY:
            _last_report = now
            self._report(0, expected, seen)
        return True

    def _report(self, flags: int, expected: int, seen: int) -> None:
        if self.reports:
            kernel, pe = interpreter.current().grid.number, self.pe & 0xFFFFFFFF
            place = interpreter.current().number
            wanted, found = _cut(expected, 8, True), _cut(seen, 8, True)
            what = self.op | flags
            job.tellers[0](words.REQUEST_WAITING, what, wanted, found, kernel, place, pe, self.ctx)


def poll(
    active: Any,
    pointer: Any,
    cmp: Any,
    cmp_value: Any,
    pe: Any,
    op: Any,
    ctx: Any,
    note: Any = None,
) -> tl.tensor:
    dtype = pointer.dtype.element_ty
    nbytes, signed = dtype.primitive_bitwidth // 8, dtype.is_int_signed()
    holds = _COMPARISONS[number(cmp)]
    shapes = [_array(value) for value in (active, pointer, cmp_value, pe)]
    actives, addresses, wanted, pes = np.broadcast_arrays(*shapes)
    touch(pointer, actives, None)
    seen = np.zeros(addresses.shape, get_np_dtype(dtype))
    for place in zip(*np.nonzero(actives), strict=True):
        expected = _cut(int(wanted[place]), nbytes, signed)
        about = note and note(place)
        clock = _Wait(ctx, op, int(pes[place]), cmp, about)
        while True:
            value = job.read(int(addresses[place]), nbytes, signed)
            if holds(value, expected) or not clock.turn(expected, value):
                break
        seen[place] = value
    job.fence()
    block = any(
        isinstance(value, tl.tensor) and value.type.is_block() for value in (active, pointer)
    )
    return tensor(seen, dtype, block)


def _array(value: Any) -> np.ndarray:
    return value.handle.data if isinstance(value, tl.tensor) else np.array([number(value)])


def _cut(value: int, nbytes: int, signed: bool) -> int:
    value &= (1 << 8 * nbytes) - 1
    return value - (1 << 8 * nbytes) if signed and value >> (8 * nbytes - 1) else value


def wait(pointer: Any, cmp: Any, cmp_value: Any, pe: Any, op: Any, ctx: Any) -> tl.tensor:
    return poll(1, pointer, cmp, cmp_value, pe, op, ctx)


def poll_ring(
    active: Any, pointer: Any, cmp: Any, cmp_value: Any, ticket: Any, awaits: Any, device: Any,
    control: Any, ctx: Any,
) -> tl.tensor:  # fmt: skip
    tickets = np.broadcast_to(_array(ticket), np.broadcast(*map(_array, (active, pointer))).shape)
    at = number(awaits), number(device), number(control)
    note = lambda place: _Note(int(tickets[place]), *at)  # noqa: E731
    return poll(active, pointer, cmp, cmp_value, -1, words.RING_WAIT, ctx, note)


def wait_ring(
    pointer: Any, cmp: Any, cmp_value: Any, ticket: Any, awaits: Any, device: Any, control: Any, ctx: Any
) -> tl.tensor:  # fmt: skip
    return poll_ring(1, pointer, cmp, cmp_value, ticket, awaits, device, control, ctx)


def scan(pointer: Any, nelems: Any, cmp: Any, cmp_value: Any, op: Any, ctx: Any) -> tl.tensor:
    dtype = pointer.dtype.element_ty
    nbytes, signed = dtype.primitive_bitwidth // 8, dtype.is_int_signed()
    holds, expected = _COMPARISONS[number(cmp)], _cut(number(cmp_value), nbytes, signed)
    clock, value = _Wait(ctx, op, -1, cmp), 0
    touch(pointer, None, number(nelems) * nbytes)
    while True:
        for index in range(number(nelems)):
            value = job.read(number(pointer) + index * nbytes, nbytes, signed)
            if holds(value, expected):
                job.fence()
                return scalar(index, tl.int64)
        if not clock.turn(expected, value):
            return scalar(-1, tl.int64)


def await_host(pointer: Any, least: Any, control: Any, device: Any, op: Any, ctx: Any) -> tl.tensor:
    asked = number(control) + 8 * number(words.CONTROL_ASKED)
    note = _Note(number(least), number(words.AWAITS_QUIET), number(device), number(control))
    clock, value = _Wait(ctx, op, -1, note=note), -1
    while value < number(least):
        if clock.polls % _POLLS_PER_CHECK == 0:
            job.release_set(asked, number(least))
        value = job.read(number(pointer), 8, True)
        if value < number(least) and not clock.turn(number(least), value):
            break
    job.fence()
    return scalar(value, tl.int64)


def fetch(pointer: Any) -> tl.tensor:
    touch(pointer, None, None)
    pause()  # who looks in a loop lets the other programs run
    dtype = pointer.dtype.element_ty
    value = job.read(number(pointer), dtype.primitive_bitwidth // 8, False)
    job.fence()
    return scalar(value, dtype)


def read_words(active: Any, pointer: Any) -> tl.tensor:
    dtype = pointer.dtype.element_ty
    actives, addresses = np.broadcast_arrays(_array(active), _array(pointer))
    words_there = np.zeros(addresses.shape, get_np_dtype(dtype))
    for place in zip(*np.nonzero(actives), strict=True):
        nbytes, signed = dtype.primitive_bitwidth // 8, dtype.is_int_signed()
        words_there[place] = job.read(int(addresses[place]), nbytes, signed)
    job.fence()
    return tensor(words_there, dtype, True)


def set_words(active: Any, pointer: Any, value: Any) -> None:
    actives, addresses, values = np.broadcast_arrays(*map(_array, (active, pointer, value)))
    for place in zip(*np.nonzero(actives), strict=True):
        job.release_set(int(addresses[place]), int(values[place]))


def release_set(pointer: Any, value: Any) -> None:
    job.release_set(number(pointer), number(value))


def release_add(pointer: Any, value: Any) -> None:
    job.release_add(number(pointer), number(value))


def relaxed_word(adds: Any, pointer: Any, value: Any) -> None:
    (release_add if adds else release_set)(pointer, value)


def record(kind: Any, op: Any, a: Any, b: Any, ctx: Any) -> None:
    fault(ctx, kind, op, -1, number(a), number(b))


def end_with(kind: Any, op: Any, a: Any, b: Any, ctx: Any) -> None:
    record(kind, op, a, b, ctx)
    raise Ended


def await_packets(active: Any, pointer: Any, call: Any, pe: Any, op: Any, ctx: Any) -> tl.tensor:
    wanted = number(call) & 0xFFFFFFFF
    actives, addresses, pes = np.broadcast_arrays(*map(_array, (active, pointer, pe)))
    data = np.zeros(addresses.shape, np.uint32)
    for place in zip(*np.nonzero(actives), strict=True):
        clock = _Wait(ctx, op, int(pes[place]))
        while True:
            packet = job.read(int(addresses[place]), 8, False)
            if packet >> 32 == wanted or not clock.turn(wanted, packet >> 32):
                break
        data[place] = packet & 0xFFFFFFFF
    return tensor(data, tl.uint32, True)


def await_packet_pairs(
    active: Any, pointer: Any, call: Any, pe: Any, op: Any, ctx: Any
) -> tuple[tl.tensor, tl.tensor]:
    return await_packets(active, pointer, call, pe, op, ctx), await_packets(
        active, pointer + 1, call, pe, op, ctx
    )


def store_wide_packets(
    active: Any, pointer: Any, first: Any, second: Any, third: Any, call: Any
) -> None:
    """The half with the call's number is stored last, and read first."""
    tiles = (_array(one) for one in (active, pointer, first, second, third))
    actives, addresses, *words_of = np.broadcast_arrays(*tiles)
    wanted = (number(call) & 0xFFFFFFFF) << 32
    for place in zip(*np.nonzero(actives), strict=True):
        one, two, three = (int(word[place]) for word in words_of)
        job.write(int(addresses[place]), one | two << 32)
        job.release_set(int(addresses[place]) + 8, three | wanted)


def await_wide_packets(
    active: Any, pointer: Any, call: Any, pe: Any, op: Any, ctx: Any
) -> tuple[tl.tensor, ...]:
    last = await_packets(active, pointer + 1, call, pe, op, ctx)
    job.fence()
    actives, addresses = np.broadcast_arrays(_array(active), _array(pointer))
    data = np.zeros(addresses.shape, np.uint64)
    for place in zip(*np.nonzero(actives), strict=True):
        data[place] = job.read(int(addresses[place]), 8, False)
    low, high = data & np.uint64(0xFFFFFFFF), data >> np.uint64(32)
    return tensor(low, tl.uint32, True), tensor(high, tl.uint32, True), last


def store_quads(
    active: Any, wide: Any, narrow: Any, first: Any, second: Any, third: Any, fourth: Any, call: Any
) -> None:
    store_wide_packets(active, wide, first, second, third, call)
    actives, addresses, last = np.broadcast_arrays(*map(_array, (active, narrow, fourth)))
    for place in zip(*np.nonzero(actives), strict=True):
        packet = int(last[place]) | (number(call) & 0xFFFFFFFF) << 32
        job.release_set(int(addresses[place]), packet)


def await_quads(
    active: Any, wide: Any, narrow: Any, call: Any, pe: Any, op: Any, ctx: Any
) -> tuple[tl.tensor, ...]:
    three = await_wide_packets(active, wide, call, pe, op, ctx)
    return *three, await_packets(active, narrow, call, pe, op, ctx)


def store_requests(slot: Any, phase: Any, inside: Any, kind: Any, *named: Any) -> None:
    dest, source, value, extra, extra2, pe = named
    order = (dest, source, value, extra, extra2, pe, kind)
    given = np.broadcast_arrays(*map(_array, order), _array(phase))
    words, phases = np.stack(given[:7]).astype(np.int64).view(np.uint64), given[7].astype(np.uint64)
    places = 8 * np.arange(7, dtype=np.uint64)[:, None]
    last = (words >> np.uint64(56) << places).sum(axis=0)  # a byte each
    low = np.uint64((1 << 56) - 1)
    marked = np.concatenate([words & low, last[None, :]]) | phases << np.uint64(56)
    addresses = _array(slot)
    for place in np.flatnonzero(_array(inside)):
        for number_of_word, word in enumerate(marked[:, place].tolist()):
            job.write(int(addresses[place]) + 8 * number_of_word, word)
