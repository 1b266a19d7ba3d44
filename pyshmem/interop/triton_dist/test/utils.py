# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.test.utils``: comparing."""

from typing import Any

from ..utils import assert_allclose, bitwise_equal

__all__ = ["assert_allclose", "assert_bitwise_equal", "bitwise_equal"]


def assert_bitwise_equal(x: Any, y: Any, verbose: bool = True) -> None:
    """Raises AssertionError where shape, dtype or any bit differs; ``verbose``: with the elements."""
    if not bitwise_equal(x, y):
        raise AssertionError(f"the bits differ: {x} and {y}" if verbose else "the bits differ")
