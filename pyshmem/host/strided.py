# SPDX-License-Identifier: BSD-3-Clause
"""Strided remote memory access: every so many elements, or blocks of them.

Strides count elements. They are within the given arrays, which are contiguous themselves.
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from .._core.arrays.checks import Place, StreamLike, place, stream_handle
from .._core.arrays.types import AnyArray
from .._core.dtypes import integer, nelems_of, pe_number
from .._core.library import fail_transfer, lib
from .kernels.stream_kernels import run
from .teams.contexts import Context, handle_of


def iput(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    dst: SupportsIndex = 1,
    sst: SupportsIndex = 1,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy each ``sst``-th element of ``source`` to each ``dst``-th of ``dest`` on ``pe``.

    Args:
        dest: symmetric array, contiguous.
        source: local array of the same dtype, contiguous.
        pe: target PE, ``0 <= pe < n_pes()``.
        dst: distance in ``dest``, at least 1.
        sst: distance in ``source``, at least 1.
        nelems: elements to copy; default as many as ``source`` has at that distance.
        ctx: context that orders and completes the copy; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: locally on return; at ``pe`` by ``quiet``.
    Raises: TypeError (dtypes differ, not an array), ValueError (pe, dst, sst, nelems, layout, not
        symmetric), NotInitialized, PeerDied, ShmemError.
    Example: ``pyshmem.iput(dest, source, right, dst=2, nelems=2)``
    Spec: shmem_iput (OpenSHMEM 1.5).
    """
    remote, here = _sides(dest, source, put=True)
    count = _blocks(here, "source", sst, 1, nelems, "nelems")
    _copy("iput", remote, here, (dst, sst), 1, count, pe, ctx, stream, source)


