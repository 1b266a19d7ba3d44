# SPDX-License-Identifier: BSD-3-Clause
"""Stores of interpreted programs that are late, with PYSHMEM_CHECK=deliver.

What a program stores on a heap, its own or a peer's, is kept: others see it some turns later, in any
order, and parts of a tile by themselves. The program itself sees it at once, as a thread of a GPU does,
and stores to one place stay in order. What it has stored arrives before a fence or a release of its own
goes on. When the kernel ends this PE has all that is for itself, and peers what a quiet of the host
brings them. Requests for copy engines are done when they arrive, without the ring.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from ..._foreign import triton_interpreter as foreign
from ...check import memory
from ...check.record import held
from ..runtime import context as job
from . import bodies, scheduler

#: Routines before which a program gives its turn away, and how often another program or PE gets it.
_OTHER_PE, _OTHER_PROGRAM, _WAKES_LATE = 0.1, 0.3, 0.3
_QUIETS = ("fence", "quiet", "sync", "barrier", "sync_grid", "barrier_grid")
#: Of a store of a tile: how often it arrives in two parts.
_TORN = 0.3


def _delivery() -> Any:
    """What keeps stores, where a program runs; None: nothing is late."""
    return held() if scheduler.in_kernel() else None


def _key() -> tuple[int, int]:
    """The running program's, in the place of a context's and a PE's."""
    return -1 - scheduler.current().number, 0


def _all_arrives(delivery: Any) -> None:
    """What the running program has stored, one after the other; others run meanwhile."""
    while delivery.some_arrives(_key()):
        if delivery.random.random() < _OTHER_PROGRAM:
            scheduler.pause(idle=False)


def _target(low: int, high: int) -> int | None:
    """The PE on whose heap a range of addresses is; None: it is on none, or on more than one."""
    first, last = memory.where(low), memory.where(high - 1)
    return first[0] if first and last and first[:2] == last[:2] else None


# ---- elements ------------------------------------------------------------------------------------


def _range(pointers: Any, on: np.ndarray) -> tuple[int, int] | None:
    """First and last byte, and one, of what a tile of pointers is at; None: nothing."""
    addresses = np.broadcast_to(np.asarray(pointers.data), on.shape)[on]
    if not addresses.size:
        return None
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    return int(addresses.min()), int(addresses.max()) + size


def _mask_of(pointers: Any, mask: Any) -> np.ndarray:
    data = np.asarray(pointers.data)
    return np.ones(data.shape, bool) if mask is None else np.asarray(mask.data).astype(bool)


def _touches(delivery: Any, pointers: Any, mask: Any) -> None:
    """The program looks at a tile: what it has stored there has arrived."""
    if (place := _range(pointers, _mask_of(pointers, mask))) is not None:
        delivery.arrives_at(_key(), *place)


def _load(plain: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, pointers: Any, mask: Any, other: Any, *hints: Any) -> Any:
        if (delivery := _delivery()) is not None:
            _touches(delivery, pointers, mask)
        return plain(self, pointers, mask, other, *hints)

    return load


def _store(plain: Callable[..., Any]) -> Callable[..., Any]:
    def store(self: Any, pointers: Any, value: Any, mask: Any, *hints: Any) -> Any:
        delivery = _delivery()
        if delivery is None or delivery.is_free:
            return plain(self, pointers, value, mask, *hints)
        on = _mask_of(pointers, mask)
        for part in _parts(delivery.random, on):
            place = _range(pointers, part)
            if place is None:
                continue
            some = TensorHandle(part, tl.int1)
            call = functools.partial(plain, self, pointers, value, some, *hints)
            if memory.where(place[0]) is None:
                delivery.arrives_at(_key(), *place)
                call()
            else:
                delivery.keep(call, _key(), place, _target(*place))
        return None

    return store


def _parts(random: Any, on: np.ndarray) -> list[np.ndarray]:
    """A tile's mask, or those of two parts of it."""
    if on.size < 2 or random.random() >= _TORN:
        return [on]
    first = np.arange(on.size).reshape(on.shape) < random.randrange(1, on.size)
    return [on & first, on & ~first]


def _before_atomic(delivery: Any, pointers: Any, mask: Any, sem: Any) -> None:
    if "RELEASE" in str(sem).upper():
        _all_arrives(delivery)
    else:
        _touches(delivery, pointers, mask)


