# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch tensors on the symmetric heaps, made and freed as ``pyshmem``'s arrays are.

Making and freeing are collective over all PEs, which make the same calls with the same sizes. A tensor
and its views are symmetric; results of arithmetic are ordinary tensors. Every dtype of torch is
allowed: the heap sees bytes. The memory goes back to the heap by ``free``, or, some time after the last
view of it has gone, in a later collective call; garbage collection itself waits for nobody.
"""

from __future__ import annotations

import math
import operator
import weakref
from typing import Any

import numpy as np
import torch

from .._core.library import check, lib
from .._foreign.torch import neg_view
from ..host import query
from ..host.job import runtime
from ..host.memory import heap as heaps
from ..host.teams.team import TEAM_WORLD
from .arguments import check_plain, why_not_plain

#: The array behind a storage of ours, by its address. The storage keeps the array.
_arrays: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
#: The attribute of what was freed: the tensor that all its views are views of has it.
_FREED = "_pyshmem_freed"
#: Bytes that addresses are a multiple of, as those of CUDA's allocator.
ALIGNMENT = 512


def _place(heap: str | None, device: Any) -> str:
    """The heap that ``heap=`` and ``device=`` mean together."""
    wanted = None if device is None else torch.device(device)
    if wanted is None:
        return heap or "host"
    job = runtime.current()
    if wanted.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {wanted}; symmetric tensors are on cpu or cuda")
    if wanted.type == "cpu":
        if heap == "device" and job.device == "cuda":
            raise ValueError("device is cpu, but the device heap is on the GPU")
        return heap or "host"
    if heap == "host":
        raise ValueError(f"device is {wanted}, but the host heap is on the host")
    if job.device != "cuda" or wanted.index not in (None, job.gpu):
        where = f"this PE drives GPU {job.gpu}; heap='device' is its device heap"
        if job.device != "cuda":
            where = f"this PE drives no GPU, its device is {job.device!r} (PYSHMEM_DEVICE)"
            if job.device != "none":
                where += "; heap='device' gives a tensor of its device heap, on the CPU"
        raise ValueError(f"device is {wanted}, but {where}")
    return "device"


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return tuple(operator.index(extent) for extent in size)


def over(array: Any) -> torch.Tensor:
    """A tensor of bytes over an array of bytes, which it keeps alive."""
    return torch.from_dlpack(array)


def _new(
    routine: str,
    size: tuple[Any, ...],
    dtype: Any,
    heap: str | None,
    device: Any,
    zero: bool = False,
) -> torch.Tensor:
    extents, kind = _size(size), dtype or torch.get_default_dtype()
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"dtype is {kind!r}; give one of torch, torch.float32 for one")
    if str(kind).startswith(("torch.qint", "torch.quint")):
        raise TypeError(
            f"dtype is {kind}: elements of quantised tensors have a scale beside their bytes"
        )
    where = _place(heap, device)
    nbytes = math.prod(extents) * kind.itemsize
    if any(extent < 0 for extent in extents):
        raise ValueError(f"size {extents} has a negative extent")
    array = heaps.allocate(
        routine, nbytes, np.uint8, where, zero, 0 if zero else ALIGNMENT,
        what_for=f"shape {extents} {str(kind).removeprefix('torch.')}",
    )  # fmt: skip
    if not nbytes:
        on_gpu = where == "device" and runtime.device_name() == "cuda"
        return torch.empty(extents, dtype=kind, device="cuda" if on_gpu else "cpu")
    flat = over(array)
    _arrays[flat.data_ptr()] = array
    return flat.view(kind).view(extents)


def _ready(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """No PE goes on before all have set their elements, so that no put is lost."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
    return tensor.requires_grad_(requires_grad)


