# SPDX-License-Identifier: BSD-3-Clause
"""From what the PEs have recorded to pairs of accesses that nothing orders.

The records of all PEs come in the order of time, and each is applied to the clock of its agent, to the
words and to the shadow. Edges are those of the specification and no others: that one access came earlier
by the clock on the wall orders nothing.

A write is recorded before it is done, and what a call has seen after it has: who saw it comes later.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .clocks import ATOMIC, LOADED, Clock, Event, Kind, Lane, Lanes, Programs
from .shadow import Access, Cell, Shadow
from .words import Begun, Change, Ended, Wait, Word, wanted

Ranges = Iterable[tuple[int, int]]
Agent = tuple[int, int]  # PE, and number there: 0 is the host's


_RAISED = ("!",)
_HEAPS = 0, 1  # the host's and the device's
#: Routines that fetch, by the first word of their names.
_GETS = frozenset(("get", "g", "iget", "ibget"))


class Race(NamedTuple):
    """Two accesses that nothing orders, or one to memory that is gone."""

    first: Access
    second: Access
    low: int  # of the bytes that both touch
    high: int
    issued: bool  # the first is known to have been issued, but not to be done
    block: Block | None
    rule: str  # unordered, freed, unset, or advice


class Block:
    """An allocation, at the same place of all PEs."""

    def __init__(self, low: int, high: int, count: int, about: tuple[Any, ...]) -> None:
        self.low, self.high, self.count = low, high, count
        self.itemsize, self.shape, self.zero, self.internal, self.site = about
        self.words: dict[tuple[int, int], Word] = {}
        self.freed: dict[int, tuple[int, str]] = {}  # by PE: where, and by what

    def word(self, pe: int, low: int) -> Word:
        """The history of a word."""
        found = self.words.get((pe, low))
        if found is None:
            found = self.words[pe, low] = Word(0 if self.zero else None)
        return found


class _Heap:
    """The blocks of a heap, and the shadow of each PE's copy."""

    def __init__(self) -> None:
        self.lows: list[int] = []
        self.blocks: dict[int, Block] = {}
        self.shadows: dict[int, Shadow] = {}
        self.rest: Block | None = None  # of the library's own words, if they are followed

    def block(self, low: int) -> Block | None:
        n = bisect_right(self.lows, low) - 1
        if n < 0:
            return self.rest
        found = self.blocks[self.lows[n]]
        return found if low < found.high else self.rest

    def show_all(self) -> None:
        """Also what the library has allocated, and what it keeps there without an allocation."""
        for block in self.blocks.values():
            block.internal = False
        if self.rest is None:
            about = 8, (), False, False, 0
            self.rest = Block(0, 1 << 62, 0, about)

    def add(self, block: Block) -> None:
        for low in [low for low in self.lows if low < block.high]:
            if self.blocks[low].high > block.low:
                self.lows.remove(low)
                del self.blocks[low]
        insort(self.lows, block.low)
        self.blocks[block.low] = block
        for shadow in self.shadows.values():
            shadow.forget(block.low, block.high)

    def shadow(self, pe: int) -> Shadow:
        found = self.shadows.get(pe)
        if found is None:
            found = self.shadows[pe] = Shadow()
        return found


class _Meeting:
    """A collective: what its members know where they come in, and by which call they come."""

    def __init__(self) -> None:
        self.entered: dict[int, Clock] = {}
        self.calls: dict[int, tuple[str, int]] = {}  # routine and site
        self.left = 0


class _Call(NamedTuple):
    """What is the same for all effects of a record."""

    at: int
    pe: int
    agent: int
    clock: Clock
    site: int
    routine: str


class Standing(NamedTuple):
    """What an agent did last, and for what it waits; nothing where it was at work."""

    routine: str
    site: int
    waits: tuple[Any, ...]  # words, meeting, lock; see effects


