# SPDX-License-Identifier: BSD-3-Clause
"""What a caller gives a process group, where torch does not look: lists, dtypes, tags.

``torch.distributed`` checks some of it in Python; methods of the group are called without.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch

from ..._core.values import refuse_masked

T = TypeVar("T")


def one_of(routine: str, given: Sequence[T]) -> T:
    """The only element of a list, of which torch has many for several GPUs of a process.

    Raises: ValueError.
    """
    if len(given) != 1:
        raise ValueError(f"{routine} of {len(given)} at a time: give a list of one")
    return given[0]


def paired(
    routine: str, ones: Sequence[torch.Tensor], others: Sequence[torch.Tensor]
) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    """Raises: ValueError (lists that are not as long as each other)."""
    if len(ones) != len(others):
        raise ValueError(
            f"{routine} of lists of {len(ones)} and {len(others)} tensors: give one for each other"
        )
    return zip(ones, others, strict=True)


def check_one_dtype(routine: str, one: torch.Tensor, *others: torch.Tensor) -> None:
    """Raises: TypeError: what is moved is bytes, which another dtype would read as other numbers."""
    dtype = one.dtype
    for other in others:
        if other.dtype != dtype:
            raise TypeError(f"{routine} of {dtype} and {other.dtype}: give one dtype")


def tag_of(routine: str, tag: Any) -> int:
    """Raises: TypeError, ValueError."""
    refuse_masked(tag, f"{routine}: tag")
    try:
        number = operator.index(tag)
    except TypeError:
        raise TypeError(
            f"{routine}: tag is {tag!r} ({type(tag).__name__}); give a number"
        ) from None
    if number < 0:
        raise ValueError(f"{routine}: tag is {number}; tags are 0 and more")
    return number