def empty(
    *size: Any, dtype: Any = None, heap: str | None = None, device: Any = None,
    requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor without setting its elements. Collective.

    Args:
        size: extents, as ``torch.empty`` takes them; the same on all PEs.
        dtype: any of torch; default ``torch.get_default_dtype()``.
        heap: ``"host"`` (default) or ``"device"``; the simulator's device heap gives tensors on the CPU.
        device: ``"cuda"`` is another way to say ``heap="device"``; the PE's own GPU.
        requires_grad: as in torch.

    Completes: the tensor exists on all PEs on return.
    Raises: HeapExhausted, MismatchError (sizes differ between PEs), UnsupportedError (no device
        heap), TypeError, ValueError (size, heap, device), NotInitialized.
    Extension.
    """
    return _new("empty", size, dtype, heap, device).requires_grad_(requires_grad)


def zeros(
    *size: Any, dtype: Any = None, heap: str | None = None, device: Any = None,
    requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor of zeros, set on all PEs on return. Collective; arguments: ``empty``."""
    return _new("zeros", size, dtype, heap, device, zero=True).requires_grad_(requires_grad)


def ones(
    *size: Any, dtype: Any = None, heap: str | None = None, device: Any = None,
    requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor of ones, set on all PEs on return. Collective; arguments: ``empty``."""
    return _ready(_new("ones", size, dtype, heap, device).fill_(1), requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, heap: str | None = None, device: Any = None,
    requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor of one value, set on all PEs on return. Collective.

    Args:
        size: extents, the same on all PEs.
        fill_value: the value of the elements here; PEs may give different ones.
        dtype: default the dtype ``torch.full`` gives.
        heap: as of ``empty``, and so the rest.

    Raises: as ``empty``.
    Extension.
    """
    kind = dtype or torch.full((), fill_value).dtype
    made = _new("full", (size,), kind, heap, device)
    return _ready(made.fill_(fill_value), requires_grad)


def tensor(
    data: Any, *, dtype: Any = None, heap: str | None = None, device: Any = None,
    requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor with the elements of a tensor, an array or nested numbers. Collective.

    Args:
        data: elements here; PEs may give different ones of the same shape and dtype.
        dtype: default that of ``data``.
        heap: as of ``empty``, and so the rest; default the heap or the device of ``data``.

    Completes: all PEs' elements are set on return.
    Raises: as ``empty``.
    Extension.
    """
    values = torch.as_tensor(data).detach()
    check_plain(values)
    if heap is None and device is None:
        heap = heap_of(values) or ("device" if values.is_cuda else "host")
    made = _new("tensor", tuple(values.shape), dtype or values.dtype, heap, device)
    return _ready(made.copy_(values), requires_grad)


def rand(
    *size: Any, dtype: Any = None, heap: str | None = None, device: Any = None,
    generator: Any = None, requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor of numbers from [0, 1), each PE its own. Collective; see ``empty``."""
    made = _new("rand", size, dtype, heap, device)
    return _ready(made.uniform_(generator=generator), requires_grad)


def randn(
    *size: Any, dtype: Any = None, heap: str | None = None, device: Any = None,
    generator: Any = None, requires_grad: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Make a symmetric tensor of normal numbers, each PE its own. Collective; see ``empty``."""
    made = _new("randn", size, dtype, heap, device)
    return _ready(made.normal_(generator=generator), requires_grad)


def _like(prototype: torch.Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Dtype and heap of another tensor where they are not given."""
    options.setdefault("dtype", prototype.dtype)
    if options.get("heap") is None and options.get("device") is None:
        options["heap"] = heap_of(prototype) or ("device" if prototype.is_cuda else "host")
    return options


def empty_like(prototype: torch.Tensor, **options: Any) -> torch.Tensor:
    """``empty`` with size, dtype and heap of another tensor, unless given. Collective."""
    return empty(*prototype.shape, **_like(prototype, options))


def zeros_like(prototype: torch.Tensor, **options: Any) -> torch.Tensor:
    """``zeros`` with size, dtype and heap of another tensor, unless given. Collective."""
    return zeros(*prototype.shape, **_like(prototype, options))


def ones_like(prototype: torch.Tensor, **options: Any) -> torch.Tensor:
    """``ones`` with size, dtype and heap of another tensor, unless given. Collective."""
    return ones(*prototype.shape, **_like(prototype, options))


def full_like(prototype: torch.Tensor, fill_value: Any, **options: Any) -> torch.Tensor:
    """``full`` with size, dtype and heap of another tensor, unless given. Collective."""
    return full(tuple(prototype.shape), fill_value, **_like(prototype, options))


def rand_like(prototype: torch.Tensor, **options: Any) -> torch.Tensor:
    """``rand`` with size, dtype and heap of another tensor, unless given. Collective."""
    return rand(*prototype.shape, **_like(prototype, options))


def randn_like(prototype: torch.Tensor, **options: Any) -> torch.Tensor:
    """``randn`` with size, dtype and heap of another tensor, unless given. Collective."""
    return randn(*prototype.shape, **_like(prototype, options))


# ---- looking, freeing ----------------------------------------------------------------------------


def heap_of(tensor: torch.Tensor) -> str | None:
    """The heap that the elements of a tensor lie on, ``"host"`` or ``"device"``; None: on neither."""
    if not runtime.initialized() or tensor.device.type not in ("cpu", "cuda"):
        return None
    if why_not_plain(tensor) is not None:
        return None
    number = lib.heap_of(tensor.data_ptr(), max(tensor.nbytes, 1))
    return None if number < 0 else ("host", "device")[number]


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Whether the elements of a tensor lie on a symmetric heap."""
    return heap_of(tensor) is not None


def _array_of(tensor: torch.Tensor, name: str) -> Any:
    """The array that the tensor's storage is over."""
    array = _arrays.get(tensor.untyped_storage().data_ptr())
    if array is None:
        raise ValueError(f"{name} was not made by pyshmem.interop.torch")
    return array


def free(tensor: torch.Tensor) -> None:
    """Give a tensor's memory back to the heap. Collective; begins with a barrier.

    Args:
        tensor: what ``empty``, ``zeros``, ... returned, or a view of it. No tensor over the same
            memory must be used afterwards: pyshmem's operators refuse it, torch cannot tell.

    Raises: ValueError (not made here, freed before), NotInitialized, ShmemError.
    Extension.
    """
    check_plain(tensor)
    if not tensor.untyped_storage().nbytes():
        return
    heaps.free(_array_of(tensor, "the tensor"))
    setattr(_root(tensor), _FREED, True)
    _arrays.pop(tensor.untyped_storage().data_ptr(), None)


def _root(tensor: torch.Tensor) -> torch.Tensor:
    """What the tensor is a view of, as all views of that memory are."""
    return tensor if tensor._base is None else tensor._base


def check_not_freed(tensor: torch.Tensor, name: str) -> None:
    """Raises: ValueError: ``free`` has given the memory back, which may be another's by now."""
    if hasattr(_root(tensor), _FREED):
        raise ValueError(f"{name} cannot be used any more: it was freed")


def ptr(tensor: torch.Tensor, pe: int) -> torch.Tensor | None:
    """The copy on PE ``pe`` of a symmetric tensor or a view, to be loaded and stored directly.

    Args:
        tensor: symmetric, of any layout.
        pe: PE of ``TEAM_WORLD``.

    Returns:
        A tensor of the same dtype, size and strides, which keeps ``tensor``'s memory; None where this
        PE cannot load and store that of ``pe``.

    Raises: ValueError (tensor, pe), NotInitialized.
    Extension.
    """
    check_plain(tensor)
    if not tensor.numel():
        return torch.empty_like(tensor)
    view = query.ptr(_array_of(tensor, "tensor"), pe)
    if view is None:
        return None
    flat = over(view).view(tensor.dtype)
    peers = flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    peers = peers.conj() if tensor.is_conj() else peers  # its elements are what the view's are
    return neg_view(peers) if tensor.is_neg() else peers
