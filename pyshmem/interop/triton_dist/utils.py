# SPDX-License-Identifier: BSD-3-Clause
"""``triton_dist.utils``: joining the job, symmetric tensors, printing, comparing, timing.

With torch installed arrays are torch's and the group is of torch.distributed; without it they are what
kernels take, and the group has ``rank`` and ``size``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.errors import UnsupportedError
from ...host import sync
from ...host.job import runtime
from ...host.memory import creation
from ...host.memory import heap as heaps
from ...host.query import ptr as peer_array
from ...triton.runtime.context import wrap

__all__ = [
    "NVSHMEM_SIGNAL_DTYPE", "assert_allclose", "bitwise_equal", "dist_print", "finalize_distributed",
    "get_device_max_shared_memory_size", "get_torch_prof_ctx", "get_triton_dist_local_world_size",
    "get_triton_dist_world", "has_tma", "init_nvshmem_by_torch_process_group", "init_seed",
    "initialize_distributed", "is_cuda", "is_fp8_dtype", "is_hip", "is_maca",
    "is_nvshmem_multimem_supported", "is_shmem_initialized", "launch_cooperative_grid_options",
    "nvshmem_barrier_all_on_stream", "nvshmem_create_tensor", "nvshmem_create_tensors",
    "nvshmem_free_tensor_sync", "perf_func", "rand_tensor", "requires_p2p_native_atomic", "sleep_async",
    "support_launch_cooperative_grid", "supports_p2p_native_atomic",
]  # fmt: skip


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch


#: Of the words that signals are.
NVSHMEM_SIGNAL_DTYPE: Any = np.dtype(np.int64) if _torch() is None else _torch().int64


class _World:
    """All PEs, where there is no torch."""

    def rank(self) -> int:
        return runtime.my_pe()

    def size(self) -> int:
        return runtime.n_pes()


_world: Any = None
_arrays: dict[int, Any] = {}  # by address: what symmetric tensors lie in


def initialize_distributed(seed: int | None = None, initialize_shmem: bool = True) -> Any:
    """Join the job; the group of all ranks, with torch one of torch.distributed, by gloo and NCCL.

    ``seed``: see ``init_seed``, default the rank. The device heap has ``PYSHMEM_DEVICE_HEAP_SIZE``.
    """
    global _world
    job = runtime.init()
    torch = _torch()
    if torch is None:
        _world = _World()
    else:
        if not torch.distributed.is_initialized():
            from ..torch import init_process_group

            init_process_group("cpu:gloo,cuda:nccl" if job.device == "cuda" else "gloo")
        _world = torch.distributed.group.WORLD
    init_seed(job.my_pe if seed is None else seed)
    return _world


def init_nvshmem_by_torch_process_group(pg: Any) -> None:
    """Join the job by a group of torch.distributed that has all its ranks, of any backend. Collective.

    Raises: RuntimeError (there is one).
    """
    global _world
    if _world is not None:
        raise RuntimeError("the job has a group: finalize_distributed first")
    from ..._torch.process_groups import GroupExchange

    runtime.init(comm=None if runtime.initialized() else GroupExchange(pg))
    _world = pg


def finalize_distributed() -> None:
    """Leave the group and the job."""
    global _world
    torch = _torch()
    if torch is not None and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    _arrays.clear()
    _world = None
    runtime.finalize()


def get_triton_dist_world() -> Any:
    """The group of all ranks.

    Raises: RuntimeError (before ``initialize_distributed``).
    """
    if _world is None:
        raise RuntimeError("call initialize_distributed first")
    return _world


def get_triton_dist_local_world_size() -> int:
    """Ranks on this host."""
    return int(get_triton_dist_world().size())


def is_shmem_initialized() -> bool:
    """Between ``initialize_distributed`` and ``finalize_distributed``."""
    return _world is not None


def is_cuda() -> bool:
    """True: NVIDIA's names are what there is, also where a device is simulated."""
    return True


def is_hip() -> bool:
    """False."""
    return False


def is_maca() -> bool:
    """False."""
    return False


def init_seed(seed: int = 0) -> None:
    """Seed Python's, NumPy's and torch's generators with ``3 + seed``."""
    random.seed(3 + seed)
    np.random.seed(3 + seed)
    if _torch() is not None:
        _torch().manual_seed(3 + seed)


