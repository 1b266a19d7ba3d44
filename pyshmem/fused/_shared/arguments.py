# SPDX-License-Identifier: BSD-3-Clause
"""What callers give: tensors of torch, or arrays of CuPy and NumPy, which are seen as tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..._core.arrays.checks import masked
from ..._core.library import checks_order
from ..._torch.arguments import Named, check_apart, check_plain, view_of_other_elements
from ..._torch.launches import torch_stream
from ...host import fast_calls
from ...host.job import runtime
from ...host.teams.team import Team
from .former_names import translate


def _foreign(value: Any) -> bool:
    """An array of another library that hands over its memory: CuPy's, NumPy's."""
    return not isinstance(value, torch.Tensor) and hasattr(value, "__dlpack__")


#: Types of most arguments, of which none is foreign: to ask each value takes a microsecond a call.
_NATIVE = frozenset(
    (torch.Tensor, torch.nn.Parameter, type(None), bool, int, float, str, tuple, list, Team)
)
_is_native = _NATIVE.issuperset


def as_tensor(value: Any, name: str) -> Any:
    """A tensor over the memory of an array; anything else as it is.

    Raises: TypeError (a masked array, or one of elements that torch does not have).
    """
    if not _foreign(value):
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise masked(name)
    try:
        return torch.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        kind = f"{type(value).__name__} of {getattr(value, 'dtype', 'no dtype')}"
        raise TypeError(f"{name} is a {kind}, which torch does not take: {error}") from error


def _back(value: Any, like: Any) -> Any:
    """A tensor, or a tuple of them, as an array of the library that ``like`` belongs to."""
    if isinstance(value, tuple):
        return (
            type(value)(*(_back(one, like) for one in value))
            if hasattr(value, "_fields")
            else (tuple(_back(one, like) for one in value))
        )
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point and value.dtype.itemsize == 1:
        value = value.view(torch.uint8)  # neither library has FP8
    if type(like).__module__.partition(".")[0] == "cupy":
        import cupy

        return cupy.from_dlpack(value)
    return value.numpy()


@contextlib.contextmanager
def _on_stream_of(array: Any) -> Iterator[None]:
    """Torch works on CuPy's current stream as long as it works on CuPy's arrays."""
    if type(array).__module__.partition(".")[0] != "cupy":
        yield
        return
    import cupy

    with torch.cuda.stream(torch_stream(cupy.cuda.get_current_stream().ptr)):
        yield


#: Options that are numbers of rows, in whatever holds them.
_COUNTS = ("rows", "output_splits", "input_splits")


def as_counts(counts: Any) -> list[int]:
    """The numbers of a sequence, an array or a tensor, as Python has them, or a compiler."""
    return [one.item() if isinstance(one, (np.generic, torch.Tensor)) else one for one in counts]


def on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``function`` tensors where its caller has arrays.

    Results, and the stream, are of the library that the first of tensors and arrays belongs to. Former
    names of options are taken, too.
    """
    names = tuple(inspect.signature(function).parameters)
    if checks_order():
        from ..._torch import record

        function = record.fused(function)

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if "road" in options or "algorithm" in options:
            options = translate(options)
        # Compilers trace the long way, and not sets of types.
        traced = torch.compiler.is_compiling()
        if not traced and _is_native(map(type, given)) and _is_native(map(type, options.values())):
            return function(*given, **options)
        tensors = *given, *(value for name, value in options.items() if name not in _COUNTS)
        if not any(map(_foreign, tensors)):
            return function(*given, **options)
        first = next(one for one in tensors if isinstance(one, torch.Tensor) or _foreign(one))
        with _on_stream_of(first):
            named = {
                name: value if name in _COUNTS else as_tensor(value, name)
                for name, value in options.items()
            }
            called = itertools.chain(names, itertools.repeat("an argument"))
            result = function(*map(as_tensor, given, called), **named)
        return _back(result, first) if _foreign(first) else result

    return call