class Engine:
    """Applies records, and collects ``races``: one for each pair of source lines and each rule."""

    def __init__(self, first: Engine | None = None) -> None:
        #: Of an engine that has applied the same records before this one: who comes later is known.
        self._first = first
        self.lanes: Lanes = Lanes() if first is None else first.lanes.from_the_begin()
        #: By wait: changes that came after it, and might have ended it.
        self.later: dict[Event, list[Change]] = {}
        self.races: dict[tuple[Any, ...], Race] = {}
        self.agents: list[Agent] = []
        self.names: dict[int, str] = {}
        self._numbers: dict[Agent, int] = {}
        self._clocks: dict[int, Clock] = {}
        #: The host's, the device's, and registered arrays, each as one of its own.
        self._heaps: defaultdict[Any, _Heap] = defaultdict(_Heap)
        self.meetings: dict[Any, _Meeting] = {}
        self.standing: dict[int, Standing] = {}  # by agent
        #: By team: the first collective that its members have called by different routines.
        self.parted: dict[Any, dict[int, tuple[str, int]]] = {}
        self._raised: set[int] = set()  # agents whose last call has raised: they stand there
        self.holders: dict[tuple[int, int], int] = {}  # of locks: a PE
        self._source: tuple[int, int, Event] = (
            0,
            -1,
            (0, 0),
        )  # of the last call that does not block
        self._locks: dict[tuple[int, int], Clock] = {}
        self._is_relaxed = False  # what the rest of the record sends tells of nothing since a fence
        self.programs = Programs(self.lanes)
        #: By PE, heap and first byte: what was freed there last.
        self._gone: dict[tuple[int, int, int], Block] = {}
        self._told: dict[Any, Clock] = {}  # by PE and key
        self._effects: dict[str, Callable[..., None]] = {
            "r": self._read, "w": self._store, "s": self._send, "rq": self._read_until_quiet,
            "wq": self._write_until_quiet, "d": self._put_signal, "a": self._atomic,
            "b": self._atomic_begins,
            "W": self._waited, "Y": self._waited_at, "F": self._fence, "Q": self._quiet,
            "E": self._enter, "X": self._leave, "L": self._lock, "U": self._unlock,
            "M": self._allocate, "D": self._free, "N": self._stands, "B": self._begin,
            "J": self._end, "H": self._met, "V": self._name, "T": self._tell, "G": self._get_told,
            "A": self._tell_more, "S": self._synchronize, "K": self._quiet_kernels,
            "u": self._unset, "o": self._of_old, "I": self._follow_internals,
            "P": self._program_barrier, "Pf": self._program_fence, "Yp": self._seen_by_threads,
            "R": self._relaxed, "Pq": self._program_settles,
        }  # fmt: skip

    # ---- records ---------------------------------------------------------------------------------

    def apply(self, pe: int, record: tuple[Any, ...], site: int) -> None:
        """One record of ``pe``: time, agent, site, routine, effects; ``site`` is the job's number."""
        at, number, _, routine, effects = record
        agent = self.agent(pe, number)
        call = _Call(at, pe, agent, self._clocks[agent], site, routine)
        if effects == [_RAISED]:
            self._raised.add(agent)
            return
        if routine != "finalize" or agent not in self._raised:  # which a PE that fails goes through
            self._raised.discard(agent)
            self.standing[agent] = Standing(routine, site, ())
        self._is_relaxed = False
        for code, *given in effects:
            self._effects[code](call, *given)

    def agent(self, pe: int, number: int) -> int:
        """The job's number of an agent of a PE."""
        found = self._numbers.get((pe, number))
        if found is None:
            found = self._numbers[pe, number] = len(self.agents)
            self.agents.append((pe, number))
            self._clocks[found] = Clock()
        return found

    def _released_to(self, call: _Call, pe: int) -> Clock:
        """What goes with what is sent to ``pe`` now; if relaxed, of a program's last fence."""
        clocks = self.programs.told if self._is_relaxed else self.programs.fenced
        clock = clocks.get(call.agent, call.clock)
        return clock.released_to(pe, self.lanes)

    def block_at(self, heap: int, low: int) -> Block | None:
        """The allocation that a byte of a heap belongs to."""
        return self._heaps[heap].block(low)

    # ---- memory ----------------------------------------------------------------------------------

    def _allocate(
        self, call: _Call, heap: int, low: int, high: int, count: int, *about: Any
    ) -> None:
        known = self._heaps[heap].blocks.get(low)
        if known is None or known.count < count or known.high != high:
            self._heaps[heap].add(Block(low, high, count, (*about, call.site)))

    def _free(self, call: _Call, heap: int, low: int) -> None:
        block = self._heaps[heap].blocks.get(low)
        if block is not None:
            block.freed[call.pe] = call.site, call.routine
            self._gone[call.pe, heap, low] = block

    def _number(self, call: _Call, kind: Kind, target: int, ctx: Any = 0) -> Event:
        """A new access of the agent: its lane and its number there."""
        lanes = self.lanes
        lane = lanes.number(Lane(call.agent, call.pe, kind, target, ctx))
        lanes.issued[lane] += 1
        number = call.clock.issued[lane] = lanes.issued[lane]
        return lane, number

    def _access(
        self,
        call: _Call,
        event: Event,
        mode: str,
        pe: int,
        heap: int,
        ranges: Ranges,
        sent: bool,
        digest: int | None = None,
        direct: bool = False,
    ) -> Access | None:
        """Look at the history of what is accessed, and become a part of it."""
        made: Access | None = None
        thread = self.names.get(call.agent, "")
        shadow = self._heaps[heap].shadow(pe)
        for low, high in ranges:
            block = self._heaps[heap].block(low)
            if block is not None and block.internal:
                continue
            made = Access(
                call.agent, event, mode, call.routine, call.site, ((pe, heap), low, high), call.at
            )
            made.thread, made.digest, made.direct = thread, digest, direct
            if block is not None and call.pe in block.freed:
                self._tell_freed(call, made, block)
            for n, start, end, cell in shadow.split(low, high):
                self._compare(call, made, cell, start, end, block, sent)
                shadow.set(n, _after(cell, made))
        return made

    def _compare(
        self,
        call: _Call,
        new: Access,
        cell: Cell,
        low: int,
        high: int,
        block: Block | None,
        sent: bool,
    ) -> None:
        """Tell of each earlier access that has to happen before ``new``, and need not."""
        old = [] if cell.write is None else [cell.write]
        if new.atomic:  # of another size they are not atomic to each other
            size = new.low, new.high
            old += [
                one for one in cell.atomics if (one.low, one.high) != size and _change(one, new)
            ]
        else:
            old += [one for one in cell.atomics if _change(one, new)]
        if new.writes:
            old += cell.reads
        for one in old:
            if (one.agent, one.at) == (new.agent, new.at):
                continue  # one call, as a reduction in place
            if self._the_same_again(one, new) or self._in_turn(one, new):
                continue
            if self._by_one_memory(call, one, new):
                continue
            if not call.clock.has(one.event, low & ~7, self.lanes, sent):
                issued = one.event[1] <= call.clock.issued.get(one.event[0], 0)
                key = "unordered", *sorted((one.site, new.site))
                race = Race(one, new, low, high, issued, block, "unordered")
                self.races.setdefault(key, race)

    def _in_turn(self, one: Access, new: Access) -> bool:
        """Are both plain stores of one program to one place, which come in their order?"""
        if one.agent != new.agent or not (one.writes and new.writes) or one.atomic or new.atomic:
            return False
        nbytes = max(one.high - one.low, new.high - new.low)
        return self.programs.in_turn(new.agent, one.event, nbytes)

    def _by_one_memory(self, call: _Call, one: Access, new: Access) -> bool:
        """Are both loads and stores of one PE, at another by ``ptr``, and the first came before?

        They need not be done there: who has stored sees what was stored, and stores behind it.
        """
        if not (one.direct and new.direct) or self.agents[one.agent][0] != call.pe:
            return False
        return one.event[1] <= call.clock.issued.get(one.event[0], 0)

    def _the_same_again(self, one: Access, new: Access) -> bool:
        """Do both write the same bytes to the same place, so that their order does not matter?

        Puts of one agent, as in a loop that is timed; stores by one line of kernels' threads.
        """
        if new.digest is None or one.digest != new.digest:
            return False
        if (one.low, one.high) != (new.low, new.high):
            return False
        kernels = bool(one.thread and new.thread) or one.agent == new.agent
        alike = kernels or self.agents[one.agent][0] == self.agents[new.agent][0]
        same_line = (one.site, one.routine) == (new.site, new.routine)
        return one.agent == new.agent or (alike and same_line)

    def _tell_freed(self, call: _Call, new: Access, block: Block) -> None:
        site, routine = block.freed[call.pe]
        first = Access(
            call.agent, new.event, "free", routine, site, (new.where, new.low, new.high), call.at
        )
        race = Race(first, new, new.low, new.high, False, block, "freed")
        self.races.setdefault(("freed", site, new.site), race)

    def _of_old(self, call: _Call, mode: str, pe: int, heap: int, ranges: Ranges) -> None:
        """An element of an array that was freed; its memory may be another's by now."""
        ((low, high), *_) = ranges
        for (of, where, begin), block in self._gone.items():
            if (of, where) == (call.pe, heap) and begin <= low < block.high:
                place = (pe, heap), low, high
                made = Access(call.agent, (0, 0), mode, call.routine, call.site, place, call.at)
                self._tell_freed(call, made, block)

    def _read(self, call: _Call, pe: int, heap: int, ranges: Ranges) -> None:
        ctx = LOADED if self.programs.followed else 0
        event = self._number(call, Kind.AT_ONCE, pe, ctx)
        direct = call.routine.partition("_")[0] not in _GETS
        self._access(call, event, "read", pe, heap, ranges, False, direct=direct)
        self._by_all_threads(call, event, "read", pe, heap, ranges)

    def _store(
        self,
        call: _Call,
        pe: int,
        heap: int,
        ranges: Ranges,
        value: int | None,
        digest: int | None = None,
    ) -> None:
        if pe != call.pe:  # through what ptr returned
            self._send(call, pe, heap, ranges, 0, value, digest, direct=True)
            return
        event = self._number(call, Kind.AT_ONCE, pe)
        made = self._access(call, event, "write", pe, heap, ranges, False, digest)
        self._by_all_threads(call, event, "write", pe, heap, ranges)
        self._note_write(call, made, ranges, value, pe, heap, event)

    def _by_all_threads(
        self, call: _Call, event: Event, mode: str, pe: int, heap: int, ranges: Ranges
    ) -> None:
        """In a program of the library's own: one thread stores a word that all of them load."""
        for low, high in ranges if self.programs.followed else ():
            if high - low > 8:
                continue
            place = (pe, heap), low, high
            new = Access(call.agent, event, mode, call.routine, call.site, place, call.at)
            new.thread = self.names.get(call.agent, "")
            old = self.programs.touch(call.agent, place, mode == "write", new)
            if old is not None:
                race = Race(old, new, low, high, False, self.block_at(heap, low), "unordered")
                key = "unordered", *sorted((old.site, new.site))
                self.races.setdefault(key, race)

    def _send(
        self,
        call: _Call,
        pe: int,
        heap: int,
        ranges: Ranges,
        ctx: int,
        value: int | None,
        digest: int | None = None,
        direct: bool = False,
    ) -> None:
        event = self._number(call, Kind.DELIVERED, pe, ctx)
        made = self._access(call, event, "write", pe, heap, ranges, True, digest, direct)
        self._note_write(call, made, ranges, value, pe, heap, event)
        if pe == call.pe:  # one's own memory is written when the call returns
            call.clock.know(event[0], event[1], self.lanes)

    def _note_write(
        self,
        call: _Call,
        made: Access | None,
        ranges: Ranges,
        value: int | None,
        pe: int,
        heap: int,
        event: Event,
    ) -> None:
        """A wait may be for what is written here."""
        if made is None:
            return
        made.released, made.value = self._released_to(call, pe), value
        ((low, high), *more) = ranges
        block = self._heaps[heap].block(low)
        if value is None or more or high - low > 8 or block is None:
            return
        self._change(call, block, pe, low, "set", value, made.released, (event,), made)

    def _change(
        self,
        call: _Call,
        block: Block,
        pe: int,
        low: int,
        op: str,
        value: int | None,
        released: Clock,
        known: tuple[Any, ...],
        plain: Access | None = None,
    ) -> None:
        word = block.word(pe, low)
        change = word.change(op, value, released, known, call.at, plain)
        if self._first is None:
            for event in word.might_have_ended(change, call.clock, call.agent, self.lanes):
                self.later.setdefault(event, []).append(change)
        word.forget_old(self.lanes)

    def _read_until_quiet(
        self, call: _Call, pe: int, heap: int, ranges: Ranges, ctx: Any, target: int
    ) -> None:
        event = self._number(call, Kind.BY_QUIET, target, ctx)
        self._access(call, event, "read", pe, heap, ranges, False)
        self._source = call.at, call.agent, event

    def _write_until_quiet(
        self, call: _Call, pe: int, heap: int, ranges: Ranges, ctx: Any, target: int
    ) -> None:
        event = self._number(call, Kind.BY_QUIET, target, ctx)
        self._access(call, event, "write", pe, heap, ranges, False)

    def _put_signal(
        self, call: _Call, pe: int, data: Any, ctx: int, word: Any, op: str, value: int
    ) -> None:
        """Data, and a signal that is known to come behind it, and behind nothing else."""
        known: tuple[Any, ...] = ()
        if data is not None:
            heap, ranges = data
            event = self._number(call, Kind.SIGNALLED, pe, ctx)
            self._access(call, event, "write", pe, heap, ranges, True)
            known = (event,)
            at, agent, source = self._source
            if (at, agent) == (call.at, call.agent):  # what has arrived has been read
                known = event, source
        heap, low, high = word
        self._atomic(call, pe, heap, low, high, ctx, op, value, None, False, known)
        if pe == call.pe:
            for lane, number in known:
                call.clock.know(lane, number, self.lanes)

    def _atomic(
        self,
        call: _Call,
        pe: int,
        heap: int,
        low: int,
        high: int,
        ctx: int,
        op: str,
        value: int | None,
        fetched: int | None,
        at_once: bool,
        carried: tuple[Any, ...] = (),
    ) -> None:
        """An atomic operation, or a signal; ``carried``: the data that came before it."""
        kind, ctx = (Kind.AT_ONCE, ATOMIC) if at_once else (Kind.DELIVERED, ctx)
        block = self._heaps[heap].block(low)
        word = None if block is None or block.internal else block.word(pe, low)
        begun = word.ended(call.agent) if word and at_once else None
        event = begun.event if begun else None
        if event is None:
            event = self._number(call, kind, pe, ctx)
            self._access_word(call, event, pe, heap, low, high, op)
        if block is None or word is None:
            return
        self._note_longer_write(word, pe, heap, low)
        released = self._released_to(call, pe)
        if fetched is not None or (at_once and op == "other"):  # of a value not known: all
            if op == "set":  # who sees the new value sees what the old one told of
                word.heard_by(released, None, fetched, self.lanes)
            self._hear(call, word, event, None, fetched)
        if op != "get":
            self._change(call, block, pe, low, op, value, released, (event, *carried))

    def _access_word(
        self, call: _Call, event: Event, pe: int, heap: int, low: int, high: int, op: str
    ) -> None:
        mode = "atomic read" if op == "get" else "atomic write"
        self._access(call, event, mode, pe, heap, ((low, high),), True)

    def _atomic_begins(
        self, call: _Call, pe: int, heap: int, low: int, high: int, op: str, value: int | None
    ) -> None:
        """An atomic operation that fetches: from here on others may see what it does, and know of it.

        A comparison writes nothing where it fails: its access is noted when that is known.
        """
        block = self._heaps[heap].block(low)
        if block is None or block.internal:
            return
        event = None
        if op != "compare":
            event = self._number(call, Kind.AT_ONCE, pe, ATOMIC)
            self._access_word(call, event, pe, heap, low, high, op)
        one = Begun(op, value, self._released_to(call, pe), event)
        block.word(pe, low).begun.setdefault(call.agent, []).append(one)

    def _note_longer_write(self, word: Word, pe: int, heap: int, low: int) -> None:
        """The word was written last with others at once: of these it alone is known to be there."""
        write = self._heaps[heap].shadow(pe).at(low).write
        known = word.changes and write is not None and word.changes[-1].at >= write.at
        if write is not None and not known and write.released is not None:
            lane, number = write.event
            at_once = self.lanes.of[lane].kind == Kind.AT_ONCE
            one: Any = number if at_once else (number, low & ~7)
            word.change("set", write.value, write.released, ((lane, one),), write.at, write)

    # ---- order -----------------------------------------------------------------------------------

    def _waited(self, call: _Call, heap: int, low: int, high: int, *wait: Any) -> None:
        self._waited_at(call, call.pe, heap, low, high, *wait)

    def _waited_at(self, call: _Call, pe: int, heap: int, low: int, high: int, *wait: Any) -> None:
        block = self._heaps[heap].block(low)
        if block is None or block.internal:
            return
        word = block.word(pe, low)
        self._note_longer_write(word, pe, heap, low)
        ended = self._number(call, Kind.AT_ONCE, pe)
        if call.routine == "volatile load":
            self._by_all_threads(call, ended, "read", pe, heap, ((low, high),))
        for change in self._hear(call, word, ended, Wait(*wait), None):
            if change.plain is not None and self.agents[change.plain.agent][0] != call.pe:
                self._advise(call, change.plain, (pe, heap), low, high)

    def _hear(
        self, call: _Call, word: Word, event: Event, wait: Wait | None, seen: int | None
    ) -> list[Change]:
        """A wait, or a fetch of what was ``seen``, has come to its end."""
        later = () if self._first is None else self._first.later.get(event, ())
        heard, by_values = word.heard_by(call.clock, wait, seen, self.lanes, later)
        if by_values and heard and self._first is None:
            cmp, want = wanted(wait, seen)
            word.remember(Ended(call.agent, event, heard, heard[0].op, cmp, want))
        return heard

    def _advise(self, call: _Call, plain: Access, where: Any, low: int, high: int) -> None:
        """A wait for what a plain store of another PE changes: it is allowed."""
        waits = Access(
            call.agent, (0, 0), "read", call.routine, call.site, (where, low, high), call.at
        )
        waits.thread = self.names.get(call.agent, "")
        block = self._heaps[where[1]].block(low)
        race = Race(plain, waits, low, high, False, block, "advice")
        self.races.setdefault(("advice", plain.site, call.site), race)

    def _unset(self, call: _Call, pe: int, heap: int, ranges: Ranges) -> None:
        """What was read has never been written since it was allocated."""
        for low, high in ranges:
            block = self._heaps[heap].block(low)
            if block is None or block.internal or block.zero:
                continue
            where = (pe, heap), low, high
            made = Access(call.agent, (0, 0), "allocate", "store", block.site, where, call.at)
            read = Access(call.agent, (0, 0), "read", call.routine, call.site, where, call.at)
            read.thread = self.names.get(call.agent, "")
            race = Race(made, read, low, high, False, block, "unset")
            self.races.setdefault(("unset", block.site, call.site), race)

    def _stands(self, call: _Call, *waits: Any) -> None:
        self.standing[call.agent] = Standing(call.routine, call.site, waits)

    def _fence(self, call: _Call, ctx: int | None) -> None:
        call.clock.fence(self.lanes, call.pe, ctx)

    def _quiet(self, call: _Call, ctx: Any, targets: tuple[int, ...] | None) -> None:
        to = None if targets is None else frozenset(targets)
        call.clock.quiet(self.lanes, call.pe, ctx, to)
        if ctx is None and to is None:
            self.programs.tell(call.agent, call.clock)

    def _relaxed(self, _: _Call) -> None:
        self._is_relaxed = True

    def _quiet_kernels(self, call: _Call) -> None:
        """In the order of a stream: of what kernels before it have issued."""
        host = self.agent(call.pe, 0)
        call.clock.quiet(self.lanes, call.pe, None, None, but=host)

    def _enter(self, call: _Call, key: Any, me: int) -> None:
        meeting = self.meetings.setdefault(key, _Meeting())
        meeting.calls[me] = call.routine, call.site
        if len({routine for routine, _ in meeting.calls.values()}) > 1:
            self.parted.setdefault(key[0], meeting.calls)
        if call.agent not in self._raised:
            self.standing[call.agent] = Standing(call.routine, call.site, ("meeting", key))
        clock = call.clock.copy()
        clock.fenced = {}
        meeting.entered[me] = clock

    def _leave(self, call: _Call, key: Any, me: int, n: int, how: str, root: int) -> None:
        """``how``: all hear all, all hear the root, or each hears those below."""
        meeting = self.meetings.get(key)
        if meeting is None:
            return
        for pe, clock in meeting.entered.items():
            if how == "all" or (how == "root" and pe == root) or (how == "up" and pe <= me):
                call.clock.join(clock, self.lanes)
        meeting.left += 1
        if meeting.left == n:
            del self.meetings[key]

    def _lock(self, call: _Call, heap: int, low: int) -> None:
        if (clock := self._locks.get((heap, low))) is not None:
            call.clock.join(clock, self.lanes)
        self.holders[heap, low] = call.pe

    def _unlock(self, call: _Call, heap: int, low: int) -> None:
        self.holders.pop((heap, low), None)
        clock = call.clock.copy()
        clock.fenced = {}
        self._locks[heap, low] = clock

    # ---- streams ----------------------------------------------------------------------------------

    def _name(self, call: _Call, number: int, name: str) -> None:
        self.names[self.agent(call.pe, number)] = name

    def _tell(self, call: _Call, key: Any) -> None:
        """What the agent knows here, for who asks later: a launch, an event."""
        self._told[call.pe, key] = call.clock.copy()

    def _tell_more(self, call: _Call, key: Any) -> None:
        """The same, beside what others have told under this key."""
        self._told.setdefault((call.pe, key), Clock()).join(call.clock, self.lanes)

    def _get_told(self, call: _Call, key: Any, once: bool) -> None:
        clock = self._told.get((call.pe, key))
        if clock is not None:
            call.clock.join(clock, self.lanes)
        if once:
            self._told.pop((call.pe, key), None)

    def _synchronize(self, call: _Call, numbers: tuple[int, ...]) -> None:
        """The agent has waited for streams."""
        for number in numbers:
            call.clock.join(self._clocks[self.agent(call.pe, number)], self.lanes)

    # ---- threads of kernels ----------------------------------------------------------------------

    def _begin(self, call: _Call, first: int, count: int, name: str, threads: int) -> None:
        """Agents ``first`` and so on begin, with what this one knows: a kernel.

        ``threads``: of a block; 0: they are programs of Triton.
        """
        for n in range(count):
            agent = self.agent(call.pe, first + n)
            self._clocks[agent].become(call.clock)
            if not threads:
                self.programs.begin(agent, call.clock)
            place = f"block {n // threads}, thread {n % threads}" if threads else f"program {n}"
            self.names[agent] = f"kernel {name}, {place}"

    def _end(self, call: _Call, first: int, count: int) -> None:
        """They have ended, and this one knows what they knew."""
        for number in range(first, first + count):
            agent = self.agent(call.pe, number)
            call.clock.join(self._clocks[agent], self.lanes)
            self.programs.end(agent, call.clock)

    # ---- the library's own kernels ----------------------------------------------------------------

    def _follow_internals(self, _: _Call) -> None:
        self.programs.followed = True
        for number in (*_HEAPS, *self._heaps):  # also what no program has allocated from yet
            self._heaps[number].show_all()

    def _program_barrier(self, call: _Call) -> None:
        self.programs.barrier(call.agent, call.clock)

    def _program_fence(self, call: _Call) -> None:
        self.programs.fence(call.agent, call.pe, call.clock)

    def _program_settles(self, call: _Call) -> None:
        self.programs.settle(call.agent, call.pe, call.clock)

    def _seen_by_threads(
        self, call: _Call, pe: int, heap: int, low: int, high: int, *wait: Any
    ) -> None:
        """Some threads have seen a word; the others know it behind the program's next barrier."""
        seen = self.programs.seen.get(call.agent, call.clock)
        if seen is not call.clock:
            seen.join(call.clock, self.lanes)
        self._waited_at(call._replace(clock=seen), pe, heap, low, high, *wait)

    def _met(self, call: _Call, agents: tuple[int, ...]) -> None:
        """Agents of a PE have met in a barrier."""
        clocks = [self._clocks[self.agent(call.pe, number)] for number in agents]
        together = Clock()
        for clock in clocks:
            together.join(clock, self.lanes)
        for clock in clocks:
            clock.become(together)


def _change(one: Access, other: Access) -> bool:
    """Does one of them change memory?"""
    return one.writes or other.writes


def _after(cell: Cell, new: Access) -> Cell:
    """The history with one more access."""
    if new.atomic:
        others = tuple(one for one in cell.atomics if one.event[0] != new.event[0])
        return Cell(cell.write, cell.reads, (*others, new))
    if new.writes:
        return Cell(new)
    others = tuple(one for one in cell.reads if one.event[0] != new.event[0])
    return Cell(cell.write, (*others, new), cell.atomics)
