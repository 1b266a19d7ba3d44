# SPDX-License-Identifier: BSD-3-Clause
"""``torch.distributed._symmetric_memory`` over a heap: an allocator that torch takes by its name.

Torch's ``empty`` is no collective call, and allocations of the heap are. So all PEs take a block first,
of which each gives parts by itself; members of a group tell each other in ``rendezvous`` where theirs
are.

A part is the tensor's bytes, the signal pad of torch (which kernels of torch and the program's own set
and wait for) and a word for each channel and PE, which counts the signals that the PE has put, in
whatever group: the members of another one go on with the counts that they find.
The word comes after what its member wrote before: ``signal_op`` is behind a quiet, or in the order of a
stream; who has seen the count may read.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import torch
import torch.distributed as dist

from ..._core.arrays.checks import stream_handle
from ..._core.errors import ShmemError, ShmemTimeout, UnsupportedError
from ..._core.library import check, lib, parse_size, refuse_order
from ..._core.values import SignalOp
from ..._foreign import torch as foreign
from ..._torch import tensors
from ..._torch.process_groups import GroupExchange, Interval, Pool, from_process_group
from ..._torch.users_calls import waits_of
from ...host import ordering, query
from ...host.job import runtime
from ...host.kernels.stream_kernels import run
from ...host.teams.contexts import CTX_DEFAULT
from . import native
from .send_recv import wait_for_word

_LINE = 256  # bytes that parts are multiples of
_WORD = 8
_POLL = 5e-5  # seconds between two looks at a word whose wait may end before


class Block:
    """Memory of one heap, the same bytes on all PEs, and what this PE has given of it."""

    def __init__(self, nbytes: int, heap: str) -> None:
        self._pool = Pool(nbytes, heap)
        self.bytes = self._pool.block
        self.begin = int(self.bytes.data_ptr())
        self.given: dict[int, tuple[Interval, int]] = {}
        self.got: dict[
            int, Counter[int]
        ] = {}  # of each part, signals waited for, by number of the word
        self.pad = foreign.signal_pad_size()

    def allocate(self, nbytes: int) -> int:
        """The address of a part, whose pad and words are 0. Raises: HeapExhausted."""
        pad = -(-nbytes // _LINE) * _LINE
        # A channel has an element of four bytes in the pad for each member.
        part = self._pool.take_bytes(-(-(pad + self.pad + self.pad // 4 * _WORD) // _LINE) * _LINE)
        self.bytes[part[0] + pad : part[1]].zero_()
        if self.bytes.is_cuda:
            torch.cuda.synchronize(self.bytes.device)  # before another PE's signal
        address = self.begin + part[0]
        self.given[address], self.got[address] = (part, nbytes), Counter()
        return address

    def free(self, address: int) -> None:
        """Take a part back."""
        part, _ = self.given.pop(address)
        del self.got[address]
        self._pool.give_back(part)

    def at_peer(self, begin: int, pe: int) -> int:
        """Where another PE's copy of the block's byte ``begin`` is here. Raises: UnsupportedError."""
        found = query.ptr(self._pool.array[begin : begin + 1], pe)
        if found is None:
            raise UnsupportedError(
                f"torch's symmetric memory is loaded and stored directly, and PE {pe} is out of reach"
            )
        return int(tensors.over(found).data_ptr())


class Rendezvous:
    """The members' parts of one tensor, as C++ and kernels ask for them.

    Args:
        block: of this PE.
        address: of the part.
        group: of torch.

    Raises: UnsupportedError (a member's memory is out of reach of loads and stores).
    """

    def __init__(self, block: Block, address: int, group: Any) -> None:
        (begin, _), self.nbytes = block.given[address]
        exchange = GroupExchange(group)
        team = from_process_group(group)
        self.pes = list(team.pes())
        team.destroy()
        self._pad, n = -(-self.nbytes // _LINE) * _LINE, runtime.current().n_pes
        self._words, self._channels, self._n_pes = self._pad + block.pad, block.pad // 4 // n, n
        words = (
            block.bytes[begin + self._words :][: block.pad // 4 * _WORD].view(torch.int64).tolist()
        )
        told = exchange.allgather(
            (begin, self.nbytes, {number: count for number, count in enumerate(words) if count})
        )
        if len({nbytes for _, nbytes, _ in told}) > 1:
            raise ValueError(f"rendezvous of tensors of {[nbytes for _, nbytes, _ in told]} bytes")
        self.rank, self.ranks = exchange.Get_rank(), dist.get_process_group_ranks(group)
        self.device = block.bytes.device
        self._places = [block.begin + begin for begin, *_ in told]  # here, of the members' parts
        self.buffers = [
            block.at_peer(begin, pe) for (begin, *_), pe in zip(told, self.pes, strict=True)
        ]
        self.pads = [place + self._pad for place in self.buffers]
        self._put = [
            Counter(counts) for *_, counts in told
        ]  # to each member, by number of the word
        self._got = block.got[address]
        self._on_device = [
            torch.tensor(values, dtype=kind, device=self.device)
            for values, kind in (
                (self.buffers, torch.int64), (self.pads, torch.int64), (self.ranks, torch.int32)
            )
        ]  # fmt: skip
        self.buffers_dev, self.pads_dev, self.ranks_dev = (t.data_ptr() for t in self._on_device)

    def _number(self, channel: int, of: int) -> int:
        """The number of the word that counts the signals of member ``of``."""
        if not 0 <= channel < self._channels:
            raise ValueError(f"channel {channel}; there are 0..{self._channels - 1}")
        return channel * self._n_pes + self.pes[of]

    def _word(self, member: int, number: int) -> int:
        return self._places[member] + self._words + number * _WORD

    def _stream(self) -> Any:
        return torch.cuda.current_stream(self.device) if self.device.type == "cuda" else None

    def put_signal(self, to: int, channel: int, seconds: float) -> None:
        """Tell a member that what was written before is there; it never waits."""
        self._check_rank(to)
        number, stream = self._number(channel, self.rank), self._stream()
        self._put[to][number] += 1
        where = self._word(to, number), self._put[to][number], SignalOp.SET, self.pes[to]
        if stream is None:
            ordering.quiet()
            check(lib.ishmemx_signal_op(CTX_DEFAULT.handle, *where))
        else:
            run(lib.ishmemx_signal_op_by_driver, CTX_DEFAULT.handle, *where, stream_handle(stream))

    def wait_signal(self, sender: int, channel: int, seconds: float, call: str = "") -> None:
        """Wait for the next signal of a member: on the host, or in the order of the current stream.

        ``call``: for reports of waits.

        Raises: ShmemTimeout (after ``seconds`` on the host; 0: as long as it takes).
        """
        self._check_rank(sender)
        number, stream = self._number(channel, sender), self._stream()
        word, count = self._word(self.rank, number), self._got[number] + 1
        if stream is None and seconds:
            end = time.monotonic() + seconds
            while int(lib.signal_fetch(word)) < count:
                if time.monotonic() > end:
                    raise ShmemTimeout(
                        f"no signal of rank {sender} on channel {channel}: its timeout of {seconds:g} s "
                        "is over"
                    )
                time.sleep(_POLL)
        with waits_of(call or f"wait_signal from rank {sender} (channel {channel})"):
            wait_for_word(word, count, stream)
        self._got[number] = count

    def barrier(self, channel: int, seconds: float) -> None:
        """Signals to all others, and from them. Raises: ShmemTimeout, as ``wait_signal``."""
        others = [rank for rank in range(len(self.pes)) if rank != self.rank]
        for rank in others:
            self.put_signal(rank, channel, seconds)
        for rank in others:
            call = f"barrier of symmetric memory, for rank {rank} (channel {channel})"
            self.wait_signal(rank, channel, seconds, call)

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < len(self.pes):
            raise ValueError(f"rank {rank} of a group of {len(self.pes)}")


_blocks: dict[str, Block] = {}
runtime.on_finalize(_blocks.clear)
_offered: set[str] = set()


class _Offer:
    """What torch's allocator asks, of a heap."""

    def __init__(self, heap: str) -> None:
        self._heap = heap

    def _block(self) -> Block:
        if self._heap not in _blocks:
            raise ShmemError(
                f"the job has no symmetric memory of torch on its {self._heap} heap: call "
                "pyshmem.interop.torch.use_symmetric_memory, on all PEs"
            )
        return _blocks[self._heap]

    def allocate(self, nbytes: int) -> int:
        return self._block().allocate(nbytes)

    def free(self, address: int) -> None:
        block = _blocks.get(self._heap)
        if block is not None and address in block.given:
            block.free(address)

    def has(self, address: int) -> bool:
        return self._heap in _blocks and address in _blocks[self._heap].given

    def size_of(self, address: int) -> int:
        return self._block().given[address][1]

    def rendezvous(self, address: int, name: str) -> Rendezvous | None:
        if not self.has(address):
            return None
        return Rendezvous(self._block(), address, foreign.group_of_name(name))


def use_symmetric_memory(nbytes: int | str, heap: str | None = None) -> None:
    """Let ``torch.distributed._symmetric_memory`` take its memory from a heap. Collective over all PEs.

        symmetric.use_symmetric_memory("64M")
        box = symm_mem.empty(1024, device="cuda")
        peers = symm_mem.rendezvous(box, dist.group.WORLD)
        peers.get_buffer(1, box.shape, box.dtype).copy_(x)
        peers.barrier()

    From then on tensors of that module, on CPUs or on this PE's GPU, lie in a block of the heap, and
    ``rendezvous`` gives the other members' copies to load and store. ``put_signal``, ``wait_signal``
    and ``barrier`` are done on return for CPU tensors, and in the order of torch's current stream for
    CUDA tensors. A user's first call compiles a file for the torch that is there. The block ends with
    the job, and so do its tensors.

    Args:
        nbytes: of the block, or a text such as ``"64M"``, for all tensors and 10 KiB more for each.
        heap: ``"host"`` or ``"device"``; None: the device heap where there are GPUs.

    Raises: TypeError, ValueError (heap, nbytes; a block of this heap is there), HeapExhausted,
        NotInitialized, UnsupportedError (no C++ compiler; order is checked), RuntimeError (of torch: it
        has given memory of this kind of device by another allocator before).
    Extension.
    """
    refuse_order("torch's own symmetric memory")
    if heap is None:
        heap = "device" if runtime.device_name() == "cuda" else "host"
    if heap not in ("host", "device"):
        raise ValueError(f"heap is {heap!r}; give 'host' or 'device'")
    if heap in _blocks:
        raise ValueError(f"torch has a block of the {heap} heap already, of this job")
    block = Block(parse_size(nbytes), heap)
    _blocks[heap] = block
    if heap not in _offered:
        name = "pyshmem" if heap == "device" else "pyshmem_host"
        native.symmetric_memory().offer(_Offer(heap), name, block.bytes.device)
        _offered.add(heap)
