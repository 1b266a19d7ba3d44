# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that torch's own allocator makes in symmetric memory: torch.cuda.MemPool over a heap."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from ..._core import library
from ..._core.errors import UnsupportedError
from ..._core.library import parse_size
from ..._torch.arguments import check_plain
from ..._torch.segments import Segment, Segments
from ...host.job import runtime

#: The functions of the library that torch's allocator calls.
_TAKE, _GIVE = "ishmemx_pool_take", "ishmemx_pool_give"


class Pool:
    """What ``pool`` returns; a context manager that may be entered again, once it was left.

    Pools nest: tensors are of the innermost one.

    Attributes:
        nbytes: that tensors of the pool may have together, torch's rounding included.
    """

    def __init__(self, nbytes: int | None) -> None:
        device = runtime.current().device
        if device != "cuda":
            raise UnsupportedError(
                "torch has pools of memory of GPUs alone (torch.cuda.MemPool), and this job runs with "
                f"device {device!r}; pyshmem.interop.torch.empty, zeros, ... make symmetric tensors"
            )
        if not hasattr(torch.cuda, "MemPool"):
            raise UnsupportedError(f"torch {torch.__version__} has no torch.cuda.MemPool; 2.5 has")
        self._segments = Segments(nbytes)
        self.nbytes = self._segments.nbytes
        # The extension's own file: a name is looked up in what it is linked to as well.
        at = torch.cuda.memory.CUDAPluggableAllocator(library.native_file(), _TAKE, _GIVE)
        self._pool: Any = torch.cuda.MemPool(at.allocator())
        self._contexts: list[Any] = []

    def __enter__(self) -> Pool:
        if self._contexts:  # torch would raise too, and count a user that never leaves
            raise ValueError(
                "the pool is entered already, here or in another thread: leave it first; another pool "
                "can be entered inside"
            )
        self._segments.enter()
        context = torch.cuda.use_mem_pool(self._pool)
        try:
            context.__enter__()
        except BaseException:
            self._segments.leave()
            raise
        self._contexts.append(context)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._contexts.pop().__exit__(None, None, None)
        self._segments.leave()
        if error is None:  # else the others need not come
            self.rendezvous()

    def rendezvous(self, *tensors: torch.Tensor) -> None:
        """Compare the pool's segments on all PEs; from then on they are symmetric memory. Collective.

        Leaving the block does it. Segments are what torch's allocator asks for, of 2 MiB and more;
        where in them a tensor lies is torch's, and the same on PEs that make and drop tensors in the
        same order.

        Args:
            tensors: of the pool; their places and bytes are compared as well.

        Completes: on return routines take tensors of the pool on all PEs.
        Raises: MismatchError (what differs, and what each PE has), ValueError (freed; a tensor of no
            pool), NotInitialized, ShmemTimeout, PeerDied.
        Extension.
        """
        self._segments.rendezvous(", ".join(self._place(tensor) for tensor in tensors))

    def _place(self, tensor: torch.Tensor) -> str:
        check_plain(tensor)
        offset = self._segments.offset_of(tensor.data_ptr())
        if offset is None:
            raise ValueError(
                f"a tensor {tuple(tensor.shape)} on {tensor.device} is not of the pool"
            )
        return f"{tensor.nbytes} bytes at byte {offset}"

    def segments(self) -> list[Segment]:
        """What torch has taken of the pool here, by place: byte of the pool, and bytes.

        Extension.
        """
        self._segments.check_usable()
        return self._segments.taken()[0]

    def free(self) -> None:
        """Give the pool's memory back to the heap. Collective; its tensors are gone by then.

        Raises: ValueError (tensors are there still, on which PEs; freed before), NotInitialized.
        Extension.
        """
        self._segments.check_usable()
        self._pool = None  # torch gives back what it keeps of a pool that has gone
        torch.cuda.empty_cache()
        self._segments.free()


def pool(nbytes: int | str | None = None) -> Pool:
    """A part of the device heap in which ordinary torch code makes its tensors. Collective over all PEs.

        memory = symmetric.pool("512M")
        with memory:
            x = model.embed(tokens)              # torch.empty, operators, whole models
        torch.ops.pyshmem.all_reduce_(x, "sum")  # in place: no copy

    In the block this thread's tensors of this PE's GPU come from the pool, by ``torch.cuda.MemPool``;
    nobody waits for anybody. Leaving it, which is collective, compares what torch's allocators have
    taken on all PEs. From then on the tensors are symmetric memory as others: put and get, atomics,
    collectives, streams, operators, fused operations and kernels take them; before, routines raise
    ValueError, and kernels, which are given addresses, do not know. Decision 36 tells more, also what
    libraries keep that is made in the block.

    Args:
        nbytes: for tensors, or a text such as ``"512M"``; the same on all PEs. None: half of what the
            device heap has memory for in one piece. Torch raises OutOfMemoryError when it is used up.

    Raises: UnsupportedError (no GPU; torch before 2.5; order is checked), ValueError (nbytes is too
        few), HeapExhausted, MismatchError, NotInitialized.
    Extension.
    """
    return Pool(None if nbytes is None else parse_size(nbytes))
