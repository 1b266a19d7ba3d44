# SPDX-License-Identifier: BSD-3-Clause
"""What tensors have to be for the backend, the operators and the fused operations.

Two questions, each asked in one place: is a tensor plain memory, whose bytes are its elements
(``why_not_plain``), and do results lie apart from what is read while they are written (``check_apart``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import torch

from .._core.errors import UnsupportedError
from .._foreign.torch import is_of_functorch

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_MOST_WORK = 10_000  # steps to find out whether two strided tensors share an element

Named = Iterable[tuple[str, Any]]


def why_not_plain(tensor: torch.Tensor) -> str | None:
    """Why the elements of a tensor are not what lies in its memory; None: they are.

    A conjugated or negated view is plain: ``resolve_conj`` and ``resolve_neg`` find its elements.
    For torch's own tensors it takes less than a microsecond.
    """
    if tensor.is_nested:
        return "nested: send its dense parts, as nested.unbind() gives them"
    if tensor.layout != torch.strided:
        return f"of layout {str(tensor.layout).removeprefix('torch.')}: convert it with to_dense()"
    if tensor.is_quantized:
        return "quantised: send tensor.int_repr(), and its scales by themselves"
    if is_of_functorch(tensor):
        return "a tensor of torch.func (vmap, grad), which stands for others: make the call outside"
    if type(tensor) in _PLAIN:
        return None
    return _why_no_memory(tensor)


def _why_no_memory(tensor: torch.Tensor) -> str | None:
    """The same of a subclass of torch's tensors: those that wrap others have no memory of their own."""
    name = type(tensor).__name__
    if name == "FakeTensor":
        return "a FakeTensor, which has no elements: it is what compilers look at"
    try:
        storage = tensor.untyped_storage()
        there = storage.device.type == tensor.device.type and (
            not tensor.nbytes or storage.data_ptr() != 0
        )
    except (RuntimeError, NotImplementedError):
        there = False
    return (
        None if there else f"a {name}, which wraps other tensors: send the one that it stands for"
    )


def check_plain(*tensors: torch.Tensor) -> None:
    """Raises what is wrong with tensors whose elements are not their memory.

    Raises: UnsupportedError.
    """
    for tensor in tensors:
        why = why_not_plain(tensor)
        if why is not None:
            raise UnsupportedError(
                f"pyshmem takes dense tensors of plain memory; this one is {why}"
            )


def view_of_other_elements(tensor: torch.Tensor) -> str | None:
    """Of a conjugated or negated view: what it is, and what makes a copy with its elements; else None.

    Its memory holds other elements than it has, so that nothing may read its address.
    """
    if tensor.is_conj():
        return "a conjugated view: pass resolve_conj()"
    return "a negated view: pass resolve_neg()" if tensor.is_neg() else None


def in_one_row(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor in one dimension, whose elements adjoin.

    Torch calls a tensor of one element contiguous whatever its strides are, and keeps them.
    """
    row = tensor.view(-1)
    return row if row.numel() > 1 else row.as_strided(row.shape, (1,))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same as uint8. No other place sees a tensor as another dtype of another width."""
    return in_one_row(tensor).view(torch.uint8)


# ---- results beside what is read -------------------------------------------------------------------


def check_apart(results: Named, inputs: Named, may_be: Collection[tuple[str, str]] = ()) -> None:
    """Raises if the memory of a result is part of an input's, or of another result's.

    For results that a caller gave: new ones share nothing. An address takes about 0.1 microseconds.

    Args:
        results: names and tensors that are written; None: there is none.
        inputs: names and tensors that are read; what is no tensor is passed over.
        may_be: pairs (result, input) that may be the same memory, from the first byte to the last.

    Raises: ValueError, with both names.
    """
    written = [(name, one) for name, one in results if isinstance(one, torch.Tensor)]
    if not written or torch.compiler.is_compiling():  # traced: addresses are not known
        return
    read = [(name, one) for name, one in inputs if isinstance(one, torch.Tensor)]
    for number, (name, one) in enumerate(written):
        for other_name, other in (*read, *written[:number]):
            if share_memory(one, other) and not (
                (name, other_name) in may_be and _same_memory(one, other)
            ):
                raise ValueError(
                    f"{name} shares memory with {other_name}, which is used while {name} is written: "
                    f"give another tensor for {name}"
                )


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether an element of one lies in an element of the other; where that is hard to say, yes."""
    if one.device != other.device or not one.numel() or not other.numel():
        return False
    (begin, end), (first, last) = _span(one), _span(other)
    if begin >= last or first >= end:
        return False
    if end - begin == one.nbytes and last - first == other.nbytes:
        return True
    try:
        return bool(np.shares_memory(_shape(one), _shape(other), _MOST_WORK))  # type: ignore[arg-type]
    except RuntimeError:  # too hard to say (NumPy 1.26 has the name of it elsewhere)
        return True


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return _span(one) == _span(other) and one.nbytes == other.nbytes


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of the first byte and behind the last one."""
    begin = tensor.data_ptr()
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((extent - 1) * stride for extent, stride in steps)
    return begin, begin + elements * tensor.itemsize


class _Interface:
    """A tensor's elements as NumPy sees memory; nobody looks into it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        width = tensor.itemsize
        self.__array_interface__ = {
            "version": 3, "typestr": f"|V{width}", "shape": tuple(tensor.shape),
            "data": (tensor.data_ptr(), True),
            "strides": tuple(step * width for step in tensor.stride()),
        }  # fmt: skip


def _shape(tensor: torch.Tensor) -> Any:
    return np.asarray(_Interface(tensor))
