# SPDX-License-Identifier: BSD-3-Clause
"""How a suite of kernels is dealt out to jobs that run side by side."""

from __future__ import annotations

from collections import Counter

import pytest
from shards import deal, group_of, parse


def test_tests_of_one_kernel_stay_together_and_shards_are_even() -> None:
    sizes, dtypes = range(5), [f"dtype{k}" for k in range(40)]
    groups = [
        group_of("test_a.py", f"test_{f}", {"dtype": dtype, "nelems": n})
        for f in "xy"
        for dtype in dtypes
        for n in sizes
    ]
    shards = deal(groups, 7)
    assert set(shards) == set(range(7))
    assert len(set(zip(groups, shards, strict=True))) == len(dtypes)
    assert max(Counter(shards).values()) - min(Counter(shards).values()) <= 2 * len(sizes)
    assert deal(groups, 7) == shards
    assert deal(groups, 1) == [0] * len(groups)


def test_what_chooses_the_kernel_makes_a_group() -> None:
    def kernel() -> None: ...

    assert group_of("f.py", "t", {"kernel": kernel, "n": 3}) == "f.py::kernel=kernel"
    assert (
        group_of("f.py", "t", {"kernel": object()}) == "f.py::t"
    )  # by its address it would differ
    assert group_of("f.py", "t", {}) == "f.py::t"


def test_the_option() -> None:
    assert parse("2/15") == (2, 15)
    for text in ("15/15", "-1/3", "1", "a/b"):
        with pytest.raises(ValueError):
            parse(text)
