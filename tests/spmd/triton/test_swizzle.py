# SPDX-License-Identifier: BSD-3-Clause
"""Orders of tiles: every tile comes once, and those of the right PEs first."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

import pyshmem.triton as shmem


@triton.jit
def order(found, tiles, a, b, tiles_n, pe, n_pes, KIND: tl.constexpr):
    for tile in range(tiles):
        if KIND == 0:
            row, column = shmem.swizzle_by_pe(tile, a, tiles_n, pe, n_pes)
        elif KIND == 1:
            row, column = shmem.swizzle_by_pe_last(tile, a, tiles_n, pe, n_pes)
        else:
            row, column = shmem.swizzle_straddling_first(tile, a, b, tiles_n, pe, n_pes)
        tl.store(found + 2 * tile, row)
        tl.store(found + 2 * tile + 1, column)


def rows_in_order(place, show, kind, a, b, tiles_m, tiles_n, pe, n_pes):
    found = place(np.full((tiles_m * tiles_n, 2), -1, np.int32))
    order[(1,)](found, tiles_m * tiles_n, a, b, tiles_n, pe, n_pes, KIND=kind)
    pairs = [tuple(pair) for pair in show(found).tolist()]
    assert sorted(pairs) == [(m, n) for m in range(tiles_m) for n in range(tiles_n)]
    return [row for row, _ in pairs[::tiles_n]]


@pytest.mark.parametrize(("tiles_m", "n_pes"), [(8, 4), (7, 3), (2, 4), (1, 1)])
def test_own_rows_come_first_or_last(job, place, show, tiles_m, n_pes):
    for pe in range(n_pes):
        own = {m for m in range(tiles_m) if m * n_pes // tiles_m == pe}
        rows = rows_in_order(place, show, 0, tiles_m, 0, tiles_m, 2, pe, n_pes)
        assert set(rows[: len(own)]) == own
        rows = rows_in_order(place, show, 1, tiles_m, 0, tiles_m, 2, pe, n_pes)
        assert set(rows[tiles_m - len(own) :]) == own


@pytest.mark.parametrize(
    ("rows", "block", "n_pes"),
    [(64, 16, 2), (100, 16, 3), (70, 16, 4), (24, 16, 4), (33, 16, 7), (99, 32, 7)],
)
def test_tiles_of_two_pes_come_first(job, place, show, rows, block, n_pes):
    tiles_m = -(-rows // block)
    cuts = {k * rows // n_pes for k in range(1, n_pes)}
    straddling = sorted({cut // block for cut in cuts if cut % block})
    for pe in range(n_pes):
        got = rows_in_order(place, show, 2, rows, block, tiles_m, 1, pe, n_pes)
        assert got[: len(straddling)] == straddling
        first = pe * rows // n_pes // block
        turn = [(first + k) % tiles_m for k in range(tiles_m)]
        assert got[len(straddling) :] == [m for m in turn if m not in straddling]
