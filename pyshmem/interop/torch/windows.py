# SPDX-License-Identifier: BSD-3-Clause
"""Windows of torch (``ProcessGroup.new_window``, from torch 2.14 on) over torch's own symmetric memory.

A window is a tensor of each member that the others write. What a member writes is stored at once on the
host, and in the order of the current stream on a GPU; a signal comes behind what its member wrote
before it, and who has waited for it may read that (see ``symmetric_memory.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ..._foreign import torch as foreign
from ...host.job import runtime


class Window:
    """One-sided calls on a tensor of each member of a group.

    Args:
        name: of the group, as torch calls it.
        rank_of: gives a rank of the group, or raises what is wrong with it.
        queue: does calls in order beside the program's; its works are torch's.
    """

    def __init__(self, name: str, rank_of: Callable[[str, Any], int], queue: Any) -> None:
        self._name, self._rank_of, self._queue = name, rank_of, queue
        self._kept: torch.Tensor | None = None
        self._like: torch.Tensor | None = None  # shape and dtype of the members' tensors
        self._peers: Any = None
        self._channel = 0

    def tensor_register(self, tensor: torch.Tensor, owning: bool) -> None:
        """Give the members a tensor to write. Collective over the group.

        Args:
            tensor: of ``torch.distributed._symmetric_memory.empty``, contiguous, from its first
                element on.
            owning: keeps it until ``tensor_deregister``, or until the window has gone.

        Raises: ValueError (another tensor, or one is registered; the members' differ in bytes).
        """
        if self._peers is not None:
            raise ValueError("this window has a tensor: call tensor_deregister before")
        if not tensor.is_contiguous() or tensor.storage_offset():
            raise ValueError(
                "a window is a contiguous tensor from the first element of its memory on"
            )
        self._peers = foreign.symmetric_memory().rendezvous(tensor, self._name)
        if self._peers is None:
            raise ValueError(
                "a window is a tensor of torch.distributed._symmetric_memory.empty, after "
                "pyshmem.interop.torch.use_symmetric_memory"
            )
        # The last one is not likely to be the program's own.
        self._channel = foreign.signal_pad_size() // 4 // runtime.current().n_pes - 1
        self._like, self._kept = torch.empty_like(tensor, device="meta"), tensor if owning else None

    def tensor_deregister(self) -> None:
        """Meet, so that no member writes any more, and forget the tensor. Collective over the group."""
        self._registered()
        dist.barrier(foreign.group_of_name(self._name))  # behind the current stream too
        self._like = self._kept = self._peers = None

    def put(self, tensor: torch.Tensor, to: int, offset: int) -> Any:
        """Write a tensor into a member's, from its element ``offset`` on; done when the work is.

        Raises: ValueError (rank, or elements that its tensor does not have), TypeError (dtype).
        """
        theirs = self.map_remote_tensor(to).view(-1)
        if tensor.dtype != theirs.dtype:
            raise TypeError(
                f"put of {tensor.dtype} into a window of {theirs.dtype}: give one dtype"
            )
        if offset < 0 or offset + tensor.numel() > theirs.numel():
            raise ValueError(
                f"put of {tensor.numel()} elements at element {offset} of a window of {theirs.numel()}"
            )
        theirs[offset : offset + tensor.numel()].copy_(tensor.reshape(-1))
        return self._done()

    def map_remote_tensor(self, rank: int) -> torch.Tensor:
        """A member's tensor, to be loaded and stored."""
        peers, rank = self._registered(), self._rank_of("window: rank", rank)
        assert self._like is not None
        theirs: torch.Tensor = peers.get_buffer(rank, self._like.shape, self._like.dtype)
        return theirs

    def signal(self, to: int) -> Any:
        """Tell a member that what was written before is there; it never waits."""
        peers = self._registered()
        peers.put_signal(self._rank_of("signal: rank", to), self._channel)
        return self._done()

    def wait_signal(self, sender: int, seconds: float) -> Any:
        """Wait for a member's next signal, each of which is waited for once.

        On the host the work waits, in the order of such calls; on a GPU the current stream does.

        Raises: ValueError (rank), ShmemTimeout (after ``seconds``, by the work; on the host).
        """
        peers, sender = self._registered(), self._rank_of("wait_signal: rank", sender)

        def wait() -> None:
            peers.wait_signal(sender, self._channel, timeout_ms=int(seconds * 1e3))

        if self._on_gpu():
            wait()
            return self._done()
        return self._queue.submit(wait, [])

    def check(self, rank: int) -> None:
        """Raises: ValueError (no such rank, no tensor)."""
        self._registered()
        self._rank_of("get_attr: rank", rank)

    def _registered(self) -> Any:
        if self._peers is None:
            raise ValueError("this window has no tensor: call tensor_register")
        return self._peers

    def _on_gpu(self) -> bool:
        return bool(self._peers.device.type == "cuda")

    def _done(self) -> Any:
        """The work of what has been done, or is in the order of the current stream."""
        future: Any = torch.futures.Future(devices=[self._peers.device] if self._on_gpu() else None)
        future.set_result([])
        return foreign.work_of_future(future)