def _synchronize() -> None:
    if runtime.device_name() == "cuda":
        import cupy

        cupy.cuda.Device().synchronize()


def _tensor(array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """What users and kernels take for an array of bytes, or without torch of ``dtype``."""
    torch = _torch()
    if torch is None:
        return wrap(array, symmetric=True)
    if runtime.device_name() == "cuda":
        flat = torch.as_tensor(array, device=f"cuda:{runtime.current().gpu}")
    else:
        flat = torch.from_numpy(np.asarray(array))
    return flat.view(dtype).reshape(shape)


def _new(shape: Any, dtype: Any) -> tuple[Any, tuple[int, ...]]:
    extents = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    torch = _torch()
    if torch is None:
        return creation.empty(extents, dtype, heap="device"), extents
    nbytes = int(np.prod(extents, dtype=np.int64)) * torch.empty(0, dtype=dtype).element_size()
    return creation.empty(nbytes, np.uint8, heap="device", align=1024), extents


def _address(tensor: Any) -> int:
    return int(tensor.data_ptr())


def nvshmem_create_tensor(shape: Any, dtype: Any) -> Any:
    """A tensor on the device heap, not filled. Collective."""
    _synchronize()
    array, extents = _new(shape, dtype)
    tensor = _tensor(array, extents, dtype)
    _arrays[_address(tensor)] = array
    return tensor


def nvshmem_create_tensors(shape: Any, dtype: Any, rank: int, local_world_size: int) -> list[Any]:
    """``nvshmem_create_tensor``, and views of the same on the other ranks, in their order. Collective.

    Raises: RuntimeError (a peer that is not reached by loads and stores).
    """
    own = nvshmem_create_tensor(shape, dtype)
    array, found = _arrays[_address(own)], []
    first = rank - rank % local_world_size
    for pe in range(first, first + local_world_size):
        if pe == rank:
            found.append(own)
            continue
        there = peer_array(array, pe)
        if there is None:
            raise RuntimeError(f"the memory of rank {pe} is not reached by loads and stores")
        extents = tuple(own.shape)
        found.append(wrap(there) if _torch() is None else _tensor(there, extents, dtype))
    return found


def nvshmem_free_tensor_sync(tensor: Any) -> None:
    """Free a tensor of ``nvshmem_create_tensor``, which must not be used any more. Collective.

    Raises: ValueError (another's tensor, or a view that begins elsewhere).
    """
    _synchronize()
    array = _arrays.pop(_address(tensor), None)
    if array is None:
        raise ValueError("the tensor is none of nvshmem_create_tensor's, or has been freed")
    heaps.free(array)


def nvshmem_barrier_all_on_stream(stream: Any = None) -> None:
    """All ranks, in the order of ``stream``, by default torch's current one.

    Where a device is simulated kernels have ended when they are launched, and the hosts meet.
    """
    if runtime.device_name() != "cuda":
        sync.barrier_all()
        return
    torch = _torch()
    if stream is None:
        stream = 0 if torch is None else torch.cuda.current_stream()
    sync.barrier_all(stream=stream)


def dist_print(
    *args: Any,
    allowed_ranks: Any = None,
    prefix: bool = False,
    need_sync: bool = False,
    **kwargs: Any,
) -> None:
    """``print`` on some ranks, one after the other.

    Args:
        allowed_ranks: list of ranks, or "all"; default [0].
        prefix: begin with the rank.
        need_sync: all ranks meet before each prints. Collective.
    """
    world = get_triton_dist_world()
    if allowed_ranks is None:
        allowed_ranks = [0]
    elif allowed_ranks == "all":
        allowed_ranks = range(world.size())
    for rank in allowed_ranks:
        if need_sync:
            sync.barrier_all()
        if rank == world.rank():
            if prefix:
                print(f"[rank:{rank}]", end="")
            print(*args, **kwargs)


def assert_allclose(
    x: Any, y: Any, rtol: float, atol: float, verbose: bool = True, allow_nan: bool = False,
    allow_inf: bool = False,
) -> None:  # fmt: skip
    """Raises AssertionError where ``x`` and ``y`` differ by more, or have what is not allowed."""
    left, right = (np.asarray(v.float().cpu() if hasattr(v, "cpu") else v) for v in (x, y))
    for name, value in (("x", left), ("y", right)):
        if not allow_nan and np.isnan(value).any():
            raise AssertionError(f"{name} has nan")
        if not allow_inf and np.isinf(value).any():
            raise AssertionError(f"{name} has inf")
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=allow_nan)
    if not close.all():
        if verbose:
            print(f"x: {left[~close]}\ny: {right[~close]}", file=sys.stderr)
        raise AssertionError(
            f"{(~close).sum()} of {close.size} elements differ, by up to "
            f"{np.abs(left - right)[~close].max()}"
        )