def _rmw(plain: Callable[..., Any]) -> Callable[..., Any]:
    def rmw(self: Any, op: Any, pointer: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if (delivery := _delivery()) is not None:
            _before_atomic(delivery, pointer, mask, sem)
        return plain(self, op, pointer, value, mask, sem, scope)

    return rmw


def _cas(plain: Callable[..., Any]) -> Callable[..., Any]:
    def cas(self: Any, pointer: Any, compare: Any, value: Any, sem: Any, scope: Any) -> Any:
        if (delivery := _delivery()) is not None:
            _before_atomic(delivery, pointer, None, sem)
        return plain(self, pointer, compare, value, sem, scope)

    return cas


def _atomic_store(plain: Callable[..., Any]) -> Callable[..., Any]:
    def store(self: Any, pointer: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if (delivery := _delivery()) is not None:
            _before_atomic(delivery, pointer, mask, sem)
        return plain(self, pointer, value, mask, sem, scope)

    return store


# ---- words, by their addresses -------------------------------------------------------------------


def _word(plain: Callable[..., Any], address: int, value: int, releases: bool) -> None:
    """A word is stored, or changed: behind all that the program has stored, if it ``releases``."""
    delivery = _delivery()
    if delivery is None or delivery.is_free:
        plain(address, value)
        return
    if releases:
        _all_arrives(delivery)
    if memory.where(address) is None:
        plain(address, value)
        return
    call = functools.partial(plain, address, value)
    delivery.keep(call, _key(), (address, address + 8), _target(address, address + 8))


def _late_word(releases: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(plain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda address, value: _word(plain, address, value, releases)

    return around


def _read(plain: Callable[..., Any]) -> Callable[..., Any]:
    def read(address: int, nbytes: int, signed: bool) -> int:
        if (delivery := _delivery()) is not None:
            delivery.arrives_at(_key(), address, address + nbytes)
        found: int = plain(address, nbytes, signed)
        return found

    return read


def _relaxed(sets: Callable[..., Any], adds: Callable[..., Any]) -> Callable[..., Any]:
    def relaxed_word(is_add: Any, pointer: Any, value: Any) -> None:
        _word(adds if is_add else sets, bodies.number(pointer), bodies.number(value), False)

    return relaxed_word


def _fence(plain: Callable[..., Any]) -> Callable[..., Any]:
    def fence_all() -> None:
        if (delivery := _delivery()) is not None:
            _all_arrives(delivery)
        plain()

    return fence_all


# ---- routines ------------------------------------------------------------------------------------


def _chunk(given: dict[str, Any]) -> tuple[int, int, int, int, Any] | None:
    """dest, source, bytes, PE and heap of a chunk; None: the routine says what is wrong."""
    ends, word = (given["dest"], given["source"]), given.get("sig_addr")
    if any(one.type.is_block() for one in ends) or ends[0].dtype != ends[1].dtype:
        return None
    if isinstance(word, tl.tensor) and word.dtype.element_ty.primitive_bitwidth != 64:
        return None
    dest, source = bodies.number(given["dest"]), bodies.number(given["source"])
    kind, pe = given["dest"].dtype.element_ty, bodies.number(given["pe"])
    nbytes = bodies.number(given["nelems"]) * (kind.primitive_bitwidth // 8)
    symmetric = memory.where(dest if "sig_addr" in given else source)
    peers = {of for _, _, of, _ in memory.windows()}
    if nbytes < 1 or symmetric is None or symmetric[0] != memory.me or pe not in peers:
        return None
    return dest, source, nbytes, pe, symmetric[1]


def _on(pe: int, address: int) -> int:
    """Where a PE keeps what is at an address here."""
    _, heap, offset = memory.where(address) or (0, 0, 0)
    return memory.base_of(pe, heap) + offset


def _put_chunk(delivery: Any, given: dict[str, Any]) -> bool:
    if (chunk := _chunk(given)) is None:
        return False
    dest, source, nbytes, pe, _ = chunk
    signal = given["sig_addr"]
    word = bodies.number(signal) if isinstance(signal, tl.tensor) else 0
    value = bodies.number(given["signal"])

    def arrives() -> None:
        ctypes.memmove(_on(pe, dest), source, nbytes)
        if word:
            _sets(_on(pe, word), value)

    delivery.keep_request(arrives, pe)
    return True


def _get_chunk(delivery: Any, given: dict[str, Any]) -> bool:
    if (chunk := _chunk(given)) is None:
        return False
    dest, source, nbytes, pe, _ = chunk
    delivery.keep_request(lambda: ctypes.memmove(dest, _on(pe, source), nbytes), pe)
    return True


_CHUNKS = {("requests", "put_chunk"): _put_chunk, ("requests", "get_chunk"): _get_chunk}
_sets: Callable[..., Any]


def called(
    module: str, name: str, bind: Callable[..., dict[str, Any]], plain: Callable[..., Any]
) -> Callable[..., Any]:
    """A routine of the library: others may come first, and a wait wakes late."""
    request, quiets = _CHUNKS.get((module, name)), module == "ordering" and name in _QUIETS
    waits = module == "signals" and "wait" in name

    def call(*arguments: Any, **named: Any) -> Any:
        delivery = _delivery()
        if delivery is None:
            return plain(*arguments, **named)
        if not scheduler.current().inside:
            _gives_way(delivery)
        if request is not None or quiets:
            _all_arrives(delivery)
        if quiets:
            delivery.all_arrives(0)
        if request is not None and request(delivery, bind(arguments, named)):
            return None
        scheduler.current().inside += 1
        try:
            result = plain(*arguments, **named)
        finally:
            scheduler.current().inside -= 1
        if waits and delivery.random.random() < _WAKES_LATE:
            delivery.pass_on()
        return result

    return call


def _gives_way(delivery: Any) -> None:
    chance = delivery.random.random()
    if chance < _OTHER_PE:
        delivery.pass_on()
    elif chance < _OTHER_PROGRAM:
        scheduler.pause(idle=False)


def kernel_ends() -> None:
    """What programs have stored for this PE has arrived."""
    if (delivery := held()) is not None:
        delivery.kernel_ends()


def install() -> None:
    """Puts what is late around the interpreter's loads, stores and atomics, and around words.

    Before ``primitives.backend`` takes those of ``bodies``, and below what records.
    """
    global _sets
    _sets = job.release_set
    foreign.LOAD.wrap(_load)
    foreign.STORE.wrap(_store)
    foreign.ATOMICS[0].wrap(_cas)
    foreign.ATOMICS[1].wrap(_rmw)
    foreign.repair({"create_atomic_store": _atomic_store})
    bodies.relaxed_word = _relaxed(job.release_set, job.release_add)
    bodies.fence_all = _fence(bodies.fence_all)
    for name, around in (
        ("read", _read), ("write", _late_word(False)),
        ("release_set", _late_word(True)), ("release_add", _late_word(True)),
    ):  # fmt: skip
        setattr(job, name, around(getattr(job, name)))