def iget(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    dst: SupportsIndex = 1,
    sst: SupportsIndex = 1,
    nelems: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy each ``sst``-th element of ``source`` on ``pe`` to each ``dst``-th of ``dest``.

    Args:
        dest: local array, contiguous and writable.
        source: symmetric array of the same dtype, contiguous.
        pe: PE to read from, ``0 <= pe < n_pes()``.
        dst: distance in ``dest``, at least 1.
        sst: distance in ``source``, at least 1.
        nelems: elements to copy; default as many as ``dest`` has at that distance.
        ctx: context; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: on return.
    Raises: as ``iput``.
    Example: ``pyshmem.iget(dest, source, right, sst=2, nelems=2)``
    Spec: shmem_iget (OpenSHMEM 1.5).
    """
    here, remote = _sides(dest, source, put=False)
    count = _blocks(here, "dest", dst, 1, nelems, "nelems")
    _copy("iget", here, remote, (dst, sst), 1, count, pe, ctx, stream, dest)


def ibput(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    bsize: SupportsIndex,
    dst: SupportsIndex | None = None,
    sst: SupportsIndex | None = None,
    nblocks: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy blocks of ``bsize`` elements of ``source`` to ``dest`` on ``pe``.

    Args:
        dest: symmetric array, contiguous.
        source: local array of the same dtype, contiguous.
        pe: target PE, ``0 <= pe < n_pes()``.
        bsize: elements of a block.
        dst: distance of the first elements of blocks in ``dest``, at least ``bsize``, the default.
        sst: the same in ``source``.
        nblocks: blocks to copy; default as many as ``source`` has at that distance.
        ctx: context that orders and completes the copy; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: locally on return; at ``pe`` by ``quiet``.
    Raises: as ``iput``; also ValueError (bsize, nblocks).
    Example: ``pyshmem.ibput(dest, source, right, bsize=1, dst=2, sst=1, nblocks=2)``
    Spec: shmem_ibput (OpenSHMEM 1.6).
    """
    remote, here = _sides(dest, source, put=True)
    strides = (bsize if dst is None else dst, bsize if sst is None else sst)
    count = _blocks(here, "source", strides[1], bsize, nblocks, "nblocks")
    _copy("iput", remote, here, strides, bsize, count, pe, ctx, stream, source)


def ibget(
    dest: AnyArray,
    source: AnyArray,
    pe: int,
    *,
    bsize: SupportsIndex,
    dst: SupportsIndex | None = None,
    sst: SupportsIndex | None = None,
    nblocks: SupportsIndex | None = None,
    ctx: Context | None = None,
    stream: StreamLike = None,
) -> None:
    """Copy blocks of ``bsize`` elements of ``source`` on ``pe`` to ``dest``.

    Args:
        dest: local array, contiguous and writable.
        source: symmetric array of the same dtype, contiguous.
        pe: PE to read from, ``0 <= pe < n_pes()``.
        bsize: elements of a block.
        dst: distance of the first elements of blocks in ``dest``, at least ``bsize``, the default.
        sst: the same in ``source``.
        nblocks: blocks to copy; default as many as ``dest`` has at that distance.
        ctx: context; default ``CTX_DEFAULT``.
        stream: stream to do it in the order of, arrays on the device heap; see ``streams``.

    Completes: on return.
    Raises: as ``ibput``.
    Example: ``pyshmem.ibget(dest, source, right, bsize=1, dst=1, sst=2, nblocks=2)``
    Spec: shmem_ibget (OpenSHMEM 1.6).
    """
    here, remote = _sides(dest, source, put=False)
    strides = (bsize if dst is None else dst, bsize if sst is None else sst)
    count = _blocks(here, "dest", strides[0], bsize, nblocks, "nblocks")
    _copy("iget", here, remote, strides, bsize, count, pe, ctx, stream, dest)


def _sides(dest: AnyArray, source: AnyArray, *, put: bool) -> tuple[Place, Place]:
    """Where the elements of ``dest`` and ``source`` are; the remote side is symmetric."""
    to = place(dest, "dest", symmetric=put, writable=True)
    origin = place(source, "source", symmetric=not put, writable=False)
    if to[2] is not origin[2]:
        raise TypeError(
            f"source has dtype {origin[2].dtype}, dest has dtype {to[2].dtype}; "
            "they must be the same"
        )
    return to, origin


def _blocks(
    here: Place,
    name: str,
    stride: SupportsIndex,
    block: SupportsIndex,
    count: SupportsIndex | None,
    called: str,
) -> int:
    """The number of blocks to copy: what was given, or what the local side has."""
    if count is not None:
        number = nelems_of(called, count)
        if number < 0:
            raise ValueError(f"{called} is {number}; give 0 or more")
        return number
    size, length = _elements(here), integer("bsize", block, np.int64)
    step = integer("dst" if name == "dest" else "sst", stride, np.int64)
    if step < 1 or length < 1:  # _copy tells which
        return 1
    return max(0, (size - length) // step + 1)


def _elements(place_of: Place) -> int:
    return place_of[1] // place_of[2].dtype.itemsize


def _copy(
    routine: str,
    to: Place,
    origin: Place,
    strides: tuple[SupportsIndex, SupportsIndex],
    block: SupportsIndex,
    count: int,
    pe: int,
    ctx: Context | None,
    stream: StreamLike,
    local: AnyArray,
) -> None:
    length = integer("bsize", block, np.int64)
    if length < 1:
        raise ValueError(f"bsize is {length}; give 1 or more")
    steps = integer("dst", strides[0], np.int64), integer("sst", strides[1], np.int64)
    for name, letter, side, step in (
        ("dest", "dst", to, steps[0]),
        ("source", "sst", origin, steps[1]),
    ):
        if step < 1 or (step < length and count > 1):
            raise ValueError(f"{letter} is {step}; give {length if count > 1 else 1} or more")
        needed = (count - 1) * step + length if count else 0
        if needed > _elements(side):
            blocks = f"{count} elements" if length == 1 else f"{count} blocks of {length} elements"
            raise ValueError(
                f"{blocks}, {step} apart, need {needed} elements of {name}, which has "
                f"{_elements(side)}"
            )
    width = to[2].dtype.itemsize
    where = to[0], origin[0], *steps, length, count, width, pe_number(pe)
    if stream is not None:
        call = getattr(lib, f"ishmemx_{routine}_on_stream")
        run(call, handle_of(ctx), *where, stream_handle(stream))
        return
    status = getattr(lib, f"ishmemx_{routine}")(handle_of(ctx), *where)
    if status:
        fail_transfer(status, local)