def bitwise_equal(a: Any, b: Any) -> bool:
    """Are shape, dtype and all bits the same?"""
    if tuple(a.shape) != tuple(b.shape) or a.dtype != b.dtype:
        return False
    torch = _torch()
    if torch is not None and isinstance(a, torch.Tensor):
        return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8)))
    return bool(np.asarray(a).tobytes() == np.asarray(b).tobytes())


def perf_func(func: Callable[[], Any], iters: int, warmup_iters: int) -> tuple[Any, float]:
    """What ``func`` gave last, and milliseconds a call, behind ``warmup_iters`` calls."""
    output = None
    for _ in range(warmup_iters):
        output = func()
    _synchronize()
    begin = time.perf_counter()
    for _ in range(iters):
        output = func()
    _synchronize()
    return output, 1e3 * (time.perf_counter() - begin) / max(iters, 1)


@contextlib.contextmanager
def get_torch_prof_ctx(do_prof: bool) -> Iterator[Any]:
    """The profiler of torch, of CPU and GPU if ``do_prof``, else nothing."""
    if not do_prof:
        yield None
        return
    with _torch().profiler.profile(record_shapes=True) as profile:
        yield profile


def supports_p2p_native_atomic() -> bool:
    """Have the links to the other GPUs atomic operations of their own?"""
    from ..._core import library

    words, by_owner = library.device_state(), library.lib.ISHMEMX_STATE_BY_OWNER
    return not any(words[by_owner : by_owner + 2])


def launch_cooperative_grid_options() -> dict[str, Any]:
    """Options of a launch whose programs have to run at once."""
    return {"launch_cooperative_grid": True} if runtime.device_name() == "cuda" else {}


def support_launch_cooperative_grid() -> bool:
    """True: each Triton that pyshmem runs with has it."""
    return True


def requires_p2p_native_atomic(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn``, which raises UnsupportedError where ``supports_p2p_native_atomic`` is false."""

    @functools.wraps(fn)
    def call(*args: Any, **named: Any) -> Any:
        if not supports_p2p_native_atomic():
            raise UnsupportedError(f"{fn.__name__} needs links that have atomic operations")
        return fn(*args, **named)

    return call


def is_nvshmem_multimem_supported() -> bool:
    """False: no memory here has multicast addresses."""
    return False


def has_tma() -> bool:
    """Is there a GPU, of compute capability 9 or later?"""
    torch = _torch()
    return bool(
        torch is not None
        and torch.cuda.is_available()
        and torch.cuda.get_device_capability() >= (9, 0)
    )


def get_device_max_shared_memory_size(device_id: int) -> int:
    """Bytes of shared memory that a block of a GPU may ask for. Raises: RuntimeError (no such GPU)."""
    return int(_torch().cuda.get_device_properties(device_id).shared_memory_per_block_optin)


def sleep_async(duration_ms: float) -> None:
    """Keep torch's current stream busy for about so long; where there is no GPU, this thread."""
    torch = _torch()
    if torch is not None and torch.cuda.is_available():
        from ..._foreign.torch import spin

        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        spin(int(gpu.clock_rate * duration_ms))  # kHz: cycles a millisecond
    else:
        time.sleep(duration_ms * 1e-3)


def is_fp8_dtype(dtype: Any) -> bool:
    """Is it a floating-point type of torch with one byte?"""
    return bool(dtype.itemsize == 1 and dtype.is_floating_point)


def rand_tensor(shape: Any, dtype: Any, device: Any = "cuda") -> Any:
    """Random elements of a dtype of torch: evenly from [-1, 1), of integers over all that they hold."""
    torch = _torch()
    if dtype.is_floating_point:
        wide = torch.bfloat16 if is_fp8_dtype(dtype) else dtype
        return torch.rand(shape, dtype=wide, device=device).mul_(2).sub_(1).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, dtype=dtype, device=device)
