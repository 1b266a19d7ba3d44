# SPDX-License-Identifier: BSD-3-Clause
"""Blocks that members fill for each other, beside the caller's stream: who may write, what has come.

A link is a block with a slot for each member. Its words are 0 or 1, so that a captured graph is replayed
as it is: ``full`` ones at the receiver are set behind the data and cleared by who waited for them;
``busy`` ones at the sender are set before it sends and cleared by the receiver when it has used the
data. On GPUs all of it is in the order of streams: copies by copy engines, words that the stream stores,
and waits by the driver, or, since these have no deadline, by a kernel of one warp if ``PYSHMEM_TIMEOUT``
is set. In the simulator, where tensors are on the CPU, the host
does each at once; callers send before they wait, so nobody waits for ever.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .._core.library import Cmp, SignalOp, check, check_value, lib, setting_number
from ..host import runtime
from ..host.contexts import CTX_DEFAULT
from ..host.stream_kernels import run, wait_on_stream
from ..triton import context
from .links_kernels import await_word_kernel
from .stamps import staged
from .workspace import Workspace

#: Most pieces of a member's data with a word of their own.
CHUNKS = 16
_WORD = 8


class Beside:
    """A stream beside the caller's, forked and joined by events; in the simulator there is only one."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None

    def fork(self) -> None:
        """What comes on it is behind what is on the caller's stream now."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))

    def join(self) -> None:
        """What comes on the caller's stream is behind what is on this one now."""
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def current(self) -> Any:
        """A ``with`` block in which it is torch's current stream."""
        return contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


_beside: dict[torch.device, Beside] = {}


def beside(device: torch.device) -> Beside:
    """The stream beside a device's others."""
    if device not in _beside:
        _beside[device] = Beside(device)
    return _beside[device]


def current_stream() -> int | None:
    """The handle of torch's current stream; None where the host does what streams do."""
    if runtime.device_name() != "cuda":
        return None
    return int(torch.cuda.current_stream().cuda_stream)


class Link:
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
        return int(self._words.data_ptr()) + (member * CHUNKS + chunk) * _WORD

    def _busy(self, member: int) -> int:
        return int(self._words.data_ptr()) + (self.n_pes * CHUNKS + member) * _WORD

    # ---- the sender --------------------------------------------------------------------------------

    def claim(self, member: int) -> None:
        """Waits until ``member`` has used what the caller sent last."""
        with staged("wait for room"):
            await_word(self._busy(member), 0, self.pes[member])
        set_word(self._busy(member), 1, self.pes[self.me])

    def send(
        self, member: int, at: int, source: torch.Tensor, chunk: int, last: bool = True
    ) -> None:
        """Copy ``source`` to byte ``at`` of the caller's slot at ``member``, which the word tells of.

        ``last``: else there is more to come before the word.
        """
        dest = self.bytes_of(self.me).data_ptr() + at
        where = dest, source.data_ptr(), source.nbytes
        word = self._full(self.me, chunk) if last else None
        with staged("put rows"):
            _put(*where, word, self.pes[member])

    def tell(self, member: int, chunk: int) -> None:
        """The word alone: what ``member`` gets from here is ready."""
        set_word(self._full(self.me, chunk), 1, self.pes[member])

    # ---- the receiver ------------------------------------------------------------------------------

    def arrived(self, member: int, chunk: int) -> None:
        """Waits for what ``member`` sends, or tells of."""
        with staged("wait for rows"):
            await_word(self._full(member, chunk), 1, self.pes[member])
        set_word(self._full(member, chunk), 0, self.pes[self.me])

    def fetch(self, member: int, at: int, dest: torch.Tensor) -> None:
        """Copy from byte ``at`` of slot ``member`` at ``member`` into ``dest``."""
        source = self.bytes_of(member).data_ptr() + at
        where = CTX_DEFAULT.handle, dest.data_ptr(), source, dest.nbytes, self.pes[member]
        stream = current_stream()
        if not dest.nbytes:
            return
        with staged("get rows"):
            if stream is None:
                check(lib.ishmemx_get(*where))
            else:
                run(lib.ishmemx_get_on_stream, *where, stream)

    def release(self, member: int) -> None:
        """What ``member`` sent has been used."""
        set_word(self._busy(self.me), 0, self.pes[member])


def _put(dest: int, source: int, nbytes: int, word: int | None, pe: int) -> None:
    context, stream = CTX_DEFAULT.handle, current_stream()
    if word is None and stream is None:
        check(lib.ishmemx_put(context, dest, source, nbytes, pe))
        check(lib.ishmemx_fence(context))
    elif word is None:
        run(lib.ishmemx_put_on_stream, context, dest, source, nbytes, pe, stream)
    else:
        where = context, dest, source, nbytes, word, 1, SignalOp.SET, pe
        if not nbytes:
            set_word(word, 1, pe)
        elif stream is None:
            check(lib.ishmemx_put_signal(*where))
        else:
            run(lib.ishmemx_put_signal_on_stream, *where, stream)


def set_word(address: int, value: int, pe: int) -> None:
    """Set a word on ``pe``, in the order of torch's current stream."""
    where, stream = (CTX_DEFAULT.handle, address, value, SignalOp.SET, pe), current_stream()
    if stream is None:
        check(lib.ishmemx_fence(CTX_DEFAULT.handle))
        check(lib.ishmemx_signal_op(*where))
    else:
        run(lib.ishmemx_signal_op_by_driver, *where, stream)


def await_word(address: int, value: int, pe: int) -> None:
    """Wait for a word of the caller's that ``pe`` sets, in the order of torch's current stream."""
    stream = current_stream()
    if stream is not None and setting_number("TIMEOUT"):
        await_by_kernel(address, value, pe)
    elif stream is not None:
        wait_on_stream("uint64", address, Cmp.EQ, value, stream, driver=True)
    elif lib.signal_wait_until(address, Cmp.EQ, value) == lib.failed_signal:
        check_value()


def await_by_kernel(address: int, value: int, pe: int) -> None:
    """The same by a kernel: after ``PYSHMEM_TIMEOUT`` it ends, and the next call raises KernelFault."""
    await_word_kernel[(1,)](address, value, pe, context(), num_warps=1)


runtime.on_finalize(_beside.clear)
