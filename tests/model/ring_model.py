# SPDX-License-Identifier: BSD-3-Clause
"""The protocol of ``host_proxy/ring.h`` as a state machine, and a search through all of its states.

Every move is one load or store that another party can see. Words of a slot arrive in any order, the
proxy copies a slot word by word and publishes its progress whenever it likes, and requests complete
in any order. Moves never lead back, so a state without one is an end: a good one when all senders
are through, else a deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

SLOTS = 2
#: Senders so far past the credit still look at the proxy's own word; PYSH_RING_CREDIT.
CREDIT = 1
#: Different phases. 255 in ring.h; if two do, so do more.
PHASES = 2


class Rules(NamedTuple):
    """The protocol, or what is left of it."""

    credit: bool = True  # a sender waits until its slot has been copied out
    busy: bool = True  # ... until the reply before its own has been read
    busy_first: bool = True  # it sees to it that `busy` is set before its request can be seen
    phases: int = PHASES
    quiet_waits: bool = True  # the proxy acknowledges what is complete, not what it has seen


class Sender(NamedTuple):
    place: int = 0  # in its script
    step: str = "next"
    ticket: int = 0
    stored: int = 0  # a bit for each word of the slot
    need: int = 0  # of a quiet
    late: bool = False  # its `busy` is still on the way


class Cell(NamedTuple):
    value: int = -1
    tag: int = 0


class State(NamedTuple):
    senders: tuple[Sender, ...]
    # near the kernels
    ticket: int = 0
    shadow: int = 0
    pending: int = 0
    shadow_acked: int = 0
    busy: tuple[int, ...] = (0,) * SLOTS
    # shared: a word is the phase and, for the checks, the ticket it belongs to
    slots: tuple[tuple[tuple[int, int], ...], ...] = (((0, -1),) * 2,) * SLOTS
    cells: tuple[Cell, ...] = (Cell(),) * SLOTS
    consumed: int = 0
    asked: int = 0
    acked: int = 0
    # the proxy's own
    head: int = 0
    copied: int = -1  # the ticket of the word it has copied of the next slot
    target: int = 0  # of its quiet
    asks: tuple[float, ...] = ()  # wait for their reply: ticket, + 0.5 when the value is there
    tells: tuple[int, ...] = ()  # not complete


class Violation(Exception):
    """A state that the protocol must not reach."""


def _with(items: tuple, index: int, value: object) -> tuple:
    return (*items[:index], value, *items[index + 1 :])


class Model:
    """The moves of senders with ``scripts``, each a sequence of "ask", "tell" and "quiet"."""

    def __init__(self, scripts: Sequence[Sequence[str]], rules: Rules | None = None) -> None:
        self.scripts = scripts
        self.rules = rules or Rules()

    def start(self) -> State:
        return State(tuple(Sender() for _ in self.scripts))

    def is_over(self, state: State) -> bool:
        return all(
            sender.place == len(script)
            for sender, script in zip(state.senders, self.scripts, strict=True)
        )

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        for number, sender in enumerate(state.senders):
            for label, changed, other in self._sender(state, sender, number):
                senders = _with(state.senders, number, changed)
                yield f"sender {number} {label}", other._replace(senders=senders)
        for label, other in self._proxy(state):
            yield f"proxy {label}", other

    # ---- a sender -------------------------------------------------------------------------------

    def _sender(
        self, state: State, sender: Sender, number: int
    ) -> Iterator[tuple[str, Sender, State]]:
        script = self.scripts[number]
        if sender.late:
            busy = _with(state.busy, sender.ticket % SLOTS, 1)
            yield "busy arrives", sender._replace(late=False), state._replace(busy=busy)
        if sender.place == len(script):
            return
        verb = script[sender.place]
        if verb == "quiet":
            yield from self._quiet(state, sender)
        elif sender.step == "next":
            ticket = state.ticket
            taken = Sender(sender.place, "credit", ticket)
            yield f"takes {ticket}", taken, state._replace(ticket=ticket + 1)
        elif sender.step == "credit":
            yield from self._credit(state, sender, verb)
        elif sender.step == "busy":
            yield from self._busy(state, sender)
        elif sender.step == "store":
            yield from self._store(state, sender, verb)
        elif sender.step == "reply":
            yield from self._reply(state, sender)
        elif not sender.late:  # "clear": stores to one word keep their order
            busy = _with(state.busy, sender.ticket % SLOTS, 0)
            yield "clears busy", Sender(sender.place + 1), state._replace(busy=busy)

    def _credit(
        self, state: State, sender: Sender, verb: str
    ) -> Iterator[tuple[str, Sender, State]]:
        ticket = sender.ticket
        after = sender._replace(step="busy" if verb == "ask" else "store")
        if ticket < state.shadow + SLOTS or not self.rules.credit:
            yield "has credit", after, state
        elif ticket < state.shadow + SLOTS + CREDIT and state.consumed > state.shadow:
            yield "raises the shadow", sender, state._replace(shadow=state.consumed)

    def _busy(self, state: State, sender: Sender) -> Iterator[tuple[str, Sender, State]]:
        cell = sender.ticket % SLOTS
        if state.busy[cell] and self.rules.busy:
            return
        after = sender._replace(step="store", late=not self.rules.busy_first)
        busy = state.busy if after.late else _with(state.busy, cell, 1)
        yield "sets busy", after, state._replace(busy=busy)

    def _store(
        self, state: State, sender: Sender, verb: str
    ) -> Iterator[tuple[str, Sender, State]]:
        ticket, slot = sender.ticket, sender.ticket % SLOTS
        if sender.stored == 3:
            if verb == "ask":
                yield "waits", sender._replace(step="reply"), state
            else:
                pending = max(state.pending, ticket + 1)
                yield "raises pending", Sender(sender.place + 1), state._replace(pending=pending)
            return
        for word in (0, 1):
            if not sender.stored >> word & 1:
                stored = _with(state.slots[slot], word, (self._phase(ticket), ticket))
                slots = _with(state.slots, slot, stored)
                after = sender._replace(stored=sender.stored | 1 << word)
                yield f"stores word {word}", after, state._replace(slots=slots)

    def _reply(self, state: State, sender: Sender) -> Iterator[tuple[str, Sender, State]]:
        cell = state.cells[sender.ticket % SLOTS]
        if cell.tag != sender.ticket + 1:
            return
        if cell.value != sender.ticket:
            raise Violation(f"ticket {sender.ticket} reads the reply to {cell.value}")
        yield "reads its reply", sender._replace(step="clear"), state

    def _quiet(self, state: State, sender: Sender) -> Iterator[tuple[str, Sender, State]]:
        if sender.step == "next":
            need = state.pending
            if need <= state.shadow_acked:
                self._check_quiet(state, need)
                yield "is quiet", Sender(sender.place + 1), state
            else:
                asked = max(state.asked, need)
                waits = sender._replace(step="acked", need=need)
                yield f"asks for {need}", waits, state._replace(asked=asked)
        elif state.acked >= sender.need:
            self._check_quiet(state, sender.need)
            shadow = max(state.shadow_acked, state.acked)
            yield "is quiet", Sender(sender.place + 1), state._replace(shadow_acked=shadow)

    def _check_quiet(self, state: State, need: int) -> None:
        if any(ticket < need for ticket in state.tells) or state.head < need:
            raise Violation(f"a quiet for {need} ends before all of that is complete")

    # ---- the proxy ------------------------------------------------------------------------------

    def _phase(self, ticket: int) -> int:
        return ticket // SLOTS % self.rules.phases + 1

    def _proxy(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self._take(state)
        if state.consumed < state.head:
            yield f"publishes {state.head}", state._replace(consumed=state.head)
        for ask in state.asks:
            yield from self._answer(state, ask)
        for tell in state.tells:
            left = tuple(other for other in state.tells if other != tell)
            yield f"completes {tell}", state._replace(tells=left)
        if not state.target:
            target = min(state.asked, state.head)
            if target > state.acked:
                yield f"begins a quiet for {target}", state._replace(target=target)
        elif not self.rules.quiet_waits or all(tell >= state.target for tell in state.tells):
            yield f"acknowledges {state.target}", state._replace(acked=state.target, target=0)

    def _take(self, state: State) -> Iterator[tuple[str, State]]:
        head = state.head
        slot = state.slots[head % SLOTS]
        word = slot[1 if state.copied < 0 else 0]
        if word[0] != self._phase(head):
            return
        if state.copied < 0:
            yield "copies word 1", state._replace(copied=word[1])
            return
        if (state.copied, word[1]) != (head, head):
            raise Violation(f"request {head} is made of words of {state.copied} and {word[1]}")
        after = state._replace(head=head + 1, copied=-1)
        if self._wants_reply(state, head):
            yield f"takes {head}", after._replace(asks=tuple(sorted((*state.asks, head))))
        else:
            yield f"takes {head}", after._replace(tells=tuple(sorted((*state.tells, head))))

    def _wants_reply(self, state: State, ticket: int) -> bool:
        for sender, script in zip(state.senders, self.scripts, strict=True):
            waits = sender.place < len(script) and script[sender.place] == "ask"
            if waits and sender.step != "next" and sender.ticket == ticket:
                return True
        return False

    def _answer(self, state: State, ask: float) -> Iterator[tuple[str, State]]:
        ticket, cell = int(ask), int(ask) % SLOTS
        left = tuple(other for other in state.asks if other != ask)
        if ask == ticket:
            cells = _with(state.cells, cell, state.cells[cell]._replace(value=ticket))
            asks = tuple(sorted((*left, ticket + 0.5)))
            yield f"stores the value for {ticket}", state._replace(cells=cells, asks=asks)
        else:
            cells = _with(state.cells, cell, state.cells[cell]._replace(tag=ticket + 1))
            yield f"stores the tag for {ticket}", state._replace(cells=cells, asks=left)


def search(model: Model, limit: int = 2_000_000) -> int:
    """The number of states; Violation with the way there when one is wrong."""
    first = model.start()
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    front = [first]
    while front:
        after: list[State] = []
        for state in front:
            try:
                moves = list(model.moves(state))
                if not moves and not model.is_over(state):
                    raise Violation("nobody can move, and somebody still waits")
            except Violation as wrong:
                raise Violation(f"{wrong}\n" + "\n".join(_way(came_from, state))) from None
            for label, other in moves:
                if other not in came_from:
                    came_from[other] = state, label
                    after.append(other)
        if len(came_from) > limit:
            raise RuntimeError(f"more than {limit} states")
        front = after
    return len(came_from)


def _way(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    steps: list[str] = []
    while (step := came_from[state]) is not None:
        state = step[0]
        steps.append(step[1])
    return steps[::-1]
