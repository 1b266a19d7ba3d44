# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two PEs of a team: send and recv, each pair in the order of its calls.

The receiver has two slots for each sender and a word that counts the pieces that have arrived; the
sender has a word for each receiver that counts those it has taken. A piece goes to slot number % 2 once
piece number - 2 has been taken. The slot's contents come before the word that tells of them
(``put_signal``), and the taken word is set after the slot has been read.

A message is for the receive that was called first of those it fits: one from its sender, or one from any
source with its tag. What a receive from any source can take changes with the others that are under way:
a word of the member's own tells it to look again.

A number counts once its piece is there: a wait that fails changes nothing, and the message may be sent
or received again. One that fails after its head ends the messages of that pair, whose pieces would be
taken for those of the next.

Who leaves the group sets the words that its peers wait for once more, to ``LEFT`` and the last number:
nobody waits for it any longer, and who needed more than that fails.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from ..._core.arrays.checks import stream_handle
from ..._core.errors import MismatchError, ShmemError, UnsupportedError
from ..._core.library import check, check_value, lib
from ..._core.values import Cmp, SignalOp
from ..._torch.arguments import as_bytes
from ..._torch.staging import Target, capturing, flat
from ...host import ordering
from ...host.kernels.stream_kernels import run, wait_on_stream
from ...host.teams.contexts import CTX_DEFAULT
from ...host.teams.team import Team
from ...host.wait_sets import wait_until_any_vector

_HEAD = struct.Struct("<qq24s")  # bytes, tag, name of the dtype
_WORD, _LINE = 8, 64
LEFT = 1 << 62  # in a word: who sets it has left the group; the bits below are its last number
_OF_MEMBER = (
    3  # words: pieces that it has sent, pieces that it has taken, its collectives on a stream
)


#: Has other PEs and queues go on until something holds, with PYSHMEM_CHECK=deliver, in a queue's thread;
#: ``_torch.record`` gives it.
let_others: Callable[[Callable[[], bool]], None] | None = None


class Message(NamedTuple):
    """One that has been read before its receive was called."""

    number: int  # among those of its sender
    tag: int
    data: torch.Tensor  # bytes
    dtype: str


class Receives:
    """A member's receives that are not done yet, in the order of their calls; all under ``changed``."""

    def __init__(self, n_members: int) -> None:
        self.changed = threading.Condition()
        self._n_calls = self._n_changes = 0
        self._given: list[deque[int]] = [deque() for _ in range(n_members)]  # numbers, by sender
        self._any: dict[int, int] = {}  # tags, by number
        # By sender, the receive that reads a message of it, having had to choose.
        self._reads: dict[int, int] = {}

    def called(self, sender: int | None, tag: int) -> int:
        """The number of a receive, from any source where ``sender`` is None."""
        with self.changed:
            self._n_calls += 1
            if sender is None:
                self._any[self._n_calls] = tag
            else:
                self._given[sender].append(self._n_calls)
            return self._n_calls

    def over(self, number: int, sender: int | None) -> bool:
        """It is done or has failed. Returns whether one from any source is still there."""
        with self.changed:
            if self._any.pop(number, None) is None and sender is not None:
                self._given[sender].remove(number)
            self._forget_reads(number)
            return bool(self._any)

    def is_over(self, number: int) -> None:
        """The message that the receive ``number`` read has been kept."""
        with self.changed:
            self._forget_reads(number)

    def _forget_reads(self, number: int) -> None:
        """Its own alone: of another sender's message, or this one's, another receive may be reading."""
        for sender in [sender for sender, reader in self._reads.items() if reader == number]:
            del self._reads[sender]
        self._n_changes += 1
        self.changed.notify_all()

    def await_change(self) -> None:
        """Until one is over, or has kept a message; meanwhile the lock is free."""
        if let_others is not None:
            seen = self._n_changes
            self.changed.release()
            try:
                let_others(lambda: self._n_changes != seen)
            finally:
                self.changed.acquire()
            if self._n_changes != seen:
                return
        self.changed.wait()

    def reads(self, sender: int, number: int) -> None:
        """The receive ``number``, which had to choose, takes the sender's next message."""
        self._reads[sender] = number

    def is_read(self, sender: int) -> bool:
        """Whether one does."""
        return sender in self._reads

    def tags_before(self, number: int) -> set[int]:
        """Of receives from any source that were called before."""
        return {tag for before, tag in self._any.items() if before < number}

    def may_read(self, number: int, sender: int) -> bool:
        """Whether the sender's next message is for nobody who was called before one from any source."""
        given = self._given[sender]
        return sender not in self._reads and not (given and given[0] < number)


