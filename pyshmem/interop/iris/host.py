# SPDX-License-Identifier: BSD-3-Clause
"""The ``iris.iris`` object: ranks, the device heap, barriers, broadcast, words for the user."""

from __future__ import annotations

import importlib.util
import logging
import pickle
from typing import Any, NamedTuple

import numpy as np

from ... import triton as shmem
from ..._core import library
from ..._core.errors import UnsupportedError
from ..._core.library import lib
from ..._core.other_names import absent
from ...host import rma, sync
from ...host.job import runtime
from ...host.memory import creation
from . import ccl, hip, ops
from .creators import Creators
from .logging import logger
from .util import check_group, synchronize

_LEAST_HEAP = 64 << 20


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch


class _Bits(NamedTuple):
    """A tensor that NumPy has no dtype for, as it is sent."""

    words: np.ndarray
    dtype: Any
    shape: tuple[int, ...]


class Iris(Creators):
    """A PE's view of the job, and the creators of symmetric arrays.

    The job's heap is that of the first object; later ones, of any ``heap_size``, share it.
    """

    def __init__(self, heap_size: int = 1 << 30) -> None:
        job = runtime.init(device_heap_size=max(heap_size, _LEAST_HEAP))
        self.cur_rank, self.num_ranks = job.my_pe, job.n_pes
        self.gpu_id, self.heap_size = job.gpu, heap_size
        self.device = f"cuda:{job.gpu}" if job.device == "cuda" else "cpu"
        self._torch = _torch()
        words = library.device_state()
        by_owner = lib.ISHMEMX_STATE_BY_OWNER
        if any(words[by_owner : by_owner + 2]):
            raise UnsupportedError(
                "links between these GPUs have no native atomic operations (or PYSHMEM_P2P_ATOMICS is "
                "owner): Iris's kernels cannot find that out, and theirs would be lost"
            )
        if job.n_pes > lib.ISHMEMX_MAX_NEAR_PES:
            raise UnsupportedError(
                f"Iris's kernels reach all PEs by loads and stores: {lib.ISHMEMX_MAX_NEAR_PES} at most"
            )
        base, delta = words[lib.ISHMEMX_STATE_HEAP_BASE], words[lib.ISHMEMX_STATE_DELTA :]
        bases = np.array([base + delta[pe] for pe in range(job.n_pes)], np.uint64)
        self.heap_bases = self._local(bases)
        numbers = np.array([self.cur_rank, self.num_ranks], np.int64)
        self._context = self._local(np.concatenate([numbers, bases.view(np.int64)]))
        self.ccl = ccl.CCL(self)
        self.ops = ops.Ops(self)

    # -- who ---------------------------------------------------------------------------------------

    def get_rank(self) -> int:
        """Number of this PE."""
        return self.cur_rank

    def get_num_ranks(self) -> int:
        """Number of PEs."""
        return self.num_ranks

    def get_heap_bases(self) -> Any:
        """What kernels take as ``heap_bases``."""
        return self.heap_bases

    def get_device_context(self) -> Any:
        """What kernels give to ``DeviceContext.initialize``: int64, rank, ranks and ``heap_bases``."""
        return self._context

    def get_device(self) -> Any:
        """Where arrays live: a ``torch.device``, without torch its name."""
        return self.device if self._torch is None else self._torch.device(self.device)

    def get_cu_count(self) -> int:
        """Number of the GPU's multiprocessors."""
        return hip.get_cu_count(self.gpu_id)

    def get_copy_engine_ctx(self) -> None:
        """None: kernels ask for copies by engines with ``pyshmem.triton.put_chunk``."""

    @property
    def tracing(self) -> Any:
        """Raises UnsupportedError: pyshmem's timelines have kernels and their stages."""
        instead = "pyshmem.profiling.trace makes a timeline with kernels and their stages"
        raise absent("iris' tracing", instead)

    # -- arrays --------------------------------------------------------------------------------------

    def _local(self, values: np.ndarray) -> Any:
        if self._torch is not None:
            return self._torch.from_numpy(values).to(self.device)
        if self.device == "cpu":
            return values
        import cupy

        return cupy.asarray(values)

    def is_symmetric(self, tensor: Any) -> bool:
        """Is it memory of the device heap, the same on all PEs?"""
        if 0 in tuple(tensor.shape):
            return True
        words = library.device_state()
        begin = words[lib.ISHMEMX_STATE_HEAP_BASE]
        size = words[lib.ISHMEMX_STATE_HEAP_BYTES]
        if hasattr(tensor, "data_ptr"):
            address = tensor.data_ptr()
        elif isinstance(tensor, np.ndarray):
            address = tensor.ctypes.data
        else:
            address = tensor.__cuda_array_interface__["data"][0]
        return bool(begin <= address < begin + size)

    def __on_symmetric_heap(self, tensor: Any) -> bool:
        """Iris' own tests ask by this name."""
        return self.is_symmetric(tensor)

    def __is_valid_device(self, device: Any) -> bool:
        """Iris' own tests ask by this name."""
        if device is None or (self.device == "cpu" and str(device) == "cuda"):
            return True  # the simulated device stands for the GPU
        return str(device) in (self.device, self.device.partition(":")[0])

    def check_device(self, device: Any) -> None:
        """Raises RuntimeError for any but the PE's own."""
        if not self.__is_valid_device(device):
            raise RuntimeError(f"device is {device}, but this PE's arrays live on {self.device}")

    def check_output(self, out: Any, num_elements: int, dtype: Any) -> None:
        """Raises RuntimeError for an ``out`` elsewhere, of another size or another dtype."""
        if not self.is_symmetric(out):
            raise RuntimeError(
                "The output tensor is not on the symmetric heap: take one of this object's"
            )
        size = int(np.prod(tuple(out.shape), dtype=np.int64))
        if size != num_elements:
            raise RuntimeError(
                f"The output tensor has {size} elements, but {num_elements} are required"
            )
        if out.dtype != dtype:
            raise RuntimeError(f"The output tensor has dtype {out.dtype}, but {dtype} is required")

    # -- all PEs ----------------------------------------------------------------------------------------

    def barrier(self, stream: Any = None, group: Any = None) -> None:
        """Wait for this PE's kernels (of ``stream``, if given), and for all PEs."""
        check_group(group, self.num_ranks)
        if stream is None:
            synchronize()
        else:
            stream.synchronize()
        sync.barrier_all()

    def device_barrier(self, group: Any = None) -> None:
        """All PEs, by a kernel on the current stream: the host does not wait."""
        check_group(group, self.num_ranks)
        ccl.barrier_kernel[(1,)](shmem.context())

    def broadcast(
        self, value: Any, source_rank: int | None = None, *, src: int | None = None
    ) -> Any:
        """``value`` of ``source_rank``: anything that pickles.

        Of a tensor a NumPy array, or, of a dtype that NumPy does not have, a tensor in host memory.
        ``src`` is another name of ``source_rank``, as later collectives of Iris have it; without either
        it is rank 0. What cannot be sent is an error on all ranks.
        """
        if src is not None and source_rank is not None:
            raise TypeError("broadcast: source_rank and src are two names of one number; give one")
        source_rank = source_rank if src is None else src
        source_rank = 0 if source_rank is None else source_rank
        data, error = None, None
        if self.cur_rank == source_rank:
            try:
                data = np.frombuffer(pickle.dumps(self._in_host_memory(value)), np.uint8)
            except Exception as why:  # any: the others are told
                error = why
        size = creation.full(1, -1 if error else 0 if data is None else data.size, dtype=np.int64)
        nbytes = int(rma.g(size, source_rank))
        if nbytes < 0:
            raise error or ValueError(f"rank {source_rank} has a value that it cannot send")
        buffer = creation.zeros(nbytes, np.uint8)
        if data is not None:
            buffer[:] = data
        sync.barrier_all()
        got = np.empty(nbytes, np.uint8)
        rma.get(got, buffer, source_rank)
        sync.barrier_all()
        sent = pickle.loads(got.tobytes())
        if isinstance(sent, _Bits):
            return self._torch.from_numpy(sent.words).view(sent.dtype).reshape(sent.shape)
        return sent

    def _in_host_memory(self, value: Any) -> Any:
        if self._torch is None or not isinstance(value, self._torch.Tensor):
            return value
        value = value.detach().cpu().resolve_conj().resolve_neg()
        try:
            return value.numpy()
        except TypeError:  # bfloat16, FP8, which pickle cannot have either
            words = value.flatten().view(self._torch.uint8).numpy()
            return _Bits(words, value.dtype, tuple(value.shape))

    def broadcast_tensor(self, value: Any, source_rank: int = 0) -> Any:
        """The array of ``source_rank``, as NumPy's."""
        return self.broadcast(value, source_rank)

    # -- words for the user --------------------------------------------------------------------------

    def _log(self, level: int, message: str) -> None:
        numbers = {"iris_rank": self.cur_rank, "iris_num_ranks": self.num_ranks}
        logger.log(level, "%s", message, extra=numbers)

    def debug(self, message: str) -> None:
        """Log with this PE's number."""
        self._log(logging.DEBUG, message)

    def info(self, message: str) -> None:
        """Log with this PE's number."""
        self._log(logging.INFO, message)

    def warning(self, message: str) -> None:
        """Log with this PE's number."""
        self._log(logging.WARNING, message)

    def error(self, message: str) -> None:
        """Log with this PE's number."""
        self._log(logging.ERROR, message)


def iris(
    heap_size: int = 1 << 30, allocator_type: str = "torch", copy_engine: str | None = None
) -> Iris:
    """Join the job with a device heap of ``heap_size`` bytes, or 64 MiB if that is more. Collective.

    Args:
        allocator_type: "torch", "vmem" or "default": the heap is pyshmem's.
        copy_engine: None; kernels use copy engines by ``pyshmem.triton.put_chunk``.

    Raises: UnsupportedError (copy_engine, links without atomics), ValueError (allocator_type), what
        ``pyshmem.init`` raises.
    """
    if allocator_type not in ("torch", "vmem", "default"):
        raise ValueError(f'allocator_type is {allocator_type!r}; give "torch", "vmem" or "default"')
    if copy_engine is not None:
        raise UnsupportedError(
            f"copy_engine is {copy_engine!r}: pyshmem.triton.put_chunk and get_chunk use copy engines"
        )
    return Iris(heap_size)
