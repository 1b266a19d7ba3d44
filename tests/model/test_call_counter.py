# SPDX-License-Identifier: BSD-3-Clause
"""The number of a call on a stream, in every order in which blocks read it and add their shares.

As in ``pyshmem/stream_kernels/call.py``: a block reads the counter and later adds its share; the next
kernel's blocks begin when all have ended. Grids differ from call to call.
"""

from __future__ import annotations

import pytest

SHIFT = 4  # fewer blocks than 1 << SHIFT


def of_first(block: int, blocks: int) -> int:
    """The protocol's shares: they make 1 << SHIFT together."""
    return (1 << SHIFT) - blocks + 1 if block == 0 else 1


def wrong_numbers(grids: tuple[int, ...], share) -> set[tuple[int, int]]:
    """Pairs of a call and another number that one of its blocks has read, over all orders."""
    wrong, counters = set(), {0}
    for call, blocks in enumerate(grids, 1):
        # A state: what the counter holds, who has read, who has ended.
        states = {(value, frozenset(), frozenset()) for value in counters}
        counters, seen = set(), set(states)
        while states:
            value, read, ended = states.pop()
            if len(ended) == blocks:
                counters.add(value)
            for block in set(range(blocks)) - ended:
                if block in read:
                    after = value + share(block, blocks), read, ended | {block}
                else:
                    if (value >> SHIFT) + 1 != call:
                        wrong.add((call, (value >> SHIFT) + 1))
                    after = value, read | {block}, ended
                if after not in seen:
                    seen.add(after)
                    states.add(after)
    return wrong


@pytest.mark.parametrize("grids", [(1, 1, 1), (3, 3, 3), (4, 1, 2, 5), (1, 5, 1, 1)])
def test_all_blocks_of_a_call_read_one_number(grids: tuple[int, ...]) -> None:
    assert wrong_numbers(grids, of_first) == set()


def test_shares_that_make_no_whole_are_found() -> None:
    assert wrong_numbers((4, 1, 2, 5), lambda block, blocks: 1)
    assert wrong_numbers((3, 3), lambda block, blocks: 1 << SHIFT)
