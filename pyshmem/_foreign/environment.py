# SPDX-License-Identifier: BSD-3-Clause
"""What pyshmem asks of NumPy, Numba and CuPy, arranged before they are used.

Nothing outside the process sees it: no environment variable is set, so programs that this one starts
find Numba as it is, and NumPy gets no name that stays. A few modules of Numba and Triton are met
while they are imported, whenever and by whomever that is.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

#: Whether Numba, when it is imported, is to take its simulator.
_simulator = False
#: Whether kernels of the simulator are compiled for the CPU, not interpreted.
_compiled = False

_VARIABLE = "NUMBA_ENABLE_CUDASIM"
#: What asks Triton for its interpreter, and where it keeps that choice.
_INTERPRETER_VARIABLE, _KNOBS = "TRITON_INTERPRET", "triton.knobs"
#: Where Numba keeps that choice. numba-cuda has a module of its own, which beside Numba is the same.
_CONFIGS = ("numba.core.config", "numba.cuda.core.config")


def has_module(name: str) -> bool:
    """Whether ``name`` could be imported; it is not."""
    return name in sys.modules or importlib.util.find_spec(name) is not None


def has_compiler() -> bool:
    """Whether a compiler of kernels is there, Numba or Triton."""
    return has_module("numba") or has_module("triton")


def may_have_gpu() -> bool:
    """Whether this machine has an NVIDIA driver, without asking the driver."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def simulator_requested() -> bool:
    """Whether Numba runs kernels in its simulator, or will once it is imported."""
    for config in _loaded_configs():
        return bool(getattr(config, "ENABLE_CUDASIM", 0))
    return _simulator or os.environ.get(_VARIABLE, "0") not in ("", "0")


def compiles_for_cpu() -> bool:
    """Whether kernels without a GPU are compiled (device cpu), not interpreted."""
    return _compiled and simulator_requested()


def arrange_simulator(device: str) -> None:
    """Let Numba take its simulator where kernels cannot run on a GPU.

    Numba chooses once, when ``numba.cuda`` is imported, by ``NUMBA_ENABLE_CUDASIM``. Where the user
    has not set that variable and ``numba.cuda`` is not there yet, it finds a choice made here: the
    simulator when ``device`` is ``"sim"`` or ``"cpu"``, or is ``"auto"`` on a machine without an NVIDIA
    driver. With ``"cpu"`` kernels are compiled: of the simulator there is then only what hosts call.
    """
    global _simulator, _compiled
    if device == "cpu" and "pyshmem.device" not in sys.modules:
        _compiled = True
    if _simulator or _VARIABLE in os.environ or "numba.cuda" in sys.modules:
        return
    _simulator = device in ("sim", "cpu") or (device == "auto" and not may_have_gpu())
    if _simulator:
        for config in _loaded_configs():
            _set_simulator(config)


def _loaded_configs() -> list[ModuleType]:
    return [sys.modules[name] for name in _CONFIGS if name in sys.modules]


Execution = Callable[[ModuleType], None]


def _choose_simulator(execute: Execution, module: ModuleType) -> None:
    """Execute a module of Numba's settings and add the choice that has been made."""
    execute(module)
    if _simulator:
        _set_simulator(module)


def _set_simulator(module: ModuleType) -> None:
    """Add the simulator to the variables that a module of Numba's settings reads.

    Numba reads them again whenever one of them has changed, so the choice stands where it reads them
    and not in their result. Variables of the user, which it reads from ``environ``, count for more.
    """
    settings: Any = getattr(module, "_env_reloader", None)
    if settings is None:
        vars(module)["ENABLE_CUDASIM"] = 1
        return
    process = settings.process_environ
    settings.process_environ = lambda environ: process({_VARIABLE: "1", **environ})
    settings.update(force=True)


def _choose_interpreter(execute: Execution, module: ModuleType) -> None:
    """Execute Triton's settings; kernels are interpreted where Numba's are simulated.

    Triton asks whenever a kernel is defined, its own functions when it is imported.
    """
    execute(module)
    if _simulator and _INTERPRETER_VARIABLE not in os.environ:
        vars(module)["runtime"].interpret = True


def _lend_row_stack(execute: Execution, module: ModuleType) -> None:
    """Execute numba-cuda's array functions, which name ``np.row_stack``; NumPy 2.5 has dropped it."""
    names: dict[str, Any] = np.__dict__
    if "row_stack" in names:
        execute(module)
        return
    names["row_stack"] = np.vstack
    try:
        execute(module)
    finally:
        del names["row_stack"]


def _do_without_libcudart(execute: Execution, module: ModuleType) -> None:
    """Execute numba-cuda's debug information, which asks libcudart for its version.

    It does so for kernels in the simulator too, which need no CUDA: where the library is not there, the
    version is 0.
    """
    if not simulator_requested():
        execute(module)
        return
    runtime: Any = importlib.import_module("cuda.bindings.runtime")
    ask = runtime.getLocalRuntimeVersion

    def version() -> tuple[Any, int]:
        try:
            answer: tuple[Any, int] = ask()
        except RuntimeError:  # of cuda.pathfinder: no such library
            return None, 0
        return answer

    runtime.getLocalRuntimeVersion = version
    try:
        execute(module)
    finally:
        runtime.getLocalRuntimeVersion = ask


def _without_collector(execute: Execution, module: ModuleType) -> None:
    """Execute what makes a hundred thousand objects that stay: the collector walks none of them."""
    enabled = gc.isenabled()
    try:
        gc.disable()
        execute(module)
    finally:
        if enabled:
            gc.enable()


def _settle(execute: Execution, module: ModuleType) -> None:
    """Execute the device part; without a GPU, what is there then is kept from the collector for good.

    As it is before a fork: each of its walks, and those at the end of the process, would take longer
    than most programs of the simulator do.
    """
    _without_collector(execute, module)
    if simulator_requested():
        gc.freeze()


def lend_data_ptr() -> None:
    """Give CuPy's arrays what Triton asks arguments for. Imports CuPy."""
    import cupy

    if not hasattr(cupy.ndarray, "data_ptr"):
        cupy.ndarray.data_ptr = lambda array: array.data.ptr


class _NumbaImports(importlib.abc.MetaPathFinder):
    """Finds the modules that need something, as the other finders do, and adds it."""

    needs = dict.fromkeys(_CONFIGS, _choose_simulator) | {
        "numba.cuda.np.arrayobj": _lend_row_stack,
        "numba.cuda.debuginfo": _do_without_libcudart,
        _KNOBS: _choose_interpreter,
        "numba": _without_collector,
        "numba.cuda": _without_collector,
        "pyshmem.device": _settle,
    }

    def __init__(self) -> None:
        #: Set while the other finders are asked: that of numba-cuda asks all, this one among them.
        self._asking = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.needs or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = next(filter(None, self._answers(name, path, target)), None)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            execute, need = spec.loader.exec_module, self.needs[name]
            # On this module's own loader, which in all else stays what tools expect.
            vars(spec.loader)["exec_module"] = lambda module: need(execute, module)
        return spec

    def _answers(self, name: str, path: Any, target: Any) -> Any:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                yield finder.find_spec(name, path, target)


sys.meta_path.insert(0, _NumbaImports())
