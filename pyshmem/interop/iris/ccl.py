# SPDX-License-Identifier: BSD-3-Clause
"""``ctx.ccl``: collectives on arrays of the symmetric heap, by kernels on the current stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from ... import triton as shmem
from ..._core.other_names import absent
from .util import check_group

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
def _all_to_all(dest, source, rows, columns, ctx, BLOCK: tl.constexpr):
    """Rows of ``columns`` elements for, and of, each PE."""
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    width = columns.to(tl.int64) * n
    shmem.barrier_grid(ctx)
    for k in range(n):
        pe = (me + k) % n
        row = tl.program_id(0)
        while row < rows:
            for first in range(0, columns, BLOCK):
                offs = first + tl.arange(0, BLOCK)
                place = row * width + offs
                inside = offs < columns
                tile = tl.load(source + place + pe.to(tl.int64) * columns, mask=inside)
                shmem.store(dest + place + me.to(tl.int64) * columns, tile, pe, ctx, mask=inside)
            row += tl.num_programs(0)
    shmem.barrier_grid(ctx)


@triton.jit
def _sum(source, offs, inside, ctx, element):
    """What all PEs have there, in PE order."""
    total = tl.zeros(offs.shape, tl.float32)
    if not element.is_floating():
        total = tl.zeros(offs.shape, tl.int64)
    elif element == tl.float64:
        total = tl.zeros(offs.shape, tl.float64)
    for pe in range(shmem.n_pes(ctx)):
        total += shmem.load(source + offs, pe, ctx, mask=inside, other=0).to(total.dtype)
    return total.to(element)


@triton.jit
def _reduce_tiles(
    dest, source, M, N, ctx, GROUP: tl.constexpr, STRIDING: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """The PE's tiles of an (M, N) matrix: every n-th, or one behind the other, in swizzled order."""
    me, n = shmem.my_pe(ctx), shmem.n_pes(ctx)
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    shmem.barrier_grid(ctx)
    share = tl.cdiv(high * wide, n)
    number = tl.program_id(0)
    while number < share:
        tile = number * n + me if STRIDING else me * share + number
        if tile < high * wide:
            first = tile // (GROUP * wide) * GROUP
            size = tl.minimum(high - first, GROUP)
            m = (first + tile % (GROUP * wide) % size) * BM + tl.arange(0, BM)
            k = tile % (GROUP * wide) // size * BN + tl.arange(0, BN)
            offs = m[:, None].to(tl.int64) * N + k[None, :]
            inside = (m[:, None] < M) & (k[None, :] < N)
            total = _sum(source, offs, inside, ctx, dest.dtype.element_ty)
            tl.store(dest + offs, total, mask=inside)
        number += tl.num_programs(0)
    shmem.barrier_grid(ctx)


@triton.jit
def _reduce_scatter(dest, source, nelems, ctx, BLOCK: tl.constexpr):
    me = shmem.my_pe(ctx)
    shmem.barrier_grid(ctx)
    first = tl.program_id(0) * BLOCK
    while first < nelems:
        offs = first + tl.arange(0, BLOCK)
        inside = offs < nelems
        total = _sum(source + me.to(tl.int64) * nelems, offs, inside, ctx, dest.dtype.element_ty)
        tl.store(dest + offs, total, mask=inside)
        first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


