# SPDX-License-Identifier: BSD-3-Clause
"""Property tests of the allocator: the same calls give the same offsets, everything coalesces."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyshmem
from pyshmem._core import library
from pyshmem._core.library import ffi, lib

SOURCES = Path(__file__).parents[2] / "native" / "src"
SOURCE = SOURCES / "memory" / "allocator.c"
GRAIN = 64
FIRST, END = 4096, 4096 + 512 * GRAIN
HEAP_BYTES = 1 << 20

#: A call: allocate (bytes, log2 of the alignment in grains), or free the live block of that rank.
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 6000), st.integers(0, 5)),
        st.tuples(st.just("give"), st.integers(0, 1000), st.just(0)),
    ),
    max_size=80,
)


# ---- the allocator by itself -----------------------------------------------------------------------


class Extent(ctypes.Structure):
    """``pysh_extent_t``."""

    _fields_ = [("offset", ctypes.c_int64), ("nbytes", ctypes.c_int64)]


class Allocator(ctypes.Structure):
    """``pysh_allocator_t``."""

    _fields_ = [
        ("nbytes", ctypes.c_int64), ("used", ctypes.c_int64), ("address", ctypes.c_int64),
        ("hole", ctypes.POINTER(Extent)), ("live", ctypes.c_void_p),
        ("n_holes", ctypes.c_size_t), ("n_live", ctypes.c_size_t),
        ("hole_capacity", ctypes.c_size_t), ("live_capacity", ctypes.c_size_t),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``allocator.c`` as a library of its own."""
    library = tmp_path_factory.mktemp("allocator") / "allocator.so"
    options = [
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        f"-I{SOURCES}",
    ]
    subprocess.run(["gcc", *options, "-o", library, SOURCES / "memory" / "allocator.c"], check=True)
    loaded = ctypes.CDLL(str(library))
    book, i64 = ctypes.POINTER(Allocator), ctypes.c_int64
    for name, result, arguments in (
        ("init", ctypes.c_bool, [i64, i64]),
        ("take", i64, [i64, i64, ctypes.c_uint64]),
        ("give", ctypes.c_bool, [i64]),
        ("largest", i64, []),
        ("destroy", None, []),
    ):
        function = getattr(loaded, f"pysh_allocator_{name}")
        function.restype, function.argtypes = result, [book, *arguments]
    return loaded


def holes(allocator: Allocator) -> list[tuple[int, int]]:
    return [(h.offset, h.nbytes) for h in allocator.hole[: allocator.n_holes]]


def check_book(allocator: Allocator, live: dict[int, int]) -> None:
    """Blocks and holes tile the range; holes are sorted and never adjacent."""
    rounded = sorted((offset, -(-nbytes // GRAIN) * GRAIN) for offset, nbytes in live.items())
    tiles = sorted(rounded + holes(allocator))
    assert sum(nbytes for _, nbytes in tiles) == END - FIRST
    position = FIRST
    for offset, nbytes in tiles:
        assert offset == position
        position += nbytes
    for (offset, nbytes), (following, _) in itertools.pairwise(holes(allocator)):
        assert offset + nbytes < following
    assert allocator.used == sum(nbytes for _, nbytes in rounded)
    assert allocator.n_live == len(live)


@settings(max_examples=200, deadline=None)
@given(calls=CALLS)
def test_two_allocators_given_the_same_calls_agree(code: Any, calls: list[Any]) -> None:
    one, other = Allocator(), Allocator()
    live: dict[int, int] = {}
    for allocator in (one, other):
        assert code.pysh_allocator_init(allocator, FIRST, END)
    for ordinal, (what, value, log_align) in enumerate(calls, 1):
        if what == "take":
            align = GRAIN << log_align
            offset = code.pysh_allocator_take(one, value, align, ordinal)
            assert code.pysh_allocator_take(other, value, align, ordinal) == offset
            if offset < 0:
                assert offset == -1
                assert not any(fits(hole, value, align) for hole in holes(one))
            else:
                assert offset % align == 0
                live[offset] = value
        elif live:
            offset = sorted(live)[value % len(live)]
            del live[offset]
            assert code.pysh_allocator_give(one, offset)
            assert code.pysh_allocator_give(other, offset)
            assert not code.pysh_allocator_give(one, offset)
        assert holes(one) == holes(other)
        check_book(one, live)
    for offset in live:
        assert code.pysh_allocator_give(one, offset)
    assert holes(one) == [(FIRST, END - FIRST)]
    for allocator in (one, other):
        code.pysh_allocator_destroy(allocator)


def fits(hole: tuple[int, int], nbytes: int, align: int) -> bool:
    begin = -(-hole[0] // align) * align
    return begin + nbytes <= hole[0] + hole[1]


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=12), order=st.randoms())
def test_blocks_coalesce_in_whatever_order_they_are_freed(
    code: Any, sizes: list[int], order: Any
) -> None:
    allocator = Allocator()
    assert code.pysh_allocator_init(allocator, FIRST, END)
    offsets = [code.pysh_allocator_take(allocator, n, GRAIN, i) for i, n in enumerate(sizes, 1)]
    taken = [offset for offset in offsets if offset >= 0]
    order.shuffle(taken)
    for offset in taken:
        assert code.pysh_allocator_give(allocator, offset)
    assert holes(allocator) == [(FIRST, END - FIRST)]
    assert code.pysh_allocator_largest(allocator) == END - FIRST
    code.pysh_allocator_destroy(allocator)


# ---- a heap ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job() -> Iterator[pyshmem.Job]:
    with pyshmem.init(heap_size=HEAP_BYTES, device_heap_size=HEAP_BYTES, device="sim") as running:
        yield running


def place(heap: int, calls: list[Any]) -> list[int]:
    """The offsets that the library gives for ``calls``, with everything freed at the end."""
    base, block = ffi.new("uintptr_t *"), ffi.new("uintptr_t *")
    library.check(lib.ishmemx_heap_range(heap, base, ffi.new("int64_t *")))
    live: list[tuple[int, int]] = []
    offsets = []
    for what, value, log_align in calls:
        if what == "take":
            nbytes = value * 20
            status = lib.ishmemx_malloc(heap, nbytes, GRAIN << log_align, 1, block)
            if status == lib.ISHMEMX_ERR_MEMORY:
                offsets.append(-1)
                continue
            library.check(status)
            begin, end = block[0], block[0] + nbytes
            assert begin % (GRAIN << log_align) == 0
            assert all(end <= other or other_end <= begin for other, other_end in live)
            assert bytes(ffi.buffer(ffi.cast("char *", begin), nbytes)) == bytes(nbytes)
            ffi.buffer(ffi.cast("char *", begin), nbytes)[:] = b"\xff" * nbytes
            live.append((begin, end))
            offsets.append(begin - base[0])
        elif live:
            library.check(lib.ishmemx_free(live.pop(value % len(live))[0]))
    for begin, _ in live:
        library.check(lib.ishmemx_free(begin))
    return offsets


@settings(max_examples=60, deadline=None)
@given(calls=CALLS, name=st.sampled_from(["host", "device"]))
def test_a_heap_gives_the_same_offsets_again(job: Any, calls: list[Any], name: str) -> None:
    empty = pyshmem.heap_info(name)
    assert (empty.used, empty.free, empty.largest_free) == (0, HEAP_BYTES, HEAP_BYTES)
    offsets = place(library.HEAPS[name], calls)
    assert pyshmem.heap_info(name) == empty
    assert place(library.HEAPS[name], calls) == offsets
    assert all(
        offset == -1 or offset >= 64 * 1024 for offset in offsets
    )  # behind the system region