#: ``(grad, *tensors)``: what ``look`` sees of all, as bytes; None where that has to look, for one
#: because gradients are recorded (``grad``) and a tensor wants one.
look_at_once = fast_calls.look
fast_calls.know_tensors()


def look(value: Any) -> Any:
    """What checks look at of an argument, and what a launch depends on but for its address."""
    if not isinstance(value, torch.Tensor):
        return None if value is None else type(value)
    try:
        strides = value.stride()
        return type(value), value.shape, strides, value.dtype, value.device, value.is_neg()
    except RuntimeError:  # torch's own words about what has no strides
        check_plain(value)
        raise


def check_tensor(
    name: str, tensor: Any, dtypes: tuple[torch.dtype, ...], dims: int | None = None, of: str = ""
) -> None:
    """Raises what is wrong with an argument of kernels: it has to be contiguous and where they run.

    ``of``: what decides the dtype, where that is another argument or the result.

    Raises: TypeError (no tensor, dtype), ValueError (extents, layout, device).
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is {type(tensor).__name__}; give a tensor of torch, CuPy or NumPy")
    check_plain(tensor)
    if tensor.dtype not in dtypes:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        told = f", {of} is {names}: they have one dtype" if of else f"; it can be {names}"
        raise TypeError(f"{name} is {tensor.dtype}{told}")
    if dims is not None and tensor.dim() != dims:
        given = f"{tensor.dim()} dimension{'s' * (tensor.dim() != 1)}"
        raise ValueError(f"{name} has size {tuple(tensor.shape)}, which is {given}; give it {dims}")
    if lazy := view_of_other_elements(tensor):
        raise ValueError(f"{name} is {lazy}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name} is not contiguous (size {tuple(tensor.shape)}, strides {tensor.stride()}): "
            "pass name.contiguous(), once and not in each step if it is a weight".replace(
                "name", name
            )
        )
    job = runtime.current()
    where = torch.device("cuda", job.gpu) if job.device == "cuda" else torch.device("cpu")
    if tensor.device != where:
        raise ValueError(f"{name} is on {tensor.device}; kernels of this PE run on {where}")


def result(
    name: str, given: Any, size: Sequence[int], dtype: torch.dtype, like: torch.Tensor, read: Named
) -> torch.Tensor:
    """The tensor for a result: what the caller gave, if it fits, or a new one. All operations come here.

    Args:
        name: of the caller's argument.
        given: what the caller gave for it; None: a new tensor.
        size, dtype: what the result has.
        like: where it is.
        read: names and tensors of all that is read or written beside it, further results too.

    Raises: TypeError (dtype), ValueError (extents, layout, device, memory of what is read),
        RuntimeError (an inference tensor outside of inference mode: torch would refuse it when others
        wait for what it is a part of).
    """
    if given is None:
        return like.new_empty(tuple(size), dtype=dtype)
    check_tensor(name, given, (dtype,), of="the result")
    if given.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"{name} was made in inference mode, and torch writes to it there alone: make it outside"
        )
    if tuple(given.shape) != tuple(size):
        raise ValueError(f"{name} has size {tuple(given.shape)}; the result has {tuple(size)}")
    check_apart(((name, given),), read)
    checked: torch.Tensor = given
    return checked


def needs_operator(*tensors: Any) -> bool:
    """Whether there are derivatives to be kept, or a compiler is looking."""
    return torch.compiler.is_compiling() or needs_grad(*tensors)


def needs_grad(*tensors: Any) -> bool:
    """Whether derivatives are kept for one of them."""
    return torch.is_grad_enabled() and any(
        isinstance(one, torch.Tensor) and one.requires_grad for one in tensors
    )


def refuse_grad(routine: str, *tensors: Any) -> None:
    """Raises RuntimeError if one of them requires a gradient and gradients are on."""
    if needs_grad(*tensors):
        raise RuntimeError(
            f"{routine} has no derivative here, but a tensor requires grad: torch.no_grad(), or detach()"
        )
