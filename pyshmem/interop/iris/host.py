# SPDX-License-Identifier: BSD-3-Clause
"""The ``iris.iris`` object: ranks, arrays on the symmetric heap, barriers, broadcast, timing."""

from __future__ import annotations

import importlib.util
import logging
import math
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import triton as shmem
from ..._core import library
from ..._core.errors import UnsupportedError
from ..._core.library import lib
from ...host import creation, rma, runtime, sync
from . import ccl

logger = logging.getLogger("iris")
_ALIGN = 1024


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch


def _synchronize() -> None:
    """Waits for this PE's kernels."""
    if runtime.device_name() == "cuda":
        import cupy

        cupy.cuda.Device().synchronize()


class Iris:
    """A PE's view of the job, and the creators of symmetric arrays.

    Creators are collective: all PEs call the same ones in the same order with the same sizes. They take
    torch's arguments; ``device`` has to be the PE's own.
    """

    def __init__(self, heap_size: int = 1 << 30) -> None:
        job = runtime.init(device_heap_size=heap_size)
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
        self.ccl = ccl.CCL(self)

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

    def get_device(self) -> str:
        """Where arrays live."""
        return self.device

    # -- arrays --------------------------------------------------------------------------------------

    def _local(self, values: np.ndarray) -> Any:
        if self._torch is not None:
            return self._torch.from_numpy(values).to(self.device)
        if self.device == "cpu":
            return values
        import cupy

        return cupy.asarray(values)

    def _symmetric(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new array on the device heap; torch's dtypes are bytes to us."""
        if self._torch is None:
            return creation.empty(shape, dtype, heap="device")
        nbytes = math.prod(shape) * self._torch.empty(0, dtype=dtype).element_size()
        array = creation.empty(max(nbytes, 1), np.uint8, heap="device", align=_ALIGN)
        if self.device == "cpu":
            flat = self._torch.from_numpy(np.asarray(array))
        else:
            flat = self._torch.as_tensor(array, device=self.device)
        return flat[:nbytes].view(dtype).reshape(shape)

    def _filled(self, values: Any, out: Any, device: Any, requires_grad: bool) -> Any:
        if device is not None and str(device) not in (self.device, self.device.partition(":")[0]):
            raise ValueError(f"device is {device}, but this PE's arrays live on {self.device}")
        array = self._symmetric(tuple(values.shape), values.dtype) if out is None else out
        if self._torch is not None:
            array.copy_(values)
            if requires_grad:
                array.requires_grad_()
        else:
            array[...] = values
        self.barrier()
        return array

    def _make(self, name: str, *arguments: Any, dtype: Any = None, **named: Any) -> Any:
        """Values of torch's or NumPy's creator ``name``, copied to the heap."""
        kept = {key: named.pop(key, None) for key in ("out", "device", "requires_grad")}
        named.pop("layout", None)
        named.pop("memory_format", None)
        if self._torch is not None:
            create = getattr(self._torch, name)
            values = create(*arguments, dtype=dtype, device=self.device, **named)
        else:
            values = _numpy_values(name, arguments, np.dtype(dtype or _default(name)), named)
        return self._filled(values, kept["out"], kept["device"], bool(kept["requires_grad"]))

    def zeros(self, *size: Any, **options: Any) -> Any:
        """``torch.zeros`` on the symmetric heap."""
        return self._make("zeros", _shape(size), **options)

    def ones(self, *size: Any, **options: Any) -> Any:
        """``torch.ones`` on the symmetric heap."""
        return self._make("ones", _shape(size), **options)

    def empty(self, *size: Any, **options: Any) -> Any:
        """``torch.empty`` on the symmetric heap."""
        return self._make("empty", _shape(size), **options)

    def full(self, size: Any, fill_value: Any, **options: Any) -> Any:
        """``torch.full`` on the symmetric heap."""
        if options.get("dtype") is None and self._torch is None:
            options["dtype"] = np.asarray(fill_value).dtype
        return self._make("full", _shape((size,)), fill_value, **options)

    def arange(self, start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Any:
        """``torch.arange`` on the symmetric heap."""
        if end is None:
            start, end = 0, start
        if step == 0 or (end - start) * step <= 0:
            raise ValueError(f"no range from {start} to {end} in steps of {step}")
        if options.get("dtype") is None and self._torch is None:
            options["dtype"] = np.result_type(*map(np.asarray, (start, end, step)))
        return self._make("arange", start, end, step, **options)

    def linspace(self, start: Any, end: Any, steps: int, **options: Any) -> Any:
        """``torch.linspace`` on the symmetric heap."""
        return self._make("linspace", start, end, steps, **options)

    def rand(self, *size: Any, **options: Any) -> Any:
        """``torch.rand`` on the symmetric heap."""
        return self._make("rand", _shape(size), **options)

    def randn(self, *size: Any, **options: Any) -> Any:
        """``torch.randn`` on the symmetric heap."""
        return self._make("randn", _shape(size), **options)

    def randint(self, *arguments: Any, **options: Any) -> Any:
        """``torch.randint``: [low,] high, size, on the symmetric heap."""
        low, high, size = (0, *arguments) if len(arguments) == 2 else arguments
        return self._make("randint", low, high, _shape((size,)), **options)

    def uniform(self, size: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None) -> Any:
        """Values from ``low`` to ``high``."""
        array = self.rand(size, dtype=dtype)
        array *= high - low
        array += low
        self.barrier()
        return array

    def zeros_like(self, input: Any, *, dtype: Any = None, **options: Any) -> Any:
        """``torch.zeros_like`` on the symmetric heap."""
        return self.zeros(tuple(input.shape), dtype=dtype or input.dtype, **options)

    # -- all PEs ----------------------------------------------------------------------------------------

    def barrier(self, stream: Any = None) -> None:
        """Wait for this PE's kernels (of ``stream``, if given), and for all PEs."""
        if stream is None:
            _synchronize()
        else:
            stream.synchronize()
        sync.barrier_all()

    def device_barrier(self) -> None:
        """All PEs, by a kernel on the current stream: the host does not wait."""
        ccl.barrier_kernel[(1,)](shmem.context())

    def broadcast(self, value: Any, source_rank: int = 0) -> Any:
        """``value`` of ``source_rank``: a tensor of one shape on all, or anything that pickles."""
        data = (
            np.frombuffer(pickle.dumps(value), np.uint8) if self.cur_rank == source_rank else None
        )
        size = creation.full(1, 0 if data is None else data.size, dtype=np.int64)
        nbytes = int(rma.g(size, source_rank))
        buffer = creation.zeros(nbytes, np.uint8)
        if data is not None:
            buffer[:] = data
        sync.barrier_all()
        got = np.empty(nbytes, np.uint8)
        rma.get(got, buffer, source_rank)
        sync.barrier_all()
        return pickle.loads(got.tobytes())

    # -- words for the user --------------------------------------------------------------------------

    def _log(self, level: int, message: str) -> None:
        logger.log(level, "[Iris] [%d/%d] %s", self.cur_rank, self.num_ranks, message)

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


def iris(heap_size: int = 1 << 30) -> Iris:
    """Join the job with a device heap of ``heap_size`` bytes. Collective."""
    return Iris(heap_size)


def _shape(size: Any) -> tuple[int, ...]:
    while len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    return tuple(int(extent) for extent in size)


def _default(name: str) -> str:
    return "int64" if name == "randint" else "float32"


def _numpy_values(name: str, arguments: Any, dtype: np.dtype[Any], named: Any) -> np.ndarray:
    """Without torch: its creators in NumPy."""
    if named:
        raise TypeError(f"{name} takes no {', '.join(named)} without torch")
    if name in ("rand", "randn", "randint"):
        generator = np.random.default_rng()
        draw: dict[str, Callable[..., Any]] = {
            "rand": generator.random, "randn": generator.standard_normal, "randint": generator.integers,
        }  # fmt: skip
        return np.asarray(draw[name](*arguments)).astype(dtype)
    return np.asarray(getattr(np, name)(*arguments)).astype(dtype)


def do_bench(
    fn: Callable[[], Any],
    barrier_fn: Callable[[], Any] = lambda: None,
    preamble_fn: Callable[[], Any] = lambda: None,
    n_warmup: int = 25,
    n_repeat: int = 100,
    quantiles: list[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that ``fn`` and its kernels take, behind ``preamble_fn`` and ``barrier_fn``.

    Args:
        quantiles: return these instead.
        return_mode: "min", "max", "mean", "median" or "all".

    Raises: ValueError (return_mode).
    """
    modes: dict[str, Callable[..., Any]] = {
        "min": min, "max": max, "mean": np.mean, "median": np.median, "all": list,
    }  # fmt: skip
    if return_mode not in modes:
        raise ValueError(f"return_mode is {return_mode!r}; the modes are {', '.join(modes)}")
    times = []
    for run in range(n_warmup + n_repeat):
        preamble_fn()
        _synchronize()
        barrier_fn()
        begin = time.perf_counter()
        fn()
        _synchronize()
        if run >= n_warmup:
            times.append(1e3 * (time.perf_counter() - begin))
    if quantiles is not None:
        found = np.quantile(times, quantiles).tolist()
        return found[0] if len(found) == 1 else found
    result = modes[return_mode](times)
    return result if return_mode == "all" else float(result)
