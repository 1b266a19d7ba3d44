# SPDX-License-Identifier: BSD-3-Clause
"""What a PE has sent and has not arrived yet.

A put that has returned is kept here with a copy of its source, a non-blocking one without. It arrives
at some later turn, at once, or when it has to: behind a quiet or a barrier, before what a fence has put
behind it, and where all PEs wait. To oneself all arrives at once.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..._core.errors import ShmemError
from ..._core.library import lib, setting_number
from ...host import locks
from ...host.job import runtime
from .. import effects, log, memory
from . import lanes
from .accepted import SENDING
from .turns import NEVER, TESTED, WAITED, Turns

Call = Callable[..., Any]

#: Routines whose source may be changed when they have returned.
_COPIED = ("put", "p", "iput", "ibput", "put_signal")
_KEPT = SENDING | {
    "get_nbi",
    *(name for name in effects.ROUTINES if name.startswith("atomic_") and name.endswith("_nbi")),
}
_QUIETS = ("quiet", "pe_quiet", "Context.quiet", "Context.pe_quiet", "Context.destroy")
#: As barriers begin, of the host and of kernels, those of torch and of Triton.
_ALL = (effects.QUIET, ("Q", None, None))


def _completes_all(before: Any) -> bool:
    """Whether a call promises that what was begun before has arrived, and so lets all of it arrive."""
    return any(effect in _ALL for effect in before)


class _Sent(NamedTuple):
    """An operation that has not arrived."""

    call: Callable[[], Any]
    key: tuple[int, int]  # context and PE, between which a fence orders; or of a program of Triton
    epoch: int  # how many fences came before
    due: int  # the turn at which it arrives, if nothing makes it arrive before
    place: tuple[int, int] | None = None  # addresses: what is stored at one place stays in order
    target: int | None = None  # of a program's store: the PE, if it is one
    of_kernel: bool = False

    def follows(self, other: _Sent) -> bool:
        """Does it arrive after ``other``, which was sent before?"""
        return self.key == other.key and (
            other.epoch < self.epoch or _overlap(self.place, other.place)
        )


class Held:
    """What this PE has sent, and how calls of routines wait for their turns.

    Args:
        turns: the job's.
        pe: this PE.
    """

    def __init__(self, turns: Turns, pe: int) -> None:
        self._turns, self._pe = turns, pe
        self._sent: list[_Sent] = []
        self._epochs: dict[int, int] = {}  # by context
        self.random = random.Random()
        self.lanes = lanes.Lanes(turns, self.random, self._tell_due)
        self.stores_reach_peers = False  # by what ptr has returned
        self.is_busy = False  # in a collective, whose members all run, or between jobs
        turns.arrive = self._arrive

    def begin(self, job: int) -> None:
        """A job begins; PE 0 tells the seed, so that a run can be repeated."""
        seed = setting_number("CHECK_SEED")
        told = seed if seed >= 0 else random.SystemRandom().randrange(1 << 31)
        self._turns.begin(job, told)
        self.random.seed(f"{self._turns.seed}/{self._pe}")
        self.stores_reach_peers = self.is_busy = False
        self.lanes = lanes.Lanes(self._turns, self.random, self._tell_due)
        if self._pe == 0 and not quiet_about_seeds:
            print(f"pyshmem: deliver: --seed {told} repeats this order of the PEs", file=sys.stderr)

    def end(self) -> None:
        """A job ends: all arrives."""
        if not self._turns.free:
            self._turns.pass_on()
        self.finish()
        self.all_arrives()
        self._turns.end()
        self.is_busy = True  # until the next one: nothing takes turns at exit

    # ---- calls -----------------------------------------------------------------------------------

    def call(self, name: str, function: Call, bound: inspect.BoundArguments, before: Any) -> Any:
        """``function``, a routine of the host, whose effects before the call are ``before``."""
        self._step()

        def run() -> Any:
            return function(*bound.args, **bound.kwargs)

        if name in _KEPT:
            return self._send(name, function, bound)
        if name in _QUIETS:
            given = bound.arguments
            ctx, pes = given.get("ctx", given.get("self")), given.get("pes")
            to = None if pes is None else [effects._world_pe(ctx, pe) for pe in pes]
            self.all_arrives(effects._ctx(ctx), to)
            return run()
        return self._ordered(name, run, bound.arguments, before)

    def _ordered(self, name: str, run: Callable[[], Any], given: Any, before: Any) -> Any:
        if _completes_all(before) or name == "Team.destroy":
            self.all_arrives()
        for effect in before:
            if effect[0] == "F":
                self.fence(effect[1])
            elif effect[0] == "E" and not effect[1][1]:
                return self._turns.meet(_number(effect[1]), len(effect[1][0][0]), run)
            elif effect[0] == "N" and effect[1] == "words":
                self._wait(functools.partial(_ready, given, effect))
        if name == "Team.destroy":
            key, _, n = effects._key_of(given["self"])
            return self._turns.meet(_number((key, "destroy")), n, run)
        if name in ("set_lock", "Lock.set"):
            lock = given["lock"] if name == "set_lock" else given["self"].word
            self._wait(lambda: locks.test_lock(lock), TESTED)
            return None
        if name == "Request.wait":
            self._wait(given["self"].test, TESTED)
        if name.startswith("atomic_"):
            self.before_atomic(given)
        return self._looked(name, run())

    def _looked(self, name: str, result: Any) -> Any:
        """What finds nothing may be called again and again: others come first."""
        looks = name.startswith("test") or name.endswith(".test")
        if (looks and (result is False or result is None)) or (
            name in ("g", "signal_fetch", "atomic_fetch") and self.random.random() < 0.3
        ):
            self._poll(TESTED)
        return result

    def meeting(self, before: Any, run: Callable[[], Any]) -> Any:
        """A collective as a whole: of allocation, of torch, a fused operation. In it nothing is late."""
        if _completes_all(before):
            self.all_arrives()
        (key,) = (effect[1] for effect in before if effect[0] == "E")
        return self.together(key, len(key[0][0]), run)

    def together(self, key: Any, count: int, run: Callable[[], Any]) -> Any:
        """``run`` on ``count`` PEs, which name it so: all of them go on, and nobody else."""

        def busy() -> Any:
            self.is_busy = True
            try:
                return run()
            finally:
                self.is_busy = False

        return self._turns.meet(_number(key), count, busy)

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """The program waits for a word, and others run."""
        self._step()
        self._wait(ready)

    def _wait(self, ready: Callable[[], bool], how: int = WAITED) -> None:
        while not ready():
            if self._turns.free:
                self.all_arrives()
                if how == WAITED:
                    return  # the routine waits itself
                lib.ishmemx_leaf_fence()
            self._poll(how)
        if how == WAITED and self.random.random() < 0.3:  # it wakes late
            self.pass_on()

    def _step(self) -> None:
        if self._turns.free:
            self.all_arrives()
        elif self.random.random() < 0.5:
            self.pass_on()
        else:
            self._turns.acted()
            self._arrive(False)

    def _poll(self, how: int) -> None:
        """Nothing has changed: others come first."""
        if (lane := lanes.current()) is not None:
            lane.gives_way(False)
        else:
            self._turns.poll(how)

    # ---- streams and process groups ---------------------------------------------------------------

    def finish(self, *keys: Any) -> None:
        """The program waits for all that is on some streams, or on all that it has."""
        self.waits(lambda: not self.lanes.pending(*keys))

    def waits(self, ready: Callable[[], bool]) -> None:
        """The program waits for something of this PE."""
        self._wait(ready)

    def put(self, key: Any) -> lanes.Lane:
        """The program puts an operation on a stream: the gate before it."""
        lane = self.lanes.of(key)
        self._step()
        lane.put()
        return lane

    @contextlib.contextmanager
    def met(self, lane: lanes.Lane, key: Any, count: int) -> Iterator[None]:
        """An operation in a lane's thread that ``count`` of them do together, and name so."""
        lane.enter()
        try:
            if count > 1:
                lane.meet(_number(key), count)
            yield
        finally:
            lane.leave()

    def has_put(self) -> None:
        """An operation is in its queue: it may come at once."""
        self._step()

    def looks(self, done: Callable[[], bool]) -> bool:
        """Does it hold? Else others come first."""
        self._step()
        if not done():
            self._turns.poll(TESTED)
        return done()

    def looks_at(self, key: Any) -> bool:
        """Is all done that is on a stream? Else others come first."""
        return self.looks(lambda: not self.lanes.pending(key))

    def on_stream(self, lane: lanes.Lane, name: str, given: Any, before: Any) -> None:
        """An operation of a stream, in its thread, behind its gate: what it waits for is there."""
        if name in (*_QUIETS, "fence", "Context.fence") or ("K",) in before:
            self._arrives(one for one in self._sent if one.of_kernel)
        for effect in before:
            if effect[0] == "E" and effect[1][1] == "stream":
                lane.meet(_number(effect[1]), len(effect[1][0][0]))
            elif effect[0] == "N" and effect[1] == "words":
                lane.until(functools.partial(_ready, given, effect))
            elif effect[0] == "N":
                lane.until(functools.partial(_is_over, given["self"]))

    # ---- kernels of the simulator ----------------------------------------------------------------

    def in_kernel(self, base: str, given: Any, before: Any, host: Any, how: Any) -> Any:
        """A routine of a thread, or of a group: ``how`` it is called, meets, and whether this one leads.

        What is kept is sent later by ``host``, the host's routine of the same name; None: it is not
        kept.
        """
        plain, meet, leads = how
        if host is not None and _counts_fit(given):
            meet()
            if leads:
                self._send_of_kernel(base, given, host)
            if base in _COPIED:
                meet()  # nobody changes the source before the one that leads has a copy
            return None
        if base in ("quiet", "pe_quiet", "fence") or _completes_all(before):
            meet()
            if leads and base == "fence":
                self.fence(0)
            elif leads:
                self.all_arrives(0, given.get("pes") if base == "pe_quiet" else None)
        elif base.startswith("atomic_") and "pe" in given:
            self.before_atomic(given)
        self.stores_reach_peers |= base == "ptr"
        return plain()

    def _send_of_kernel(self, base: str, given: dict[str, Any], host: Any) -> None:
        names = inspect.signature(host).parameters
        some = {key: value for key, value in given.items() if key in names}
        if base in _COPIED and "source" in some:
            some["source"] = np.array(np.asarray(some["source"]))
        self.send(lambda: host(**some), 0, given["pe"], of_kernel=True)

    def round(self, idle: bool) -> None:
        """The threads of a kernel have run: other PEs may."""
        if self._turns.free:
            self.all_arrives()
        elif idle:
            self._poll(TESTED)
        else:
            self._step()

    # ---- programs of Triton ----------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether turns were given up: nothing is late from here on."""
        return self._turns.free

    def keep(
        self, call: Call, key: tuple[int, int], place: tuple[int, int], target: int | None
    ) -> None:
        """A store of a program to some addresses, on the heap of ``target``, or of several PEs."""
        self._sent.append(_Sent(call, key, 0, self._due(), place, target, True))
        self._arrive(False)

    def keep_request(self, call: Call, target: int) -> None:
        """A request for a copy engine, also one for this PE: it is done some time before quiet."""
        epoch = self._epochs.get(0, 0)
        self._sent.append(_Sent(call, (0, target), epoch, self._due(), of_kernel=True))
        self._arrive(False)

    def arrives_at(self, key: tuple[int, int], low: int, high: int) -> None:
        """A program looks at addresses, and sees what it has stored there."""
        if self._sent:
            here = low, high
            self._arrives(one for one in self._sent if one.key == key and _overlap(one.place, here))

    def some_arrives(self, key: tuple[int, int]) -> bool:
        """Something of a program arrives, in whatever order; False: there was nothing."""
        left = [one for one in self._sent if one.key == key]
        if left:
            if self.random.random() < 0.2:
                self.pass_on()
            self._arrives([self.random.choice(left)])
        return bool(left)

    def pass_on(self) -> None:
        """Other PEs come first."""
        if (lane := lanes.current()) is not None:
            lane.gives_way(True)
        else:
            self._turns.pass_on()

    def kernel_ends(self) -> None:
        """What its programs have stored here is there; the rest is as what the host has put."""
        mine = (None, self._pe)
        self._arrives(one for one in self._sent if one.key[0] < 0 and one.target in mine)
        epoch = self._epochs.get(0, 0)
        self._sent = [
            one
            if one.key[0] >= 0
            else one._replace(key=(0, -1 if one.target is None else one.target), epoch=epoch)
            for one in self._sent
        ]

    # ---- what is on its way ----------------------------------------------------------------------

    def _send(self, name: str, function: Call, bound: inspect.BoundArguments) -> Any:
        given = bound.arguments
        if name in _COPIED and "source" in given:
            given["source"] = np.array(np.asarray(given["source"]))
        ctx = effects._ctx(given.get("ctx"))
        target = effects._world_pe(given.get("ctx"), given["pe"])
        return self.send(lambda: function(*bound.args, **bound.kwargs), ctx, target)

    def send(self, call: Callable[[], Any], ctx: int, target: int, of_kernel: bool = False) -> Any:
        """``call`` sends something to PE ``target``: now, or later."""
        due = self._due()
        if target == self._pe or self._turns.free:
            with log.unseen():
                return call()
        epoch = self._epochs.get(ctx, 0)
        self._sent.append(_Sent(call, (ctx, target), epoch, due, of_kernel=of_kernel))
        self._arrive(False)
        return None

    def _due(self) -> int:
        """A turn in which what is sent now arrives."""
        return self.lanes.later()

    def fence(self, ctx: int) -> None:
        """What is sent later to a PE passes nothing of what was."""
        self._epochs[ctx] = self._epochs.get(ctx, 0) + 1
        if self.stores_reach_peers:
            self.all_arrives(ctx)

    def before_atomic(self, given: Any) -> None:
        """An atomic operation that fetches comes behind what a fence has put before it."""
        key = effects._ctx(given["ctx"]), effects._world_pe(given["ctx"], given["pe"])
        epoch = self._epochs.get(key[0], 0)
        self._arrives(one for one in self._sent if one.key == key and one.epoch < epoch)

    def all_arrives(self, ctx: int | None = None, targets: Iterable[int] | None = None) -> None:
        """What was sent through a context to some PEs, or all, in any order that fences leave.

        It takes its time: other PEs run meanwhile.
        """
        to = None if targets is None else frozenset(targets)

        def left() -> list[_Sent]:
            return [
                one
                for one in self._sent
                if (ctx is None or one.key[0] == ctx) and (to is None or one.key[1] in to)
            ]

        while some := left():
            if self.random.random() < 0.5:
                self.pass_on()
            elif self.random.random() < 0.3:
                self._arrives(some)
            else:
                self._arrives([self.random.choice(some)])

    def _arrive(self, urgent: bool) -> bool:
        """What is due arrives; ``urgent``: at least one does."""
        step = self._turns.step
        due = [one for one in self._sent if one.due <= step]
        if urgent and not due and self._sent and self.random.random() < self._share_of_sent():
            due = [self.random.choice(self._sent)]
        self._arrives(due)
        # Streams and groups go on in the program's thread alone, which lends them its turn.
        did = lanes.current() is None and self.lanes.go_on(urgent and not due)
        if due or did:
            self._turns.acted()
        return bool(due) or did

    def _arrives(self, some: Iterable[_Sent]) -> None:
        chosen = list(some)
        self.random.shuffle(chosen)
        for one in chosen:
            if one in self._sent:
                self._one(one)
        self._tell_due()

    def _share_of_sent(self) -> float:
        """How often, of what has to arrive, it is what was sent, and not what is on a stream."""
        return 0.5 if self.lanes.due < NEVER else 1.0

    def _tell_due(self) -> None:
        sent = min((one.due for one in self._sent), default=NEVER)
        self._turns.due(min(sent, self.lanes.due))

    def _one(self, sent: _Sent) -> None:
        at = self._sent.index(sent)
        before = [one for one in self._sent[:at] if sent.follows(one)]
        del self._sent[at]
        self.random.shuffle(before)
        for one in before:
            if one in self._sent:
                self._one(one)
        with log.unseen():
            sent.call()


