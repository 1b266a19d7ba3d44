# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two PEs of a team: send and recv, each pair in the order of its calls.

The receiver has two slots for each sender and a word that counts the pieces that have arrived; the
sender has a word for each receiver that counts those it has taken. A piece goes to slot number % 2 once
piece number - 2 has been taken. The slot's contents come before the word that tells of them
(``put_signal``), and the taken word is set after the slot has been read.

Who leaves the group sets the words that its peers wait for once more, to ``LEFT`` and the last number:
nobody waits for it any longer, and who needed more than that fails.
"""

from __future__ import annotations

import struct
from typing import Any

import torch

from ..._core.arrays.checks import stream_handle
from ..._core.errors import MismatchError, UnsupportedError
from ..._core.library import Cmp, SignalOp, check, check_value, lib
from ..._torch.arguments import as_bytes
from ..._torch.staging import Target, capturing, flat
from ...host import ordering
from ...host.kernels.stream_kernels import run, wait_on_stream
from ...host.teams.contexts import CTX_DEFAULT
from ...host.teams.team import Team

_HEAD = struct.Struct("<qq")  # bytes, tag
_WORD, _LINE = 8, 64
LEFT = 1 << 62  # in a word: who sets it has left the group; the bits below are its last number
_OF_MEMBER = (
    3  # words: pieces that it has sent, pieces that it has taken, its collectives on a stream
)


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
        words = -(-_OF_MEMBER * n * _WORD // _LINE) * _LINE
        self._slot = (block.numel() - words) // (2 * n) // _LINE * _LINE
        if self._slot < _LINE:
            raise ValueError(f"{block.numel()} bytes are too few for messages of {n} PEs")
        self._words, self._slots = block[:words], block[words:]
        self._sent, self._received = [0] * n, [0] * n
        self._words.zero_()

    def _arrived(self, sender: int) -> int:
        """The address of the word, the same on all members."""
        return int(self._words.data_ptr()) + sender * _WORD

    def _taken(self, receiver: int) -> int:
        return int(self._words.data_ptr()) + (len(self._pes) + receiver) * _WORD

    def _calls(self, member: int) -> int:
        return int(self._words.data_ptr()) + (2 * len(self._pes) + member) * _WORD

    def _box(self, sender: int, number: int) -> torch.Tensor:
        begin = (2 * sender + number % 2) * self._slot
        return self._slots[begin : begin + self._slot]

    # ---- pieces ------------------------------------------------------------------------------------

    def _send_piece(self, to: int, piece: torch.Tensor, stream: Any) -> None:
        self._sent[to] = number = self._sent[to] + 1
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

    def _await_piece(self, sender: int, stream: Any) -> torch.Tensor:
        self._received[sender] = number = self._received[sender] + 1
        found = wait_for_word(self._arrived(sender), number, stream)
        _refuse_left(found, number, f"recv from rank {sender}", sender)
        return self._box(sender, number)

    def _free_piece(self, sender: int, stream: Any) -> None:
        where = self._taken(self._me), self._received[sender], SignalOp.SET, self._pes[sender]
        context = CTX_DEFAULT.handle
        if stream is None:
            check(lib.ishmemx_signal_op(context, *where))
        else:
            run(lib.ishmemx_signal_op_by_driver, context, *where, stream_handle(stream))

    # ---- members that have left --------------------------------------------------------------------

    def leave(self, calls: int, stream: Any) -> None:
        """Tell the others that this member sends and takes no more, and after how many ``calls``.

        What it has sent before is complete: ``stream``, where its messages are, has been waited for.
        """
        context = CTX_DEFAULT.handle
        for member, pe in enumerate(self._pes):
            if member == self._me:
                continue
            for word, number in (
                (self._calls(self._me), calls),
                (self._arrived(self._me), self._sent[member]),
                (self._taken(self._me), self._received[member]),
            ):
                where = word, LEFT | number, SignalOp.SET, pe
                if stream is None:
                    check(lib.ishmemx_signal_op(context, *where))
                else:
                    handle = stream_handle(stream)
                    run(lib.ishmemx_signal_op_by_driver, context, *where, handle)
        if stream is None:
            ordering.quiet()

    def refuse_call(self, calls: int) -> None:
        """Raises MismatchError if a member has left before its collective ``calls`` on a stream.

        Of the mailbox on the host heap. Kernels of that collective would wait for the member in vain.
        """
        for member in range(len(self._pes)):
            _refuse_left(int(lib.signal_fetch(self._calls(member))), calls, "a collective", member)

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

    # ---- messages ----------------------------------------------------------------------------------

    def send(self, tensor: torch.Tensor, to: int, tag: int, stream: Any = None) -> None:
        """Send to a member; on the host it is done when the last pieces are in its slots."""
        given = as_bytes(flat(tensor))
        if stream is None:
            head = torch.frombuffer(bytearray(_HEAD.pack(given.numel(), tag)), dtype=torch.uint8)
            self._send_piece(to, head, None)
        else:
            _refuse_capture()
        for begin in range(0, given.numel(), self._slot):
            self._send_piece(to, given[begin : begin + self._slot], stream)

    def receive(self, tensor: torch.Tensor, sender: int, tag: int, stream: Any = None) -> None:
        """Receive the next message of a member into ``tensor``.

        Raises: MismatchError (on the host: a message of another size or tag; it is lost).
        """
        target = Target(tensor)
        result = as_bytes(target.flat)
        nbytes, sent_tag, wanted = result.numel(), tag, True
        if stream is None:
            box = self._await_piece(sender, None)
            nbytes, sent_tag = _HEAD.unpack(bytes(box[: _HEAD.size].tolist()))
            self._free_piece(sender, None)
            wanted = (nbytes, sent_tag) == (result.numel(), tag)
        else:
            _refuse_capture()
        for begin in range(0, nbytes, self._slot):
            box = self._await_piece(sender, stream)
            length = min(self._slot, nbytes - begin)
            if wanted:
                result[begin : begin + length].copy_(box[:length])
            self._free_piece(sender, stream)
        if not wanted:
            raise MismatchError(
                f"recv of {result.numel()} bytes with tag {tag} met a message of {nbytes} bytes with "
                f"tag {sent_tag}: messages of a pair of PEs are received in the order they are sent"
            )
        target.done()


def wait_for_word(address: int, value: int, stream: Any) -> int:
    """Until the word is as large; what it is then, 0 on a stream."""
    if stream is not None:
        wait_on_stream("uint64", address, Cmp.GE, value, stream, driver=True)
        return 0
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


def _refuse_capture() -> None:
    if capturing():
        raise UnsupportedError(
            "send and recv count their messages on the host, so that a graph cannot be replayed; "
            "capture torch.ops.pyshmem.put_signal and wait_signal instead"
        )