class Mailbox:
    """The slots and words of a team's members on one heap.

    Args:
        team: the PEs.
        block: bytes on the heap, at the same place on all members; the words in it are 0 on all before
            a member sends.
    """

    def __init__(self, team: Team, block: torch.Tensor) -> None:
        self._pes, self._me = team.pes(), team.my_pe()
        n = len(self._pes)
        words = -(-(_OF_MEMBER * n + 1) * _WORD // _LINE) * _LINE
        self._slot = (block.numel() - words) // (2 * n) // _LINE * _LINE
        if self._slot < _LINE:
            raise ValueError(f"{block.numel()} bytes are too few for messages of {n} PEs")
        self._words, self._slots = block[:words], block[words:]
        self._sent, self._received = [0] * n, [0] * n
        self._n_messages = [0] * n  # that have been read, by sender
        self.receives, self._turn = Receives(n), 0
        # Messages with a tag that a receive from any source had no use for, in the order they came.
        self._kept: list[deque[Message]] = [deque() for _ in range(n)]
        self._cut_to: set[int] = set()  # members to whom, and from whom, a message has been cut off
        self._cut_from: set[int] = set()
        self._leaves = False
        self._words.zero_()

    def _arrived(self, sender: int) -> int:
        """The address of the word, the same on all members."""
        return int(self._words.data_ptr()) + sender * _WORD

    def _taken(self, receiver: int) -> int:
        return int(self._words.data_ptr()) + (len(self._pes) + receiver) * _WORD

    def _calls(self, member: int) -> int:
        return int(self._words.data_ptr()) + (2 * len(self._pes) + member) * _WORD

    def _changes(self) -> int:
        """The word of this member alone that tells its receives from any source to look again."""
        return int(self._words.data_ptr()) + _OF_MEMBER * len(self._pes) * _WORD

    def _box(self, sender: int, number: int) -> torch.Tensor:
        begin = (2 * sender + number % 2) * self._slot
        return self._slots[begin : begin + self._slot]

    # ---- pieces ------------------------------------------------------------------------------------

    def _send_piece(self, to: int, piece: torch.Tensor, stream: Any) -> None:
        number = self._sent[to] + 1
        if number > 2:
            found = wait_for_word(self._taken(to), number - 2, stream)
            _refuse_left(found, LEFT, f"send to rank {to}", to)
        dest, word = self._box(self._me, number).data_ptr(), self._arrived(self._me)
        where = dest, piece.data_ptr(), piece.numel(), word, number, SignalOp.SET, self._pes[to]
        context = CTX_DEFAULT.handle
        if stream is None:
            check(lib.ishmemx_put_signal(context, *where))
        else:
            run(lib.ishmemx_put_signal_on_stream, context, *where, stream_handle(stream))
        self._sent[to] = number
        if self._leaves:  # its word may be what ``leave`` has set
            self._set(word, LEFT | number, to, stream)

    def _await_piece(self, sender: int, stream: Any) -> torch.Tensor:
        number = self._received[sender] + 1
        found = wait_for_word(self._arrived(sender), number, stream)
        _refuse_left(found, number, f"recv from rank {sender}", sender)
        self._received[sender] = number
        return self._box(sender, number)

    def _free_piece(self, sender: int, stream: Any) -> None:
        word, number = self._taken(self._me), self._received[sender]
        self._set(word, number, sender, stream)
        if self._leaves:
            self._set(word, LEFT | number, sender, stream)

    def _set(self, word: int, number: int, member: int, stream: Any) -> None:
        where = CTX_DEFAULT.handle, word, number, SignalOp.SET, self._pes[member]
        if stream is None:
            check(lib.ishmemx_signal_op(*where))
        else:
            run(lib.ishmemx_signal_op_by_driver, *where, stream_handle(stream))

    # ---- members that have left --------------------------------------------------------------------

    def leave(self, calls: int, stream: Any) -> None:
        """Tell the others that this member sends and takes no more, and after how many ``calls``.

        What it has sent before is complete: ``stream``, where its messages are, has been waited for.
        Threads of a group that is aborted may be sending still: each tells the same behind its piece.
        """
        self._leaves = True
        for member in range(len(self._pes)):
            if member == self._me:
                continue
            for word, number in (
                (self._calls(self._me), calls),
                (self._arrived(self._me), self._sent[member]),
                (self._taken(self._me), self._received[member]),
            ):
                self._set(word, LEFT | number, member, stream)
        if stream is None:
            ordering.quiet()

    def refuse_call(self, calls: int) -> None:
        """Raises MismatchError if a member has left before its collective ``calls`` on a stream.

        Of the mailbox on the host heap. Kernels of that collective would wait for the member in vain.
        """
        for member in range(len(self._pes)):
            _refuse_left(int(lib.signal_fetch(self._calls(member))), calls, "a collective", member)

    def words_of_leaving(self) -> list[int]:
        """The addresses that ``refuse_call`` reads, a member each."""
        return [self._calls(member) for member in range(len(self._pes))]

    def has_left(self, member: int) -> bool:
        """Whether a member has left; of the mailbox on the host heap."""
        return int(lib.signal_fetch(self._taken(member))) >= LEFT

    def refuse_send(self, to: int) -> None:
        """Raises MismatchError: the member has left, and receives nothing any more."""
        _refuse_left(LEFT, LEFT, f"send to rank {to}", to)

    def refuse_receive(self, sender: int) -> None:
        """Raises MismatchError unless the member that has left has sent a message that is not received.

        On a GPU it waits until the word has been copied.
        """
        word = int(self._words.view(torch.int64)[sender])
        _refuse_left(word, self._received[sender] + 1, f"recv from rank {sender}", sender)

    # ---- who takes a message -----------------------------------------------------------------------

    def _head(self, sender: int) -> tuple[int, int, str]:
        """Bytes, tag and dtype of the next message of a member, which has arrived."""
        return _unpacked(self._box(sender, self._received[sender] + 1))

    def await_turn(self, sender: int, number: int) -> None:
        """Until the next message of a member is for the receive ``number``, and no other one's."""
        receives = self.receives
        while True:
            with receives.changed:
                while receives.is_read(sender):
                    receives.await_change()
                tags, kept = receives.tags_before(number), self._kept[sender]
                if not tags or (kept and kept[0].tag not in tags):
                    receives.reads(sender, number)
                    return
                if kept:  # for one that was called before
                    receives.await_change()
                    continue
                if sender in self._cut_from:  # ``receive`` says so
                    receives.reads(sender, number)
                    return
                following = self._received[sender] + 1
            word = wait_for_word(self._arrived(sender), following, None)
            with receives.changed:
                if receives.is_read(sender) or self._received[sender] + 1 != following:
                    continue
                left = word >= LEFT and word - LEFT < following
                if left or self._head(sender)[1] not in tags:
                    receives.reads(sender, number)
                    return
                receives.await_change()  # it is for one that was called before

    def take_any(self, tag: int, number: int) -> tuple[int, Message | None]:
        """Whose message is for the receive ``number``, from any source; and that message, if it is read.

        Messages of other tags are read, and kept for their receives: others may come behind them.

        Raises: MismatchError (all others have left, and sent none), ShmemTimeout, PeerDied.
        """
        n, left = len(self._pes), set[int]()
        while True:
            with self.receives.changed:
                changes = int(lib.signal_fetch(self._changes()))
                waited: dict[int, int] = {}
                taken = self._look(tag, number, left, waited)
            if taken is not None:
                sender, message, is_wanted = taken
                if is_wanted:
                    return sender, message
                self._keep(sender, number)
            elif n > 1 and left >= set(range(n)) - {self._me}:
                raise MismatchError(
                    "recv from any source: all other ranks have left the process group, and no "
                    f"message with tag {tag} of theirs is left"
                )
            else:
                self._await_change(waited, changes + 1)

    def _look(
        self, tag: int, number: int, left: set[int], waited: dict[int, int]
    ) -> tuple[int, Message | None, bool] | None:
        """Under the lock: a sender whose message the receive takes, that message, and is it wanted?

        ``left``: members that have left, and sent no more; ``waited``: pieces of others that would do.
        """
        n = len(self._pes)
        for step in range(n):
            sender = (self._turn + step) % n
            if not self.receives.may_read(number, sender):
                continue
            for message in self._kept[sender]:
                if message.tag == tag:
                    self._kept[sender].remove(message)
                    self.receives.reads(sender, number)  # until ``received``, which takes that back
                    return sender, message, True
            following = self._received[sender] + 1
            word = int(lib.signal_fetch(self._arrived(sender)))
            if sender in self._cut_from or (word >= LEFT and word - LEFT < following):
                left.add(sender)
            elif word < following:
                waited[sender] = following
            else:
                self.receives.reads(sender, number)
                self._turn = (sender + 1) % n
                return sender, None, self._has_tag(sender, tag)
        return None

    def _keep(self, sender: int, number: int) -> None:
        """By the receive ``number``: read a member's next message for one that is still to come."""
        try:
            nbytes, tag, dtype = self._head(sender)
            data = torch.empty(nbytes, dtype=torch.uint8)
            found = self.receive(data, sender, tag, dtype=dtype)
            with self.receives.changed:
                self._kept[sender].append(Message(found, tag, data, dtype))
        finally:
            self.receives.is_over(number)
            self._look_again()  # those from any source that left the sender out while it was read

    def _has_tag(self, sender: int, tag: int) -> bool:
        wait_for_word(self._arrived(sender), self._received[sender] + 1, None)  # it has: orders
        return self._head(sender)[1] == tag

    def _await_change(self, waited: dict[int, int], changes: int) -> None:
        """Until one of the members has sent more than that, or receives have changed."""
        n = len(self._pes)
        wanted = {**waited, _OF_MEMBER * n: changes}
        if let_others is not None:
            first = int(self._words.data_ptr())
            rows = [(first + i * _WORD, number) for i, number in wanted.items()]
            let_others(lambda: any(int(lib.signal_fetch(at)) >= number for at, number in rows))
        words = self._words[: (_OF_MEMBER * n + 1) * _WORD].view(torch.int64)
        values = [wanted.get(i, 0) for i in range(len(words))]
        wait_until_any_vector(
            words, Cmp.GE, values, status=[i not in wanted for i in range(len(words))]
        )

    def received(self, number: int, sender: int | None) -> None:
        """The receive ``number`` is over; what others may take has changed."""
        if self.receives.over(number, sender):
            self._look_again()

    def _look_again(self) -> None:
        """Wake this member's receives from any source."""
        where = self._changes(), 1, SignalOp.ADD, self._pes[self._me]
        check(lib.ishmemx_signal_op(CTX_DEFAULT.handle, *where))

    # ---- messages ----------------------------------------------------------------------------------

    def send(self, tensor: torch.Tensor, to: int, tag: int, stream: Any = None) -> None:
        """Send to a member; on the host it is done when the last pieces are in its slots.

        Raises: ShmemError (an earlier one was cut off).
        """
        given = as_bytes(flat(tensor))
        _refuse_cut(self._cut_to, to, "send to")
        if stream is None:
            packed = _HEAD.pack(given.numel(), tag, _name_of(tensor.dtype).encode())
            head = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
            self._send_piece(to, head, None)
        else:
            _refuse_capture()
        with _whole(self._cut_to, to):
            for begin in range(0, given.numel(), self._slot):
                self._send_piece(to, given[begin : begin + self._slot], stream)

    def kept(self, sender: int) -> Message | None:
        """The next message of a member, if it has been read before."""
        with self.receives.changed:
            return self._kept[sender].popleft() if self._kept[sender] else None

    def receive(
        self, tensor: torch.Tensor, sender: int, tag: int, stream: Any = None,
        message: Message | None = None, dtype: str = "",
    ) -> int:  # fmt: skip
        """Receive the next message of a member into ``tensor``, or one that has been read.

        ``dtype``: of the message that is wanted, where that is not the tensor's. Returns, on the host,
        the message's number among those of its sender.

        Raises: MismatchError (on the host: a message of another size, dtype or tag; it is lost),
            ShmemError (an earlier one was cut off).
        """
        target = Target(tensor)
        result = as_bytes(target.flat)
        own = dtype or _name_of(tensor.dtype)
        nbytes, sent_tag, sent, wanted, number = result.numel(), tag, own, True, 0
        if message is None:
            _refuse_cut(self._cut_from, sender, "recv from")
        if stream is not None:
            _refuse_capture()
        elif message is not None:
            nbytes, sent_tag, sent = message.data.numel(), message.tag, message.dtype
            number = message.number
        else:
            box = self._await_piece(sender, None)
            self._n_messages[sender] = number = self._n_messages[sender] + 1
            nbytes, sent_tag, sent = _unpacked(box)
            self._free_piece(sender, None)
        if stream is None:
            wanted = (nbytes, sent_tag, sent) == (result.numel(), tag, own)
        length = nbytes
        if message is not None:
            nbytes = 0  # none of it is on its way
            if wanted:
                result.copy_(message.data)
        with _whole(self._cut_from, sender):
            for begin in range(0, nbytes, self._slot):
                box = self._await_piece(sender, stream)
                end = min(begin + self._slot, nbytes)
                if wanted:
                    result[begin:end].copy_(box[: end - begin])
                self._free_piece(sender, stream)
        if not wanted:
            raise MismatchError(
                f"recv of {_shown(own, result.numel())} with tag {tag} from rank {sender} met a message "
                f"of {_shown(sent, length)} with tag {sent_tag}: messages of a pair of ranks are "
                "received in the order they are sent, and as what they are sent"
            )
        target.done()
        return number


def _unpacked(box: torch.Tensor) -> tuple[int, int, str]:
    """Bytes, tag and dtype that a message begins with."""
    nbytes, tag, dtype = _HEAD.unpack(bytes(box[: _HEAD.size].tolist()))
    return int(nbytes), int(tag), dtype.rstrip(b"\0").decode()


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shown(dtype: str, nbytes: int) -> str:
    """``float32[4]``."""
    return f"{dtype}[{nbytes // getattr(torch, dtype).itemsize}]"


def wait_for_word(address: int, value: int, stream: Any) -> int:
    """Until the word is as large; what it is then, 0 on a stream."""
    if stream is not None:
        wait_on_stream("uint64", address, Cmp.GE, value, stream, driver=True)
        return 0
    if let_others is not None:
        let_others(lambda: int(lib.signal_fetch(address)) >= value)
    found = lib.signal_wait_until(address, Cmp.GE, value)
    if found == lib.failed_signal:
        check_value()
    return int(found)


def _refuse_left(word: int, number: int, what: str, member: int) -> None:
    """Raises MismatchError if ``word`` says that its member has left before ``number``."""
    if word >= LEFT and word - LEFT < number:
        raise MismatchError(
            f"{what}: rank {member} has left the process group, by destroy_process_group or at its end; "
            "no call that needs it can be complete"
        )


@contextmanager
def _whole(cut: set[int], member: int) -> Iterator[None]:
    """Pieces behind a head: where they end early the pair's next message would begin among them."""
    try:
        yield
    except MismatchError:  # the member has left, and its word goes on saying so
        raise
    except BaseException:
        cut.add(member)
        raise


def _refuse_cut(cut: set[int], member: int, what: str) -> None:
    if member in cut:
        raise ShmemError(
            f"{what} rank {member}: an error has cut off an earlier message, whose rest is missing; no "
            "other can follow it. Make another process group"
        )


def _refuse_capture() -> None:
    if capturing():
        raise UnsupportedError(
            "send and recv count their messages on the host, so that a graph cannot be replayed; "
            "capture torch.ops.pyshmem.put_signal and wait_signal instead"
        )
