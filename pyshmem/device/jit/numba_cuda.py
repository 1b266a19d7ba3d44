# SPDX-License-Identifier: BSD-3-Clause
"""All that the library does to Numba on a GPU; the places are those of ``_foreign/numba_cuda.py``.

Each kernel is a module of its own with its own copy of the state symbol, so the constructor of Numba's
modules is hooked: it sees kernels compiled now and kernels loaded from the on-disk cache. Word MODULE
is different in each copy and leads from a recorded fault to the kernel's name.

A module is filled through a stream of our own that waits for no other, in the module's context and
beside any stream capture: a first launch neither waits for running kernels nor breaks a capture.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cuda.core.utils import StridedMemoryView
from numba.cuda import dispatcher
from numba.cuda.core import sigutils
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv import devices, driver

from ..._core import kept_files, library
from ..._core.arrays import checks as arrays
from ..._core.arrays import cupy_arrays
from ..._core.errors import ShmemError
from ..._foreign import numba_cuda as hooks
from ..._foreign import numba_cuda_texts as texts
from ...host.kernels import stream_kernels
from ...host.observe import stages
from ..leaf.cuda.stages import STAGES
from ..leaf.ptx import NO_BULK_COPIES, without_bulk_copies
from ..state import ABI, HEAP_BASE, HEAP_BYTES, MODULE, P2P, SYMBOL, WORDS
from . import routine_texts
from .cubin import refuse_other_contracts, stack_need
from .grid_barrier import without_library
from .linked_collectives import add_objects, called_by, needs_many_registers
from .linking import link_each_module_once, link_once_on_a_host, own_texts, with_state_word
from .running import Running, beside_captures, hold_frees

_LEGACY_STREAM = 1  # CU_STREAM_LEGACY; 0 is the same
_SUCCESS = driver.binding.CUresult.CUDA_SUCCESS


def _checked(result: tuple, doing: str) -> Any:
    """What a call of the driver returned, without its status."""
    status, *values = result
    if status != _SUCCESS:
        raise ShmemError(f"{doing}: {status.name}")
    return values[0] if values else None


@contextlib.contextmanager
def _current(context: Any) -> Iterator[None]:
    """``context``, one of Numba's, is this thread's."""
    binding = driver.binding
    pushed: list[tuple[Any, ...]] = []
    try:
        # One call, which keeps what came of it: no signal's exception comes between.
        pushed.extend(map(binding.cuCtxPushCurrent, (context.handle,)))
        _checked(pushed[0], "making a context current")
        yield
    finally:
        if pushed and pushed[0][0] == _SUCCESS:
            binding.cuCtxPopCurrent()


class Integration:
    """Adopts modules when they load, fills their state blocks, and checks launches."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._words = np.zeros(WORDS, np.int64)
        self._gpu = -1
        self._links = 0  # the word P2P of the last job
        self._numbers = itertools.count(1)
        #: Loaded modules that carry the state symbol, and their kernels' names, by their word MODULE.
        self._modules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._names: dict[int, str] = {}
        self._streams: dict[int, Any] = {}  # by GPU: where state blocks are filled
        self._other_streams = False
        self.running = Running()
        #: Kernels that call nothing of the library, on streams which the default stream is not told of.
        self.others = Running()

    # -- state blocks ------------------------------------------------------------------------------

    def push(self, words: list[int], gpu: int) -> None:
        """Write the block into all loaded kernels, and remember it for those that load later.

        Kernels that run are waited for: they see one block from begin to end. ``gpu``: the PE's.
        """
        self.running.wait()
        with self._lock:
            if self._links and self._links != words[P2P]:
                _forget_kernels(_calls_routines)  # they were compiled for a job with other links
            self._links = words[P2P]
            self._words[:] = words
            self._gpu = gpu
            for number, module in list(self._modules.items()):
                self._fill(number, module)

    def forget(self) -> None:
        """The job is over: its kernels find no state, and launches say so."""
        with self._lock:
            self._words[:] = 0
            # After an error of CUDA nothing can be written any more, nor can a kernel run that would
            # read it; the user has an exception that says more.
            with contextlib.suppress(ShmemError):
                for number, module in list(self._modules.items()):
                    self._fill(number, module)
            self._gpu = -1
            self._other_streams = self.running.captured = False
            library.lib.ishmemx_other_streams_done()

    def links(self) -> int:
        """The word P2P of this job, for which kernels are compiled; 0 without one."""
        return int(self._words[P2P])

    def kernel_name(self, number: int) -> str:
        """Name of the kernel whose word MODULE is ``number``, and where it is defined."""
        return self._names.get(number, "?")

    def adopt(self, module: Any) -> None:
        """Fill a module that was just loaded, if it uses pyshmem, and load its kernels for good.

        Loading waits for the kernels that run, so it must not be left to the first launch.
        """
        with _current(module.context):
            if _symbol_of(module) is None:
                return
            _load_kernels(module.handle)
            _reserve_stack(bytes(module.object_code.code))
            with self._lock:
                module.pyshmem_module = number = next(self._numbers)
                self._modules[number], self._names[number] = module, "?"
                self._fill(number, module)

    def _fill(self, number: int, module: Any) -> None:
        gpu = module.context.device.id
        if gpu != self._gpu:
            return  # a kernel on another GPU than the PE's; its launch is refused
        words = self._words.copy()
        words[MODULE] = number
        binding, doing = driver.binding, "filling the state block of a kernel"
        with _current(module.context), beside_captures():
            if gpu not in self._streams:
                flags = binding.CUstream_flags.CU_STREAM_NON_BLOCKING.value
                self._streams[gpu] = _checked(binding.cuStreamCreate(flags), doing)
            stream, where = self._streams[gpu], _symbol_of(module)
            if where is None:
                raise ShmemError(f"{doing}: its module is gone")
            copy = binding.cuMemcpyHtoDAsync(where, words.ctypes.data, words.nbytes, stream)
            _checked(copy, doing)
            _checked(binding.cuStreamSynchronize(stream), doing)

    # -- launches ----------------------------------------------------------------------------------

    def before_launch(
        self, number: int, kernel: Any, function: Any, args: Any, stream: int
    ) -> None:
        """Is there a job, on this GPU? Has a kernel recorded a fault? Are the arrays still there?"""
        if self._names[number] == "?":
            self._name(number, kernel)
        name = self._names[number]
        if not self._words[ABI]:
            raise library.not_initialized(f"kernel {name} uses pyshmem.device")
        if (gpu := function.module.context.device.id) != self._gpu:
            raise ShmemError(
                f"kernel {name} was launched on GPU {gpu}, but this PE drives GPU {self._gpu}: call "
                f"numba.cuda.select_device({self._gpu}) in this thread, or what your array library "
                "has for it, before anything else of CUDA"
            )
        library.raise_pending_fault()
        for position, argument in enumerate(args):
            if why := _gone(argument):
                raise ValueError(f"argument {position} of kernel {name} cannot be used: {why}")
        self._note_stream(stream)

    def _note_stream(self, stream: int) -> None:
        """Whether all kernels have finished can be asked for the default stream, not for others."""
        if stream > _LEGACY_STREAM:
            if not self._other_streams:
                self._other_streams = True
                library.lib.ishmemx_other_streams()
        elif self._other_streams and not (self.running.captured or self.running.any()):
            self._other_streams = False
            library.lib.ishmemx_other_streams_done()

    def _name(self, number: int, kernel: Any) -> None:
        """Cached kernels have their Python function from ``_naming``."""
        function = kernel.py_func
        code = function.__code__
        name = f"{function.__module__}.{function.__qualname__.replace('<locals>.', '')}"
        name += f" ({Path(code.co_filename).name}:{code.co_firstlineno})"
        self._names[number] = name
        kind = library.lib.ISHMEMX_NAME_KERNEL
        library.check(library.lib.ishmemx_name_set(kind, number, name.encode()))

    def launch(self, plain: Callable[..., Any], kernel: Any, args: Any, *shape: Any) -> Any:
        """Numba's launch, behind the checks; ``shape``: grid, block, stream, shared memory."""
        with beside_captures():  # the first launch of a cached kernel loads it
            function = kernel._codelibrary.get_cufunc()
        number = getattr(function.module, "pyshmem_module", 0)
        handle = getattr(shape[2], "handle", shape[2])
        stream = int(getattr(handle, "value", handle) or 0)
        if not number:
            if stream <= _LEGACY_STREAM:
                return plain(kernel, args, *shape)
            with self.others.launch(stream):
                return plain(kernel, args, *shape)
        self.before_launch(number, kernel, function, args, stream)
        if self.running.forbids_waits(stream):
            args = tuple(map(self._as_it_is, args))
        with self.running.launch(stream):
            return plain(kernel, args, *shape)

    def _as_it_is(self, argument: Any) -> Any:
        """An array of the device heap in a form for which Numba has the launch wait for nothing.

        From arrays of CuPy and torch it asks for the order of DLPack: the launch waits for the stream
        that is current in their library, which is the default stream mostly.
        """
        address = getattr(getattr(argument, "data", None), "ptr", None)
        if address is None and hasattr(argument, "__dlpack__"):
            address = getattr(argument, "data_ptr", int)()
        base, nbytes = int(self._words[HEAP_BASE]), int(self._words[HEAP_BYTES])
        if not address or not base <= address < base + nbytes:
            return argument
        return StridedMemoryView.from_dlpack(argument, stream_ptr=-1)

    # -- contexts and compilation ------------------------------------------------------------------

    def context_of_thread(self, plain: Callable[..., Any], runtime: Any, number: Any) -> Any:
        """Numba's context for a thread that has none yet: the PE's GPU, not GPU 0."""
        if self._gpu > 0 and number is None:
            with runtime._lock, driver.driver.get_active_context() as active:
                if not active:
                    return runtime._activate_context_for(self._gpu)
        return plain(runtime, number)

    def install(self) -> None:
        """Patch Numba: its contexts, its modules when they load, its kernels when they are linked."""
        hooks.LINK.wrap(_prepared)
        hooks.LOAD.wrap(_locked)
        hooks.DISK_KEY.wrap(_with_ours)
        hooks.LOADED.wrap(self._adopting)
        hooks.LAUNCH.wrap(self._checking)
        hooks.ADD_OVERLOAD.wrap(_naming)
        hooks.NEW_CONTEXT.wrap(self._of_pe)
        link_each_module_once(called_by)
        texts.choose_device_functions(routine_texts.take)
        texts.add_to_links(add_objects)
        texts.look_at_own_ptx_alone(own_texts)
        hold_frees(self.running)

    def _adopting(self, construct: Callable[..., None]) -> Callable[..., None]:
        """Of the constructor of Numba's modules."""

        def construct_and_adopt(module: Any, *args: Any, **kwargs: Any) -> None:
            with beside_captures():
                construct(module, *args, **kwargs)
                self.adopt(module)

        return construct_and_adopt

    def _checking(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        def check_and_launch(kernel, args, griddim, blockdim, stream: Any = 0, sharedmem: int = 0):
            return self.launch(launch, kernel, args, griddim, blockdim, stream, sharedmem)

        return check_and_launch

    def _of_pe(self, context: Callable[..., Any]) -> Callable[..., Any]:
        def context_of_pe(runtime: Any, number: Any) -> Any:
            return self.context_of_thread(context, runtime, number)

        return context_of_pe

    def prepare(self, kernel: Any, args: tuple) -> None:
        """Compile a kernel for these arguments, or this signature, and load it."""
        if not isinstance(kernel, dispatcher.CUDADispatcher):
            raise TypeError(f"kernel is {kernel!r}, which is not a function under numba.cuda.jit")
        with beside_captures():
            if len(args) == 1 and sigutils.is_signature(args[0]):
                types, _ = sigutils.normalize_signature(args[0])
            else:
                types = tuple(kernel.typeof_pyval(argument) for argument in args)
            kernel.compile(tuple(types)).bind()


#: Kernels that were forgotten: captured graphs may still launch them.
_forgotten: list[Any] = []


def forget_labelled() -> None:
    """Kernels and device functions with labels of stages are compiled again when they are next used."""
    _forget_kernels(_labelled)


def _forget_kernels(which: Callable[[Any], bool]) -> None:
    """Those of which one of the overloads is such."""
    for owner in gc.get_objects():
        if isinstance(owner, dispatcher.CUDADispatcher) and any(
            map(which, owner.overloads.values())
        ):
            _forgotten.extend(owner.overloads.values())
            owner._reset_overloads()


def _labelled(overload: Any) -> bool:
    code = getattr(overload, "_codelibrary", None) or getattr(overload, "library", None)
    return code is not None and any(STAGES in text for text in code.llvm_strs)


def _calls_routines(overload: Any) -> bool:
    code = getattr(overload, "_codelibrary", None)  # none: it is a device function
    return code is not None and any(SYMBOL in text for text in code.llvm_strs)


def _symbol_of(module: Any) -> int | None:
    """Device address of the module's state block; None when it does not use pyshmem."""
    get = driver.binding.cuLibraryGetGlobal
    status, pointer, nbytes = get(module.handle, SYMBOL.encode())
    if status == _SUCCESS:
        if nbytes != 8 * WORDS:
            raise RuntimeError(f"{SYMBOL} has {nbytes} bytes: clear Numba's kernel cache")
        return int(pointer)
    refuse_other_contracts(module.object_code.code)
    return None


def _prepared(link: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_and_link(code_library: Any, cc: Any = None) -> Any:
        links = integration.links() if texts.is_of_kernel(code_library) else 0
        prepare_link(code_library, links)
        cc, called = code_library._ensure_cc(cc), called_by(code_library)
        without_library(code_library, called)
        return link_once_on_a_host(code_library, called, cc, links, lambda: link(code_library, cc))

    return prepare_and_link


def _with_ours(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """The key of kernels on disk: they hold device routines, with labels of stages or without."""

    def key_with_ours(generator: Any) -> tuple[Any, ...]:
        ours = kept_files.origin(), library.setting_number("KERNEL_STORE"), stages.compiled_in()
        return (*key(generator), *ours, integration.links())

    return key_with_ours


def _naming(add_overload: Callable[..., Any]) -> Callable[..., Any]:
    """Kernels of the cache on disk get the function that they are made of."""

    def add_named_overload(owner: Any, kernel: Any, argtypes: Any) -> Any:
        kernel.py_func = owner.py_func
        return add_overload(owner, kernel, argtypes)

    return add_named_overload


def _locked(load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Numba's ``get_cufunc``, by which launches, ``bind`` and queries get a kernel, for several threads.

    It looks whether the kernel is loaded, loads it and notes it without a lock: two threads would load
    one kernel, of the cache on disk, that was compiled by neither. The lock is Numba's of compilations,
    which a compilation holds while it loads. It comes before the integration's, which ``adopt`` takes
    within a load; nobody who holds that loads. A kernel that is loaded costs no lock.
    """

    def get_cufunc(code_library: Any) -> Any:
        known = code_library._cufunc_cache
        if known and (function := known.get(devices.get_context().device.id)):
            return function
        name, instead = code_library._entry_name, "call pyshmem.device.prepare(kernel, *arguments)"
        with (
            global_compiler_lock,
            stream_kernels.telling(f"kernel {name}, which is loaded,", instead),
        ):
            return load(code_library)

    return get_cufunc


def _load_kernels(handle: Any) -> None:
    """The driver loads a kernel's code at its first launch, unless it is asked to before."""
    binding, doing = driver.binding, "loading a kernel"
    count = _checked(binding.cuLibraryGetKernelCount(handle), doing)
    for kernel in _checked(binding.cuLibraryEnumerateKernels(count, handle), doing):
        _checked(binding.cuFuncLoad(_checked(binding.cuKernelGetFunction(kernel), doing)), doing)


def _reserve_stack(code: bytes) -> None:
    """Raise the context's limit for what the assembler does not know of; never lower it."""
    limit, need = driver.binding.CUlimit.CU_LIMIT_STACK_SIZE, stack_need(code)
    if driver.driver.cuCtxGetLimit(limit) < need:
        driver.driver.cuCtxSetLimit(limit, -(-need // 16) * 16)


def prepare_link(code_library: Any, links: int = 0) -> None:
    """What a kernel's library is told before it is linked; ``links``: the job's word P2P, if known."""
    _limit_registers(code_library)
    if not code_library._entry_name:
        return
    if any(NO_BULK_COPIES in text for text in code_library.llvm_strs):
        _rewrite(code_library, without_bulk_copies)
    if links and not code_library._cubin_cache:
        _rewrite(code_library, lambda text: with_state_word(text, P2P, links))


def _limit_registers(code_library: Any) -> None:
    """For kernels with functions that take many and do not say ``max_registers`` themselves."""
    if code_library._max_registers or not code_library._entry_name:
        return
    if needs_many_registers(code_library):
        code_library._max_registers = library.setting_number("KERNEL_REGISTERS") or None


def _rewrite(code_library: Any, change: Callable[[str], str]) -> None:
    """Texts of a kernel as ``change`` has them: a choice for the kernel, not for the functions in it."""
    code_library._llvm_strs = [change(text) for text in code_library.llvm_strs]
    code_library._ptx_cache.clear()
    code_library._ltoir_cache.clear()


def _gone(argument: Any) -> str:
    """Why an array, what ``as_argument`` made of one, or one in a tuple, can not be used, or no more."""
    if isinstance(argument, (int, float, np.generic)):
        return ""
    if isinstance(argument, tuple):
        return next(filter(None, map(_gone, argument)), "")
    if isinstance(argument, np.ndarray):  # of the pinned host heap, where there is no P2P
        return arrays.gone(argument) or ("" if arrays.pinned else arrays.beyond_kernels(argument))
    memory = getattr(argument, "gpu_data", None)
    return cupy_arrays.gone(argument if memory is None else getattr(memory, "owner", None))


integration = Integration()
