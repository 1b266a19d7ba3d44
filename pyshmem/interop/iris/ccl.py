# SPDX-License-Identifier: BSD-3-Clause
"""``ctx.ccl``: collectives on arrays of the symmetric heap, by kernels on the current stream."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ... import triton as shmem

_BLOCK = 1024
_PROGRAMS = 32  # resident on every GPU that there is


@triton.jit
def barrier_kernel(ctx):
    shmem.barrier(ctx)


@triton.jit
def _all_reduce(dest, source, nelems, ctx, OP: tl.constexpr, BLOCK: tl.constexpr):
    shmem.all_reduce_grid(dest, source, nelems, ctx, BLOCK, OP)


@triton.jit
def _all_gather(dest, source, nelems, ctx, BLOCK: tl.constexpr):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    shmem.barrier_grid(ctx)
    for k in range(n):
        first = tl.program_id(0) * BLOCK
        while first < nelems:
            offs = first + tl.arange(0, BLOCK)
            tile = tl.load(source + offs, mask=offs < nelems)
            place = dest + me.to(tl.int64) * nelems + offs
            shmem.store(place, tile, (me + k) % n, ctx, mask=offs < nelems)
            first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


@triton.jit
def _all_to_all(dest, source, nelems, ctx, BLOCK: tl.constexpr):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    shmem.barrier_grid(ctx)
    for k in range(n):
        pe = (me + k) % n
        first = tl.program_id(0) * BLOCK
        while first < nelems:
            offs = first + tl.arange(0, BLOCK)
            tile = tl.load(source + pe.to(tl.int64) * nelems + offs, mask=offs < nelems)
            place = dest + me.to(tl.int64) * nelems + offs
            shmem.store(place, tile, pe, ctx, mask=offs < nelems)
            first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


@triton.jit
def _reduce_scatter(dest, source, nelems, ctx, BLOCK: tl.constexpr):
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    shmem.barrier_grid(ctx)
    first = tl.program_id(0) * BLOCK
    while first < nelems:
        offs = first + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], tl.float32)
        if not dest.dtype.element_ty.is_floating():
            total = tl.zeros([BLOCK], tl.int64)
        elif dest.dtype.element_ty == tl.float64:
            total = tl.zeros([BLOCK], tl.float64)
        for pe in range(n):
            place = source + me.to(tl.int64) * nelems + offs
            total += shmem.load(place, pe, ctx, mask=offs < nelems, other=0).to(total.dtype)
        tl.store(dest + offs, total.to(dest.dtype.element_ty), mask=offs < nelems)
        first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


def _numel(array: Any) -> int:
    size = 1
    for extent in array.shape:
        size *= int(extent)
    return size


class CCL:
    """The collectives of an ``Iris`` object; arrays are contiguous and on the symmetric heap.

    ``config`` and ``async_op`` are taken for Iris' sake: which kernel runs is chosen here, and with
    ``async_op`` the closing barrier of the hosts is left out.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def _run(
        self, kernel: Any, output: Any, source: Any, nelems: int, async_op: bool, **extra: Any
    ) -> None:
        programs = min(_PROGRAMS, -(-nelems // _BLOCK) or 1) if self._owner.device != "cpu" else 2
        kernel[(programs,)](output, source, nelems, shmem.context(), BLOCK=_BLOCK, **extra)
        if not async_op:
            self._owner.barrier()

    def all_reduce(
        self, output_tensor: Any, input_tensor: Any, op: Any = "sum", config: Any = None,
        async_op: bool = False,
    ) -> None:  # fmt: skip
        """Combine all PEs' input, in PE order: "sum", "prod", "min" or "max"."""
        name = str(op).rpartition(".")[2].lower()
        if name not in ("sum", "prod", "min", "max"):
            raise ValueError(f'op is {op!r}; give "sum", "prod", "min" or "max"')
        self._same(output_tensor, input_tensor, 1)
        self._run(_all_reduce, output_tensor, input_tensor, _numel(input_tensor), async_op, OP=name)

    def all_gather(
        self, output_tensor: Any, input_tensor: Any, config: Any = None, async_op: bool = False
    ) -> None:
        """All PEs' inputs, one behind the other."""
        self._same(output_tensor, input_tensor, self._owner.num_ranks)
        self._run(_all_gather, output_tensor, input_tensor, _numel(input_tensor), async_op)

    def all_to_all(
        self, output_tensor: Any, input_tensor: Any, config: Any = None, async_op: bool = False
    ) -> None:
        """Part p of the input to PE p."""
        self._same(output_tensor, input_tensor, 1)
        nelems = _numel(input_tensor) // self._owner.num_ranks
        self._run(_all_to_all, output_tensor, input_tensor, nelems, async_op)

    def reduce_scatter(
        self, output_tensor: Any, input_tensor: Any, config: Any = None, async_op: bool = False
    ) -> None:
        """The sum of all PEs' part p to PE p; the output has a part's elements."""
        self._same(input_tensor, output_tensor, self._owner.num_ranks)
        self._run(_reduce_scatter, output_tensor, input_tensor, _numel(output_tensor), async_op)

    @staticmethod
    def _same(large: Any, small: Any, factor: int) -> None:
        if _numel(large) != factor * _numel(small):
            raise ValueError(
                f"arrays of {_numel(large)} and {_numel(small)} elements: "
                f"the first needs {factor} times those of the second"
            )
        if large.dtype != small.dtype:
            raise TypeError(f"arrays of {large.dtype} and {small.dtype}; they must be the same")
