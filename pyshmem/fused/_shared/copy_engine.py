# SPDX-License-Identifier: BSD-3-Clause
"""Blocks that members fill for each other, beside the caller's stream: who may write, what has come.

A channel is a block with a slot for each member. Its words are 0 or 1, so that a captured graph is
replayed as it is: ``full`` ones at the receiver are set behind the data and cleared by who waited for
them; ``busy`` ones at the sender are set before it sends and cleared by the receiver when it has used
the data. On GPUs all of it is in the order of streams: copies by copy engines, words that the stream
stores, and waits by the driver, or, since these have no deadline, by a kernel of one warp if
``PYSHMEM_TIMEOUT`` is set. In the simulator, where tensors are on the CPU, the host does each at once;
callers send before they wait, so nobody waits for ever.

A release has to come behind the claim: before it, it would be lost, and the next claim wait for ever. So
who releases has waited for something that the sender did behind its claim; who has claimed and has
nothing to send announces that.

A call that an error ends between its first claim and its last release settles first: it sends NaN in
place of what is left to send, takes what comes, and releases. So the other members' calls end, and the
next ones find all words at 0.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..._core.errors import KernelFault, PeerDied, ShmemTimeout
from ..._core.library import check, check_value, lib, setting_number
from ..._core.type_table import ELEMENT_NUMBER
from ..._core.values import Cmp, SignalOp
from ..._torch.launches import Launch, torch_stream
from ...host.job import runtime
from ...host.teams.contexts import CTX_DEFAULT
from ...triton import context
from .copy_engine_kernels import await_word_kernel
from .stage_marks import staged
from .workspace import Workspace

#: Most chunks of a member's data with a word of their own.
CHUNKS = 16
_WORD = 8
_SET, _EQ, _UINT64 = int(SignalOp.SET), int(Cmp.EQ), ELEMENT_NUMBER["uint64"]


class SideStream:
    """A stream beside the caller's, forked and joined by events; in the simulator there is only one.

    Attributes:
        handle: of the stream; None in the simulator.
    """

    def __init__(self, device: torch.device) -> None:
        self.handle: int | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=-1)
            self.handle = int(self._stream.cuda_stream)
            self._forked, self._joined = torch.cuda.Event(), torch.cuda.Event()
            self._marks = [torch.cuda.Event() for _ in range(CHUNKS)]

    def fork(self, stream: int | None) -> None:
        """What comes on it is behind what is on ``stream`` now."""
        if self.handle is not None and stream is not None:
            self._forked.record(torch_stream(stream))
            self._stream.wait_event(self._forked)

    def join(self, stream: int | None) -> None:
        """What comes on ``stream`` is behind what is on this one now."""
        if self.handle is not None and stream is not None:
            self._joined.record(self._stream)
            torch_stream(stream).wait_event(self._joined)

    def mark(self, number: int) -> None:
        """What is on it now is what ``await_mark`` waits for."""
        if self.handle is not None:
            self._marks[number].record(self._stream)

    def await_mark(self, number: int, stream: int | None) -> None:
        """What comes on ``stream`` is behind the last such mark."""
        if self.handle is not None and stream is not None:
            torch_stream(stream).wait_event(self._marks[number])


class _SideStreams(threading.local):
    """Those of a thread: another one's events are recorded at other times."""

    def __init__(self) -> None:
        self.of: dict[torch.device, SideStream] = {}


_side_streams = _SideStreams()


def side_stream(device: torch.device) -> SideStream:
    """The stream beside a device's others, of this thread."""
    found = _side_streams.of.get(device)
    if found is None:
        found = _side_streams.of[device] = SideStream(device)
    return found


