# SPDX-License-Identifier: BSD-3-Clause
"""Keeps the state block of every loaded kernel filled, and raises what kernels recorded.

On a GPU each kernel is a module of its own with its own copy of the symbol, so the constructor of
Numba's modules is hooked: it sees kernels compiled now and kernels loaded from the on-disk cache. Word
MODULE is different in each copy and leads from a recorded fault to the kernel's name.
"""

from __future__ import annotations

import functools
import re
import weakref
from typing import Any

from .. import _lib, runtime
from . import _state
from ._backend import SIM, check_simulator_choice
from ._faults import describe_fault

_words: list[int] = [0] * _state.WORDS


def _kernel_name(symbol: str) -> str:
    """The Python name in a mangled entry point, ``_ZN8__main__5shiftB2v1...`` -> ``__main__.shift``."""
    parts = []
    place = symbol.find("_ZN") + 3
    while place > 2 and (match := re.match(r"\d+", symbol[place:])):
        start = place + match.end()
        place = start + int(match.group())
        parts.append(symbol[start:place])
    return ".".join(parts) or symbol


if SIM:
    from . import _leaf_sim, simulator

    def _push_all() -> None:
        _leaf_sim.STATE[:] = _words

    #: Kernels launched so far, by the number in word MODULE: a launch at a time, so one is current.
    _names: list[str] = []

    def _module_name(number: int) -> str:
        return _names[number] if number < len(_names) else "?"

    def _check_launch(kernel: str) -> None:
        _lib.raise_pending_fault()
        if kernel not in _names:
            _names.append(kernel)
        _leaf_sim.STATE[_state.MODULE] = _names.index(kernel)

    simulator.install()
    simulator.launch_checks.append(_check_launch)

else:
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import driver

    #: Loaded modules that carry the state symbol, by the number in their word MODULE.
    _modules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
    _names: dict[int, str] = {}

    def _driver_call(function: Any, *arguments: Any) -> Any:
        status, *results = function(*arguments)
        if status != driver.binding.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{function.__name__}: {status.name}")
        return results

    def _symbol_of(module: Any) -> int | None:
        """Device address of the module's state block; None when it does not use pyshmem."""
        get = driver.binding.cuLibraryGetGlobal
        status, pointer, nbytes = get(module.handle, _state.SYMBOL.encode())
        if status == driver.binding.CUresult.CUDA_SUCCESS:
            if nbytes != 8 * _state.WORDS:
                raise RuntimeError(f"{_state.SYMBOL} has {nbytes} bytes: clear Numba's kernel cache")
            return int(pointer)
        for version in range(1, _state.VERSION):
            old = _state.SYMBOL.replace(f"_v{_state.VERSION}", f"_v{version}").encode()
            if get(module.handle, old)[0] == driver.binding.CUresult.CUDA_SUCCESS:
                raise RuntimeError(
                    "this kernel was cached by another version of pyshmem: clear Numba's cache "
                    "(__pycache__ beside the script, or NUMBA_CACHE_DIR)"
                )
        return None

    def _push(number: int, module: Any) -> None:
        import numpy as np

        words = np.array(_words, np.int64)
        words[_state.MODULE] = number
        pointer = _symbol_of(module)
        _driver_call(driver.binding.cuMemcpyHtoD, pointer, words.ctypes.data, words.nbytes)

    def _push_all() -> None:
        for number, module in list(_modules.items()):
            _push(number, module)

    def _module_name(number: int) -> str:
        return _names.get(number, f"of module {number}")

    _construct = driver.CudaPythonModule.__init__

    @functools.wraps(_construct)
    def _construct_and_fill(self: Any, *args: Any, **kwargs: Any) -> None:
        _construct(self, *args, **kwargs)
        if _symbol_of(self) is not None:
            number = len(_names) + 1
            _modules[number] = self
            _names[number] = "?"
            self.pyshmem_module = number
            _push(number, self)

    driver.CudaPythonModule.__init__ = _construct_and_fill

    _launch = dispatcher._Kernel.launch

    @functools.wraps(_launch)
    def _launch_checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = self._codelibrary.get_cufunc().module
        number = getattr(module, "pyshmem_module", 0)
        if number:
            if _names[number] == "?":
                _names[number] = _kernel_name(self.entry_name)
            if not _words[_state.ABI]:
                raise _lib.not_initialized(f"kernel {_names[number]} uses pyshmem.device")
            _lib.raise_pending_fault()
        return _launch(self, *args, **kwargs)

    dispatcher._Kernel.launch = _launch_checked


def _format_fault(fault: dict[str, int]) -> str:
    return describe_fault(fault, _module_name(fault["module"]))


def _on_init() -> None:
    check_simulator_choice(runtime.device_name())
    if runtime.device_name() != "none":
        _words[:] = _lib.device_state()
        _push_all()


def _on_finalize() -> None:
    _words[:] = [0] * _state.WORDS
    _push_all()


_lib.set_fault_formatter(_format_fault)
runtime.on_init(_on_init)
runtime.on_finalize(_on_finalize)