@triton.jit
def _of_root(dest, source, nelems, root, ctx, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """What the root has there: the PE's part of it, or all of it, which the root has already."""
    me = shmem.my_pe(ctx)
    end = nelems + 0 * me
    if PARTS:
        source += me.to(tl.int64) * nelems
    else:
        end = tl.where(me == root, 0, nelems)
    shmem.barrier_grid(ctx)
    first = tl.program_id(0) * BLOCK
    while first < end:
        offs = first + tl.arange(0, BLOCK)
        inside = offs < nelems
        tl.store(dest + offs, shmem.load(source + offs, root, ctx, mask=inside), mask=inside)
        first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


@triton.jit
def _to_root(dest, source, nelems, root, ctx, BLOCK: tl.constexpr):
    me = shmem.my_pe(ctx)
    shmem.barrier_grid(ctx)
    first = tl.program_id(0) * BLOCK
    while first < nelems:
        offs = first + tl.arange(0, BLOCK)
        inside = offs < nelems
        tile = tl.load(source + offs, mask=inside)
        shmem.store(dest + me.to(tl.int64) * nelems + offs, tile, root, ctx, mask=inside)
        first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


@triton.jit
def _reduce(array, nelems, root, ctx, BLOCK: tl.constexpr):
    """The root alone reads, so its elements may be written while the others' are read."""
    end = tl.where(shmem.my_pe(ctx) == root, nelems, 0)
    shmem.barrier_grid(ctx)
    first = tl.program_id(0) * BLOCK
    while first < end:
        offs = first + tl.arange(0, BLOCK)
        inside = offs < nelems
        total = _sum(array, offs, inside, ctx, array.dtype.element_ty)
        tl.store(array + offs, total, mask=inside)
        first += tl.num_programs(0) * BLOCK
    shmem.barrier_grid(ctx)


@dataclass
class Config:
    """Iris' parameters of collectives.

    ``block_size_m``, ``block_size_n``, ``swizzle_size`` and ``all_reduce_distribution`` say which tiles
    of ``reduce_scatter`` are whose, ``comm_sms`` how many programs run at most. The others are checked,
    and else without meaning: which kernel runs is chosen here.
    """

    block_size_m: int = 128
    block_size_n: int = 128
    swizzle_size: int = 6
    comm_sms: int = 64
    num_xcds: int | None = None
    chunk_size: int | None = None
    use_gluon: bool = False
    all_reduce_variant: str = "atomic"
    all_reduce_distribution: int = 0
    all_reduce_num_rings: int = 1
    all_reduce_ring_slice_n: int | None = None
    reduce_scatter_variant: str = "two_shot"

    def __post_init__(self) -> None:
        if self.num_xcds is None:
            self.num_xcds = 1
        if self.chunk_size is None:
            self.chunk_size = min(self.swizzle_size**2, self.comm_sms // max(self.num_xcds, 1))
        if self.all_reduce_ring_slice_n is None:
            self.all_reduce_ring_slice_n = self.block_size_n
        for name in (
            "block_size_m", "block_size_n", "swizzle_size", "comm_sms", "num_xcds",
            "all_reduce_num_rings", "all_reduce_ring_slice_n",
        ):  # fmt: skip
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        slice_n = self.all_reduce_ring_slice_n
        if self.block_size_n % slice_n or slice_n & (slice_n - 1):
            raise ValueError(
                "all_reduce_ring_slice_n must be a power of two that divides block_size_n, "
                f"got {slice_n}"
            )
        variants = ("atomic", "ring", "two_shot", "one_shot", "spinlock")
        if self.all_reduce_variant not in variants:
            raise ValueError(
                f"all_reduce_variant must be one of {variants}, got {self.all_reduce_variant}"
            )
        if self.all_reduce_distribution not in (0, 1):
            raise ValueError(
                "all_reduce_distribution must be 0 (striding) or 1 (block), "
                f"got {self.all_reduce_distribution}"
            )
        if self.reduce_scatter_variant not in ("two_shot", "ring_chunked"):
            raise ValueError(
                "reduce_scatter_variant must be 'two_shot' or 'ring_chunked', "
                f"got {self.reduce_scatter_variant}"
            )


def _operation(op: Any) -> str:
    """Its name, from a string, None, or one of Iris', torch's or MPI's."""
    name = "sum" if op is None else str(op).rpartition(".")[2].lower()
    name = {"product": "prod"}.get(name, name)
    if name not in ("sum", "prod", "min", "max"):
        raise ValueError(f'op is {op!r}; give "sum", "prod", "min" or "max"')
    return name


def _numel(array: Any) -> int:
    size = 1
    for extent in array.shape:
        size *= int(extent)
    return size


#: What later versions of Iris have here, and what there is in its place.
_ABSENT = {
    "send": "pyshmem.put_signal(dest, source, sig, 1, SIGNAL_SET, pe) sends with a signal",
    "recv": "pyshmem.signal_wait_until(sig, CMP_EQ, 1) waits for what put_signal sends",
}


class CCL:
    """The collectives of an ``Iris`` object; arrays are contiguous and on the symmetric heap.

    ``group`` is None, or all ranks. With ``async_op`` the closing barrier of the hosts is left out.
    ``workspace`` is what ``all_reduce_preamble`` gives: nothing is needed between calls.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            raise absent(f"iris' ccl.{name}", _ABSENT[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _start(self, group: Any, config: Any, *arrays: Any) -> Config:
        check_group(group, self._owner.num_ranks)
        for array in arrays:
            if not self._owner.is_symmetric(array):
                raise ValueError(
                    "an array is not on the symmetric heap: make it by a creator of the iris object"
                )
            contiguous = array.is_contiguous() if self._owner._torch else array.flags.c_contiguous
            if not contiguous:
                raise ValueError("an array is not contiguous")
        return Config() if config is None else config

    def _start_at(self, root: int, group: Any, config: Any, *arrays: Any) -> Config:
        if not 0 <= root < self._owner.num_ranks:
            raise ValueError(f"rank {root} is outside 0..{self._owner.num_ranks - 1}")
        return self._start(group, config, *arrays)

    def _run(
        self, kernel: Any, parts: int, async_op: bool, config: Config, *arguments: Any, **extra: Any
    ) -> None:
        programs = min(config.comm_sms, _PROGRAMS, parts or 1) if self._owner.device != "cpu" else 2
        kernel[(programs,)](*arguments, shmem.context(), **extra)
        if not async_op:
            self._owner.barrier()

    def all_reduce_preamble(
        self, output_tensor: Any, input_tensor: Any, config: Any = None, workspace: Any = None
    ) -> Any:
        """What ``all_reduce`` takes as ``workspace``, an empty tuple: it keeps nothing between calls."""
        self._start(None, config, output_tensor, input_tensor)
        return () if workspace is None else workspace

    def all_reduce(
        self, output_tensor: Any, input_tensor: Any, op: Any = None, group: Any = None,
        async_op: bool = False, config: Any = None, workspace: Any = None,
    ) -> Any:  # fmt: skip
        """Combine all PEs' input, in PE order: "sum" (default), "prod", "min" or "max"."""
        name = _operation(op)
        self._same(output_tensor, input_tensor, 1)
        config = self._start(group, config, output_tensor, input_tensor)
        n = _numel(input_tensor)
        self._run(
            _all_reduce, -(-n // _BLOCK), async_op, config, output_tensor, input_tensor, n, OP=name,
            BLOCK=_BLOCK,
        )  # fmt: skip
        return () if workspace is None else workspace

    def all_gather(
        self, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False,
        config: Any = None,
    ) -> None:  # fmt: skip
        """All PEs' (M, N), one behind the other: (ranks * M, N)."""
        self._same(output_tensor, input_tensor, self._owner.num_ranks)
        config = self._start(group, config, output_tensor, input_tensor)
        n = _numel(input_tensor)
        self._run(
            _all_gather, -(-n // _BLOCK), async_op, config, output_tensor, input_tensor, n,
            BLOCK=_BLOCK,
        )  # fmt: skip

    def all_to_all(
        self, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False,
        config: Any = None,
    ) -> None:  # fmt: skip
        """Of (M, ranks * N) the N columns p to PE p, whose columns of the caller's number they become.

        An array of one dimension is one row.
        """
        self._same(output_tensor, input_tensor, 1)
        config = self._start(group, config, output_tensor, input_tensor)
        width = int(input_tensor.shape[-1])
        if width % self._owner.num_ranks:
            raise ValueError(f"{width} columns for {self._owner.num_ranks} ranks")
        rows, columns = _numel(input_tensor) // max(width, 1), width // self._owner.num_ranks
        self._run(
            _all_to_all, rows, async_op, config, output_tensor, input_tensor, rows, columns,
            BLOCK=min(_BLOCK, triton.next_power_of_2(max(columns, 1))),
        )  # fmt: skip

    def reduce_scatter(
        self, output_tensor: Any, input_tensor: Any, op: Any = None, group: Any = None,
        async_op: bool = False, config: Any = None, workspace: Any = None,
    ) -> None:  # fmt: skip
        """The sum of all PEs' (M, N), of which each writes its own tiles to its output, (M, N).

        Which tiles are whose says ``config``. An output of 1 / ranks of the elements gets the caller's
        part of them instead, one behind the other.
        """
        if _operation(op) != "sum":
            raise ValueError(f"op is {op!r}; reduce_scatter adds")
        config = self._start(group, config, output_tensor, input_tensor)
        n = self._owner.num_ranks
        if tuple(output_tensor.shape) != tuple(input_tensor.shape) or len(input_tensor.shape) != 2:
            self._same(input_tensor, output_tensor, n)
            nelems = _numel(output_tensor)
            self._run(
                _reduce_scatter, -(-nelems // _BLOCK), async_op, config, output_tensor, input_tensor,
                nelems, BLOCK=_BLOCK,
            )  # fmt: skip
            return
        self._same(output_tensor, input_tensor, 1)
        rows, columns = map(int, input_tensor.shape)
        tiles = -(-rows // config.block_size_m) * -(-columns // config.block_size_n)
        self._run(
            _reduce_tiles, -(-tiles // n), async_op, config, output_tensor, input_tensor, rows, columns,
            GROUP=config.swizzle_size, STRIDING=config.all_reduce_distribution == 0,
            BM=config.block_size_m, BN=config.block_size_n,
        )  # fmt: skip

    def broadcast(
        self,
        tensor: Any,
        src: int = 0,
        group: Any = None,
        async_op: bool = False,
        config: Any = None,
    ) -> None:
        """What PE ``src`` has there, in place."""
        config = self._start_at(src, group, config, tensor)
        n = _numel(tensor)
        self._run(
            _of_root, -(-n // _BLOCK), async_op, config, tensor, tensor, n, int(src), PARTS=False,
            BLOCK=_BLOCK,
        )  # fmt: skip

    def reduce(
        self, tensor: Any, dst: int = 0, op: Any = None, group: Any = None, async_op: bool = False,
        config: Any = None,
    ) -> None:  # fmt: skip
        """The sum of all PEs' in place on PE ``dst``; the others keep what they have."""
        if _operation(op) != "sum":
            raise ValueError(f"op is {op!r}; reduce adds, and all_reduce has the others")
        config = self._start_at(dst, group, config, tensor)
        n = _numel(tensor)
        self._run(_reduce, -(-n // _BLOCK), async_op, config, tensor, n, int(dst), BLOCK=_BLOCK)

    def gather(
        self, output_tensor: Any, input_tensor: Any, dst: int = 0, group: Any = None,
        async_op: bool = False, config: Any = None,
    ) -> None:  # fmt: skip
        """All PEs' (M, N), one behind the other, on PE ``dst``: (ranks * M, N)."""
        self._same(output_tensor, input_tensor, self._owner.num_ranks)
        config = self._start_at(dst, group, config, output_tensor, input_tensor)
        n = _numel(input_tensor)
        self._run(
            _to_root, -(-n // _BLOCK), async_op, config, output_tensor, input_tensor, n, int(dst),
            BLOCK=_BLOCK,
        )  # fmt: skip

    def scatter(
        self, output_tensor: Any, input_tensor: Any, src: int = 0, group: Any = None,
        async_op: bool = False, config: Any = None,
    ) -> None:  # fmt: skip
        """Of PE ``src``'s (ranks * M, N) each PE's part, (M, N)."""
        self._same(input_tensor, output_tensor, self._owner.num_ranks)
        config = self._start_at(src, group, config, output_tensor, input_tensor)
        n = _numel(output_tensor)
        self._run(
            _of_root, -(-n // _BLOCK), async_op, config, output_tensor, input_tensor, n, int(src),
            PARTS=True, BLOCK=_BLOCK,
        )  # fmt: skip

    def barrier(self, group: Any = None) -> None:
        """All PEs, by a kernel on the current stream: the host does not wait."""
        self._owner.device_barrier(group)

    @staticmethod
    def _same(large: Any, small: Any, factor: int) -> None:
        if _numel(large) != factor * _numel(small):
            raise ValueError(
                f"arrays of {_numel(large)} and {_numel(small)} elements: "
                f"the first needs {factor} times those of the second"
            )
        if large.dtype != small.dtype:
            raise TypeError(f"arrays of {large.dtype} and {small.dtype}; they must be the same")
