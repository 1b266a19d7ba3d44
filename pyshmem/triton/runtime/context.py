# SPDX-License-Identifier: BSD-3-Clause
"""What kernels are given by the host: the context argument, and arrays as Triton takes them.

The only file of ``pyshmem.triton`` that knows the rest of pyshmem.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from triton import knobs
from triton.runtime.jit import JITCallable, KernelInterface

from ..._core import errors, kept_files, library
from ..._core.arrays import checks as arrays
from ..._core.labels import label_words
from ..._core.library import lib
from ..._core.type_table import ATOMIC_OPS, ELEMENT_NUMBER
from ..._foreign import triton as foreign
from ..._foreign.environment import lend_data_ptr
from ...host import faults
from ...host.collectives.agreement import must_agree
from ...host.job import runtime
from ...host.memory import creation, heap
from ...host.observe import stages
from ...host.teams.contexts import slot_of

__all__ = ["Context", "Wrapped", "context", "must_agree", "team_number", "wrap"]

_address = 0
_published: tuple[int, ...] | None = None


class Context:
    """A job as kernels see it: the argument ``ctx``.

    Triton takes it for a pointer to int64. At each launch it is asked for its address, and raises what
    a kernel has recorded, or that its job has ended. ``address``, or ``int(ctx)``, is the same as an
    int; on GPUs ``torch.as_tensor(ctx, device="cuda")`` is the same as a tensor,
    for whoever keeps arguments in a graph: nothing is checked then.
    """

    dtype = "int64"

    def __init__(self) -> None:
        self._job = runtime.current()
        self.address = _address

    def data_ptr(self) -> int:
        """The address of the state block.

        Raises: NotInitialized (the job has ended), KernelFault.
        """
        if not runtime.initialized():
            raise library.not_initialized("the kernel's ctx was made in a job that has ended")
        if runtime.current() is not self._job:
            raise ValueError("the kernel's ctx belongs to an earlier job: call context() again")
        library.raise_pending_fault()
        return self.address

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The state block as an array of int64, on GPUs; what it holds is not for others to change."""
        if runtime.device_name() != "cuda":
            raise AttributeError("the context is an array of a GPU only where the job runs on one")
        words = (lib.ISHMEMX_STATE_WORDS,)
        return {"shape": words, "typestr": "<i8", "data": (self.data_ptr(), False), "version": 3}

    def __int__(self) -> int:
        return self.data_ptr()

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<pyshmem.triton context of PE {self._job.my_pe} at {self.address:#x}>"


def context() -> Context:
    """The context argument of kernels: by it they know the job.

    Returns: an object that kernels take as an argument, valid as long as the job runs.
    Raises: NotInitialized, UnsupportedError (the job has no device heap), ImportError (Triton was
        imported for the other device than the job runs on).
    Example: ``ctx = shmem.context()``
    Extension.
    """
    if runtime.device_name() == "none":
        raise errors.UnsupportedError(
            "the job has no device heap: kernels need device 'cuda' or 'sim' (PYSHMEM_DEVICE)"
        )
    if runtime.device_name() in library.SIMULATED and not knobs.runtime.interpret:
        raise ImportError(
            "the job runs on the simulator, but Triton was imported without its interpreter: import "
            "pyshmem before triton, start the script with 'python -m pyshmem run --device sim', or set "
            "TRITON_INTERPRET=1"
        )
    if runtime.current().n_pes > lib.ISHMEMX_MAX_NEAR_PES:
        raise errors.UnsupportedError(
            f"Triton's kernels know at most {lib.ISHMEMX_MAX_NEAR_PES} PEs, the job has "
            f"{runtime.current().n_pes}; Numba's (pyshmem.device) know all"
        )
    return Context()


class Wrapped:
    """An array as Triton takes it: an address and a dtype. The array is checked at each launch."""

    def __init__(self, array: Any, symmetric: bool) -> None:
        self.array = array
        self.symmetric = symmetric
        self.data_ptr()
        self.shape = tuple(array.shape)
        self.dtype = _dtype_of(array)

    def data_ptr(self) -> int:
        """The address of element 0.

        Raises: ValueError (freed, or not on the device heap), NotInitialized (its job has ended).
        """
        return arrays.place(
            self.array, "a kernel's argument", symmetric=self.symmetric, writable=False
        )[0]

    def __repr__(self) -> str:
        return f"wrap({self.array!r})"


def _dtype_of(array: Any) -> str:
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        dtype = np.dtype(array.__array_interface__["typestr"])
    name = str(dtype).rpartition(".")[2]
    if name not in foreign.DTYPES:
        raise TypeError(f"an argument of dtype {name}: kernels of Triton have none like it")
    return name


def wrap(array: Any, *, symmetric: bool | None = None) -> Wrapped:
    """``array`` as an argument of kernels.

    Args:
        array: a CuPy or NumPy array, or whatever has ``__cuda_array_interface__``,
            ``__array_interface__`` or DLPack; contiguous.
        symmetric: it has to be on a symmetric heap; default: only if it is one of ours.

    Raises: ValueError (not contiguous, freed, not symmetric), TypeError (no array; no dtype of Triton).
    Example: ``dest = shmem.wrap(pyshmem.zeros(64, heap="device"))``
    Extension.
    """
    if symmetric is None:
        symmetric = isinstance(array, arrays.SymmetricArray)
    return Wrapped(array, symmetric)


def new_words(header: list[int], before: int, per_pe: int, what_for: str = "") -> Any:
    """A symmetric array of int64 zeros on the device heap that starts with ``header``. Collective.

    ``what_for``: what the program has given, which members compare.
    """
    words = np.zeros(before + per_pe * (runtime.current().n_pes + 1), np.int64)
    words[: len(header)] = header
    return heap.allocate("array", words.shape, np.int64, "device", values=words, what_for=what_for)


def symmetric(values: np.ndarray) -> Wrapped:
    """An array on the device heap with these values, as an argument of kernels. Collective."""
    return Wrapped(creation.array(values, heap="device"), True)


def resident_programs() -> int:
    """How many programs run at once: one for each of the GPU's multiprocessors, 4 in the interpreter.

    Raises: NotInitialized.
    Extension.
    """
    if runtime.device_name() != "cuda":
        return 4
    import cupy

    return int(cupy.cuda.Device(runtime.current().gpu).attributes["MultiProcessorCount"])


def most_programs(num_warps: int) -> int:
    """How many programs have the threads to run at once; 1024 in the interpreter.

    Raises: NotInitialized.
    """
    if runtime.device_name() != "cuda":
        return 1024
    import cupy

    there = cupy.cuda.Device(runtime.current().gpu).attributes
    return resident_programs() * (int(there["MaxThreadsPerMultiProcessor"]) // (32 * num_warps))


def team_number(team: Any) -> int:
    """The number by which kernels know a team of the host; valid until the team is destroyed.

    A channel has a number of its own. A context gives that of its team.

    Raises: ValueError (destroyed), TypeError (no team, or None: not a member), NotInitialized.
    Example: ``team = shmem.team_number(pyshmem.TEAM_WORLD)``
    Extension.
    """
    return slot_of(team)


#: Kernels' names by their numbers: of those that have run, or been compiled, here.
_names: dict[int, str] = {}
_FIRST_KERNEL = 1 << 40  # above all numbers that other front ends give


def kernel_number(name: str) -> int:
    """The number that a kernel's faults carry. It follows from the name: kernels are cached."""
    digest = hashlib.blake2b(name.encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little") | _FIRST_KERNEL


def remember_kernel(name: str, text: str) -> int:
    """The same, and reports will say ``text``."""
    number = kernel_number(name)
    if number not in _names:
        _names[number] = text
        library.check(lib.ishmemx_name_set(lib.ISHMEMX_NAME_KERNEL, number, text.encode()))
    return number


def name_launch(number: int, text: str) -> None:
    """Reports say of a kernel's number ``text``, of this launch."""
    library.check(lib.ishmemx_name_set(lib.ISHMEMX_NAME_KERNEL, number, text.encode()))


_hook_before: Any = None


def _remember_compiled(**compiled: Any) -> None:
    """Triton says this of each kernel that it compiles, or finds compiled, before its first launch."""
    if _hook_before is not None:
        _hook_before(**compiled)
    kernel = getattr(compiled.get("fn"), "jit_function", None)
    if kernel is not None:
        remember_kernel(*describe_kernel(kernel.fn))


def compiling(name: str) -> AbstractContextManager[object]:
    """Of the PEs of a host one compiles a kernel: the others wait, and find it in Triton's files."""
    return kept_files.one_at_a_time(kept_files.folder() / f"triton-{name[:32]}")


def _name_kernels() -> None:
    """Reports of waits name kernels of GPUs, whose programs carry numbers."""
    global _hook_before
    if runtime.device_name() == "cuda":
        foreign.compile_one_at_a_time(compiling)
        _hook_before = foreign.after_compilation(_remember_compiled) or _hook_before


def _kernel_name(number: int) -> str | None:
    if number < _FIRST_KERNEL:
        return None
    if number not in _names:
        for kernel in gc.get_objects():  # rare: a fault is being told
            if isinstance(kernel, KernelInterface) and hasattr(kernel, "fn"):
                remember_kernel(*describe_kernel(kernel.fn))
    return _names.get(number, "of Triton")


def describe_kernel(function: Any) -> tuple[str, str]:
    """The name of a kernel, and what reports say: with the line where it is defined."""
    while not hasattr(function, "__code__"):  # autotuners and heuristics are around it
        function = function.fn
    code = function.__code__
    text = f"{function.__qualname__} ({Path(code.co_filename).name}:{code.co_firstlineno})"
    return f"{function.__module__}.{function.__qualname__}", text


# -- for the interpreter -----------------------------------------------------------------------------

_SIGN = {8: 1 << 63, 4: 1 << 31}
_ADD, _SWAP = (ATOMIC_OPS.index(op) for op in ("add", "swap"))
_UINT64 = ELEMENT_NUMBER["uint64"]

fence, now = lib.ishmemx_leaf_fence, lib.ishmemx_leaf_now
time_awake = lib.ishmemx_leaf_time_awake
kernel_ends = lib.ishmemx_sim_kernel_ends


def before_launch() -> None:
    """Raises what a kernel has recorded, and when kernels of this process cannot be interpreted."""
    if runtime.initialized():
        if runtime.device_name() == "cuda":
            raise ImportError(
                "the job runs on a GPU, but Triton was imported with its interpreter: "
                "unset TRITON_INTERPRET"
            )
        library.raise_pending_fault()


def address() -> int:
    """Of the running job's state block."""
    return _address


def is_running() -> bool:
    """Is there a job?"""
    return runtime.initialized()


def after_launch() -> None:
    """Raises what the kernel has recorded."""
    if runtime.initialized():
        library.raise_pending_fault()


def read(address: int, nbytes: int, signed: bool) -> int:
    """A word in memory, relaxed."""
    value: int = lib.ishmemx_leaf_load(address, nbytes)
    return value - 2 * _SIGN[nbytes] if signed and value & _SIGN[nbytes] else value


def write(address: int, value: int) -> None:
    """Stores a 64-bit word, relaxed."""
    lib.ishmemx_leaf_store(address, value, 8)


def release_set(address: int, value: int) -> None:
    """Stores a 64-bit word, with release."""
    lib.ishmemx_leaf_store_release(address, value & (1 << 64) - 1)


def release_add(address: int, value: int) -> None:
    """Adds to a 64-bit word, with release."""
    fence()
    lib.ishmemx_leaf_atomic(_ADD, _UINT64, address, value & (1 << 64) - 1, 0)


def record(claim: int, place: int, kind: int, values: tuple[int, ...]) -> None:
    """Keeps the first fault; ``values`` are the words of ``ishmemx_fault`` behind ``kind``."""
    if lib.ishmemx_leaf_atomic(_SWAP, _UINT64, claim, 1, 0):
        return
    for number, value in enumerate(values, 1):
        lib.ishmemx_leaf_store(place + 8 * number, value & (1 << 64) - 1, 8)
    release_set(place, kind)


def write_stage(
    buffer: int, begin_ns: int, kernel: int, block: int, label: str, priority: int
) -> None:
    """A stage of an interpreted program, which ends now; ``buffer`` 0: nobody wants it any more."""
    if buffer:
        stages.write(buffer, begin_ns, kernel, block, label_words(label), priority)


#: ``ring.tell``, for the interpreter's waits, on which the ring itself is built.
tellers: list[Callable[..., Any]] = []

_on_address: list[Callable[[int], None]] = []


def on_address(callback: Callable[[int], None]) -> None:
    """Call ``callback`` with the state block's address, now and when that or a setting changes."""
    _on_address.append(callback)
    if _address:
        callback(_address)


def settings() -> tuple[bool, bool, bool]:
    """Are all peers near, is the checking mode on, and do kernels write their stages?

    Without a job, as the settings have it.
    """
    all_p2p = library.setting_number("P2P")
    if runtime.initialized() and runtime.device_name() != "none":
        all_p2p = library.device_state()[lib.ISHMEMX_STATE_P2P]
    return bool(all_p2p), library.checks_args(), stages.compiled_in()


def _publish() -> None:
    global _address, _published
    if runtime.device_name() == "none":
        return
    address = library.ffi.new("int64_t *")
    library.check(lib.ishmemx_state_publish(address))
    known = (int(address[0]), *settings())
    if _published != known:
        _address, _published = known[0], known
        for callback in _on_address:
            callback(_address)


_forgotten: list[Any] = []  # kernels: captured graphs may still launch them


def _forget_compiled() -> None:
    """Kernels are compiled, or found on disk, by what ``settings`` says now: Triton refuses changes."""
    for function in gc.get_objects():
        if isinstance(function, JITCallable):
            function.hash = None
            function.used_global_vals = {}
            if isinstance(function, KernelInterface):
                _forgotten.append(dict(function.device_caches))
                function.device_caches.clear()


def _prepare_gpu() -> None:
    """Triton launches on this PE's GPU, and takes CuPy arrays as they are: it asks for ``data_ptr``."""
    if runtime.device_name() == "cuda":
        lend_data_ptr()
        if importlib.util.find_spec("torch") is not None:
            import torch  # Triton asks it for the current GPU and stream

            torch.cuda.set_device(runtime.current().gpu)


faults.add_kernel_namer(_kernel_name)
stages.on_change(_forget_compiled)
runtime.on_init(_prepare_gpu)
runtime.on_init(_name_kernels)
runtime.on_init(_publish)
runtime.on_state_change(_publish)