class CopyChannel:
    """A block of a team's workspace with a slot a member, and words about it.

    Args:
        space: the team's workspace.
        name: of the block.
        slot: bytes of a slot, the same on all members; collective if that is more than before.
    """

    def __init__(self, space: Workspace, name: str, slot: int) -> None:
        self.space, self.me, self.n_pes = space, space.me, space.n_pes
        self.pes = space.thing("members", 0, space.team.pes)
        words = (CHUNKS + 1) * self.n_pes * _WORD
        self._words = space.block(f"{name} words", words, zeroed=True)
        self.slot = max(-(-slot // 256) * 256, 256)
        self.block = space.block(name, self.slot * self.n_pes)
        self._first_full, self._here = int(self._words.data_ptr()), int(self.block.data_ptr())
        self._first_busy = self._first_full + self.n_pes * CHUNKS * _WORD

    def address_of(self, member: int) -> int:
        """Where a member's slot is here."""
        return self._here + member * self.slot

    def bytes_of(self, member: int) -> torch.Tensor:
        """A member's slot here."""
        return self.block[member * self.slot : (member + 1) * self.slot]

    def view(self, member: int, rows: slice, columns: int, dtype: torch.dtype) -> torch.Tensor:
        """Rows of a slot as a matrix."""
        width = columns * dtype.itemsize
        flat = self.bytes_of(member)[rows.start * width : rows.stop * width]
        return flat.view(dtype).view(rows.stop - rows.start, columns)

    def full_words(self) -> torch.Tensor:
        """A word a member and chunk, for kernels that wait."""
        return self._words[: CHUNKS * self.n_pes * _WORD].view(torch.int64)

    def _full(self, member: int, chunk: int) -> int:
        return self._first_full + (member * CHUNKS + chunk) * _WORD

    def _busy(self, member: int) -> int:
        return self._first_busy + member * _WORD

    # ---- the sender --------------------------------------------------------------------------------

    def claim(self, member: int, stream: int | None) -> None:
        """Waits until ``member`` has used what the caller sent last."""
        word = self._busy(member)
        await_word(word, 0, self.pes[member], stream, "wait for room")
        set_word(word, 1, self.pes[self.me], stream)

    def send(
        self, member: int, at: int, source: int, nbytes: int, chunk: int, stream: int | None,
        last: bool = True,
    ) -> None:  # fmt: skip
        """Copy from address ``source`` to byte ``at`` of the caller's slot at ``member``; then the word.

        ``last``: else there is more to come before the word.
        """
        dest = self._here + self.me * self.slot + at
        word = self._full(self.me, chunk) if last else None
        with staged("put rows", stream):
            _put(dest, source, nbytes, word, self.pes[member], stream)

    def send_to(
        self, member: int, address: int, nbytes: int, chunk: int, stream: int | None
    ) -> None:
        """The same from an address on the heap, or registered, to the same place of ``member``."""
        with staged("put rows", stream):
            _put(address, address, nbytes, self._full(self.me, chunk), self.pes[member], stream)

    def announce(self, member: int, chunk: int, stream: int | None) -> None:
        """The word alone: what ``member`` gets from here is ready."""
        set_word(self._full(self.me, chunk), 1, self.pes[member], stream)

    def fill_with_nan(self, stream: int | None) -> None:
        """The caller's slot here: in all types of floats, bytes of nothing but ones are NaN."""
        on = contextlib.nullcontext() if stream is None else torch.cuda.stream(torch_stream(stream))
        with on:
            self.bytes_of(self.me).fill_(255)

    def spoil(self, member: int, chunks: Iterable[int], stream: int | None) -> None:
        """Send what ``fill_with_nan`` made, in place of chunks that cannot be sent."""
        self.send(member, 0, self.address_of(self.me), self.slot, 0, stream, last=False)
        for chunk in chunks:
            self.announce(member, chunk, stream)

    def take_back(self, member: int, stream: int | None) -> None:
        """A claim behind which nothing was sent."""
        set_word(self._busy(member), 0, self.pes[self.me], stream)

    # ---- the receiver ------------------------------------------------------------------------------

    def arrived(self, member: int, chunk: int, stream: int | None) -> None:
        """Waits for what ``member`` sends, or announces; the word is ready for the next call then."""
        word = self._full(member, chunk)
        await_word(word, 1, self.pes[member], stream, "wait for rows")
        set_word(word, 0, self.pes[self.me], stream)

    def fetch(
        self, member: int, slot: int, at: int, dest: int, nbytes: int, stream: int | None
    ) -> None:
        """Copy from byte ``at`` of a slot at ``member`` to address ``dest``."""
        if not nbytes:
            return
        source = self._here + slot * self.slot + at
        with staged("get rows", stream):
            _get(dest, source, nbytes, self.pes[member], stream)

    def release(self, member: int, stream: int | None) -> None:
        """What ``member`` sent has been used."""
        set_word(self._busy(self.me), 0, self.pes[member], stream)


def settle(error: Exception, rest: Callable[[], Any]) -> None:
    """Do the ``rest`` of what a call owes to others when it ends with ``error``, which is raised then.

    Not where the job itself has failed: words that it waits for may never come.
    """
    if not isinstance(error, KernelFault | PeerDied | ShmemTimeout):
        with contextlib.suppress(Exception):  # the first one is what the caller wants to know
            rest()


# All PEs are near: their words and copies need no kernels that would have to be loaded.


def _put(
    dest: int, source: int, nbytes: int, word: int | None, pe: int, stream: int | None
) -> None:
    context = CTX_DEFAULT.handle
    if word is None and stream is None:
        check(lib.ishmemx_put(context, dest, source, nbytes, pe))
        check(lib.ishmemx_fence(context))
    elif word is None:
        check(lib.ishmemx_put_on_stream(context, dest, source, nbytes, pe, stream))
    elif not nbytes:
        set_word(word, 1, pe, stream)
    elif stream is None:
        check(lib.ishmemx_put_signal(context, dest, source, nbytes, word, 1, _SET, pe))
    else:
        where = context, dest, source, nbytes, word, 1, _SET, pe, stream
        check(lib.ishmemx_put_signal_on_stream(*where))


def _get(dest: int, source: int, nbytes: int, pe: int, stream: int | None) -> None:
    context = CTX_DEFAULT.handle
    if stream is None:
        check(lib.ishmemx_get(context, dest, source, nbytes, pe))
    else:
        check(lib.ishmemx_get_on_stream(context, dest, source, nbytes, pe, stream))


def set_word(address: int, value: int, pe: int, stream: int | None) -> None:
    """Set a word on ``pe``, in the order of a stream."""
    context = CTX_DEFAULT.handle
    if stream is None:
        check(lib.ishmemx_fence(context))
        check(lib.ishmemx_signal_op(context, address, value, _SET, pe))
        return
    check(lib.ishmemx_signal_op_by_driver(context, address, value, _SET, pe, stream))


def await_word(
    address: int, value: int, pe: int, stream: int | None, label: str = "wait for a word"
) -> None:
    """Wait for a word of the caller's that ``pe`` sets, in the order of a stream."""
    with staged(label, stream):
        if stream is None:
            if lib.signal_wait_until(address, _EQ, value) == lib.failed_signal:
                check_value()
        elif _deadline():
            await_by_kernel(address, value, pe, stream)
        else:
            check(lib.ishmemx_wait_by_driver(_UINT64, address, _EQ, value, stream))


_known: dict[str, Any] = {}  # about the job


def _deadline() -> int:
    found: int | None = _known.get("deadline")
    if found is None:
        found = _known["deadline"] = setting_number("TIMEOUT")
    return found


def await_by_kernel(address: int, value: int, pe: int, stream: int | None = None) -> None:
    """The same by a kernel: after ``PYSHMEM_TIMEOUT`` it ends, and the next call raises KernelFault."""
    if "wait" not in _known:
        _known["wait"] = Launch(await_word_kernel, 1, (context(),), {"num_warps": 1})
    _known["wait"]((), (address, value, pe), stream)


def _forget_job() -> None:
    global _side_streams
    _known.clear()
    _side_streams = _SideStreams()  # all threads': what the job left on such a stream may never end


runtime.on_finalize(_forget_job)