#: Whether a program runs with many seeds, and only what is found is told.
quiet_about_seeds = False


def made(n_pes: int) -> Held | None:
    """What keeps this PE's operations; None: the launcher has made no file for turns."""
    fd, pe = setting_number("CHECK_TURNS_FD"), runtime.current().my_pe
    return None if fd < 0 else Held(Turns(fd, pe, n_pes), pe)


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    """Have two ranges of addresses bytes in common?"""
    return one is not None and other is not None and one[0] < other[1] and other[0] < one[1]


def _number(meeting: Any) -> int:
    return zlib.crc32(repr(meeting).encode())


def _ready(given: Any, effect: Any) -> bool:
    """Is there what a wait waits for?"""
    _, _, _, words, _, how = effect
    span = memory.Span(given[next(key for key in ("ivar", "ivars", "sig_addr") if key in given)])
    _, offset = memory.own(span.address)
    size = span.dtype.itemsize
    some = (effects.holds(span, (low - offset) // size, given["cmp"], v) for low, v in words)
    return all(some) if how == "all" else any(some)


def _counts_fit(given: Any) -> bool:
    """No count is negative, and no stride less than a block: elements do not overlap."""
    block = given.get("bsize", 1)
    counts = [given.get(name) or 0 for name in ("nelems", "nblocks")]
    strides = [given.get(name) for name in ("dst", "sst")]
    return block >= 1 and min(counts) >= 0 and all(one is None or one >= block for one in strides)


def _is_over(request: Any) -> bool:
    """Is a request complete? What it fails with is raised by the program's own wait."""
    try:
        with log.unseen():
            return bool(request.test())
    except ShmemError:
        return True
