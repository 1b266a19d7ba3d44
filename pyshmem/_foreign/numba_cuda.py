# SPDX-License-Identifier: BSD-3-Clause
"""What of Numba's CUDA target is replaced and read. Seen in numba-cuda 0.30.4.

Importing this imports ``numba.cuda`` without its simulator.
"""

from __future__ import annotations

from numba.cuda import codegen, compiler, dispatcher
from numba.cuda.cudadrv import devices, driver

from .hooks import Hook

#: A kernel's code is linked, and loaded into the current context; the key of kernels on disk.
LINK = Hook(codegen.CUDACodeLibrary, "get_cubin", "self cc")
LOAD = Hook(codegen.CUDACodeLibrary, "get_cufunc", "self")
DISK_KEY = Hook(codegen.JITCUDACodegen, "magic_tuple", "self")
#: The LLVM modules of a library, for NVVM.
LLVM_MODULES = Hook(codegen.CUDACodeLibrary, "modules")
#: The driver has loaded a module.
LOADED = Hook(driver.CudaPythonModule, "__init__", "self context")
LAUNCH = Hook(dispatcher._Kernel, "launch", "self args griddim blockdim stream sharedmem")
#: A kernel, compiled or of the cache on disk, is known to its function.
ADD_OVERLOAD = Hook(dispatcher.CUDADispatcher, "add_overload", "self kernel argtypes")
#: The context of a thread that has none yet.
NEW_CONTEXT = Hook(devices._Runtime, "_get_or_create_context_uncached", "self devnum")
#: Frees are put off while it is true; an allocation that may find no memory.
FREES_DISABLED = Hook(driver._PendingDeallocs, "is_disabled")
ALLOCATE = Hook(driver.HostOnlyCUDAMemoryManager, "_attempt_allocation", "self allocator")

#: Compiles a function of Python: the library and the types of what it returns.
COMPILE = Hook(compiler, "_compile_pyfunc_with_fixup", "pyfunc sig")
compile_function = compiler._compile_pyfunc_with_fixup

HOOKS = (
    *(LINK, LOAD, DISK_KEY, LLVM_MODULES, LOADED, LAUNCH, ADD_OVERLOAD, NEW_CONTEXT),
    *(FREES_DISABLED, ALLOCATE, COMPILE),
)
