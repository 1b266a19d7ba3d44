# SPDX-License-Identifier: BSD-3-Clause
"""The state block in every loaded kernel, and the kernels' names, on a GPU.

Each kernel is a module of its own with its own copy of the state symbol, so the constructor of Numba's
modules is hooked: it sees kernels compiled now and kernels loaded from the on-disk cache. Word MODULE
is different in each copy and leads from a recorded fault to the kernel's name.
"""

import functools
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numba.cuda import codegen, dispatcher
from numba.cuda.cudadrv import driver

from ..._core import library
from ..state import ABI, MODULE, SYMBOL, WORDS, refuse_other_contracts

_words = np.zeros(WORDS, np.int64)
#: Loaded modules that carry the state symbol, and their kernels' names, by their word MODULE.
_modules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_names: dict[int, str] = {}


def push_all(words: list[int]) -> None:
    """Write the block into all loaded kernels, and remember it for those that load later."""
    _words[:] = words
    for number, module in list(_modules.items()):
        _push(number, module)


def kernel_name(number: int) -> str:
    """Name of the kernel whose word MODULE is ``number``, and where it is defined."""
    return _names.get(number, "?")


def _demangled(symbol: str) -> str:
    """The Python name in a mangled entry point: ``_ZN8__main__5shiftB2v1...`` is ``__main__.shift``."""
    parts = []
    place = symbol.find("_ZN") + 3
    while place > 2 and (match := re.match(r"\d+", symbol[place:])):
        start = place + match.end()
        place = start + int(match.group())
        parts.append(symbol[start:place])
    return ".".join(parts) or symbol


def _symbol_of(module) -> int | None:
    """Device address of the module's state block; None when it does not use pyshmem."""
    get, success = driver.binding.cuLibraryGetGlobal, driver.binding.CUresult.CUDA_SUCCESS
    status, pointer, nbytes = get(module.handle, SYMBOL.encode())
    if status == success:
        if nbytes != _words.nbytes:
            raise RuntimeError(f"{SYMBOL} has {nbytes} bytes: clear Numba's kernel cache")
        return int(pointer)
    refuse_other_contracts(module.object_code.code)
    return None


def _push(number: int, module) -> None:
    words = _words.copy()
    words[MODULE] = number
    (status,) = driver.binding.cuMemcpyHtoD(_symbol_of(module), words.ctypes.data, words.nbytes)
    if status != driver.binding.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"filling the state block of a kernel: {status.name}")


def _adopt(module) -> None:
    """Fill a module that was just loaded, if it uses pyshmem."""
    if _symbol_of(module) is not None:
        number = len(_names) + 1
        _modules[number], _names[number] = module, "?"
        module.pyshmem_module = number
        _push(number, module)


_LEGACY_STREAM = 1  # CU_STREAM_LEGACY; 0 is the same


def _name(number: int, kernel) -> None:
    """Cached kernels have their Python function from ``add_overload``, see ``install``."""
    name = _demangled(kernel.entry_name)
    if (function := getattr(kernel, "py_func", None)) is not None:
        code = function.__code__
        name += f" ({Path(code.co_filename).name}:{code.co_firstlineno})"
    _names[number] = name
    library.check(
        library.lib.ishmemx_name_set(library.lib.ISHMEMX_NAME_KERNEL, number, name.encode())
    )


#: Bytes of stack of the library's deepest calls; of those through ``rare`` the assembler does not know.
_RARE_BYTES = 896


def _reserve_stack(function) -> None:
    """For a kernel whose own part leaves too little of it for those calls."""
    limit, need = driver.binding.CUlimit.CU_LIMIT_STACK_SIZE, function.attrs.local + _RARE_BYTES
    if driver.driver.cuCtxGetLimit(limit) < need:
        driver.driver.cuCtxSetLimit(limit, need)


def _check_launch(kernel, stream) -> None:
    """Before a launch: is there a job, and has a kernel recorded a fault?"""
    function = kernel._codelibrary.get_cufunc()
    number = getattr(function.module, "pyshmem_module", 0)
    if number:
        if _names[number] == "?":
            _name(number, kernel)
            _reserve_stack(function)
        if not _words[ABI]:
            raise library.not_initialized(f"kernel {_names[number]} uses pyshmem.device")
        library.raise_pending_fault()
        handle = getattr(stream, "handle", stream)
        if int(getattr(handle, "value", handle) or 0) > _LEGACY_STREAM:
            library.lib.ishmemx_other_streams()


#: Registers with which a block of 1,024 threads still fits; and what tells that a kernel has the parts
#: of the library that would like more: the ring and the collectives of teams.
_REGISTERS = 64
_LARGE_PARTS = ("6device4ring8requests", "6device4team5flags")


def _limit_registers(library) -> None:
    """For kernels that have large parts and do not say ``max_registers`` themselves."""
    texts = [] if library._max_registers else library.llvm_strs
    if any(part in text for text in texts for part in _LARGE_PARTS):
        library._max_registers = _REGISTERS


def install() -> None:
    """Patch Numba: its modules when they load, its kernels when they are linked and launched."""
    construct, launch = driver.CudaPythonModule.__init__, dispatcher._Kernel.launch
    link, add_overload = codegen.CUDACodeLibrary.get_cubin, dispatcher.CUDADispatcher.add_overload

    @functools.wraps(link)
    def limit_and_link(self, *args, **kwargs):
        _limit_registers(self)
        return link(self, *args, **kwargs)

    @functools.wraps(construct)
    def construct_and_fill(self, *args, **kwargs) -> None:
        construct(self, *args, **kwargs)
        _adopt(self)

    @functools.wraps(launch)
    def check_and_launch(self, args, griddim, blockdim, stream: Any = 0, sharedmem: int = 0):
        _check_launch(self, stream)
        return launch(self, args, griddim, blockdim, stream, sharedmem)

    @functools.wraps(add_overload)
    def add_named_overload(self, kernel, argtypes):
        if not hasattr(kernel, "py_func"):
            kernel.py_func = self.py_func
        return add_overload(self, kernel, argtypes)

    codegen.CUDACodeLibrary.get_cubin = limit_and_link
    driver.CudaPythonModule.__init__ = construct_and_fill
    dispatcher._Kernel.launch = check_and_launch
    dispatcher.CUDADispatcher.add_overload = add_named_overload
