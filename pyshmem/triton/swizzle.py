# SPDX-License-Identifier: BSD-3-Clause
"""Which tile a program computes when, so that data that is here, or is due first, comes first.

A matrix of ``tiles_m`` by ``tiles_n`` tiles, rows spread over the PEs in order. Each function takes the
program's number among the tiles and gives the tile's row and column; over all numbers every tile comes
once. The page "Triton" has pictures.
"""

import triton.language as tl

from .primitives.backend import device_function

__all__ = ["swizzle_by_pe", "swizzle_by_pe_last", "swizzle_straddling_first"]


@device_function
def _first_row(tiles_m, pe, n_pes):
    return (pe * tiles_m + n_pes - 1) // n_pes % tiles_m


@device_function
def swizzle_by_pe(tile, tiles_m, tiles_n, pe, n_pes):
    """Own rows first, then those of the PEs behind: for all-gather + GEMM, as rows come in.

    Example: ``tile = shmem.swizzle_by_pe(tl.program_id(0), 4, 2, shmem.my_pe(ctx), shmem.n_pes(ctx))``
    Extension.
    """
    row = (_first_row(tiles_m, pe, n_pes) + tile // tiles_n) % tiles_m
    return row, tile % tiles_n


@device_function
def swizzle_by_pe_last(tile, tiles_m, tiles_n, pe, n_pes):
    """The next PE's rows first and the own last: for GEMM + reduce-scatter, whose others wait.

    Example: ``tile = shmem.swizzle_by_pe_last(tl.program_id(0), 4, 2, shmem.my_pe(ctx), 4)``
    Extension.
    """
    return swizzle_by_pe(tile, tiles_m, tiles_n, (pe + 1) % n_pes, n_pes)


@device_function
def swizzle_straddling_first(tile, rows, block_m, tiles_n, pe, n_pes):
    """``swizzle_by_pe`` for ``rows`` that tiles of ``block_m`` rows do not divide among PEs.

    PE p has the rows from p * rows // n_pes on. Tiles with rows of two PEs or more come first: they
    are complete last, and whoever waits for them must not wait behind the others.

    Example: ``tile = shmem.swizzle_straddling_first(tl.program_id(0), 100, 32, 2, shmem.my_pe(ctx), 4)``
    Extension.
    """
    tiles_m = (rows + block_m - 1) // block_m
    number = tile // tiles_n
    first = pe * rows // n_pes // block_m
    row = tl.cast(-1, tl.int32)
    found = tl.cast(0, tl.int32)
    before = tl.cast(-1, tl.int32)
    for k in range(1, n_pes):
        cut = k * rows // n_pes
        straddles = (cut % block_m != 0) & (cut // block_m != before)
        row = tl.where(straddles & (found == number), cut // block_m, row)
        found += straddles.to(tl.int32)
        before = tl.where(straddles, cut // block_m, before)
    # The rest in turn from the own rows on: each straddling tile that would come by is one to skip.
    # That of the first own row comes by again at the end, where it has rows of PEs before too.
    place = number - found
    again = pe * rows // n_pes % block_m != 0
    before = tl.cast(-1, tl.int32)
    for k in range(n_pes):
        cut = (pe + k) % n_pes * rows // n_pes
        behind = (cut // block_m + tiles_m - first) % tiles_m
        seen = (behind == before) | (again & (behind == 0) & (k > 0))
        straddles = (cut % block_m != 0) & (not seen)
        place += (straddles & (behind <= place)).to(tl.int32)
        before = tl.where(straddles, behind, before)
    return tl.where(row >= 0, row, (first + place) % tiles_m), tile % tiles_n
