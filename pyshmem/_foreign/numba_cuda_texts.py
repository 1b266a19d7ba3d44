# SPDX-License-Identifier: BSD-3-Clause
"""Device functions that Numba calls without having compiled them: their LLVM text is at hand.

Reaches into numba-cuda: ``dispatcher.compile_cuda``, ``CUDACompileResult``, ``FunctionDescriptor``, and
what a kernel's ``CUDACodeLibrary`` asks of the libraries that it links, ``driver.ObjectCode``. Seen in
numba-cuda 0.30.4.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from importlib import metadata
from typing import Any

from cuda.bindings import nvjitlink
from llvmlite import ir
from numba.cuda import codegen, compiler, dispatcher
from numba.cuda.core import config, funcdesc
from numba.cuda.cudadrv import driver, nvvm
from numba.cuda.descriptor import cuda_target
from numba.cuda.target import CUDACallConv
from numba.cuda.typing import signature

from .hooks import Hook

Compile = Callable[[], Any]
#: Asked for each device function, with the types of its arguments and Numba's options, what to take for
#: it: what the last argument compiles, or something else of the kind.
Chooser = Callable[[Any, tuple[Any, ...], dict[str, Any], Compile], Any]

#: Compiles a kernel, for which it is told what it returns, or a device function.
COMPILE_DEVICE = Hook(dispatcher, "compile_cuda", "pyfunc return_type args")
#: Gives a linker all that a kernel is made of.
LINK_ALL = Hook(codegen.CUDACodeLibrary, "_link_all", "self linker cc ignore_nonlto")
LINKER_ADD = Hook(driver._Linker, "add_cubin", "self cubin name")
#: A library takes what it reads of another; how a compiled function is described.
ADD_LIBRARY = Hook(codegen.CUDACodeLibrary, "add_linking_library", "self library")
DESCRIPTOR = Hook(
    funcdesc.FunctionDescriptor,
    "__init__",
    "self native modname qualname unique_name doc typemap restype calltypes args kws",
)
RESULT_FIELDS = Hook(compiler, "CR_FIELDS")
#: A kernel is made, and looks in its PTX for functions for which files have to be linked.
KERNEL = Hook(dispatcher._Kernel, "__init__", "self py_func argtypes")
ASM = Hook(codegen.CUDACodeLibrary, "get_asm_str", "self cc")

HOOKS = (
    *(COMPILE_DEVICE, LINK_ALL, LINKER_ADD, ADD_LIBRARY, DESCRIPTOR, RESULT_FIELDS),
    *(KERNEL, ASM),
)


class _Module:
    """What Numba asks of an LLVM module: its text. Its functions have the linkage that they need."""

    functions = ()

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


class TextLibrary:
    """Stands for Numba's library of one device function; ``calls``: the libraries of its callees.

    ``called``: kernels call it as machine code, under the name of its ``routine``.
    """

    called = False
    routine = ""

    def __init__(self, name: str, text: str, calls: tuple[TextLibrary, ...]) -> None:
        self.name, self.text = name, text
        self.modules = [_Module(text)]
        #: For a kernel with ``debug=True``: NVVM compiles its modules one by one, and keeps these.
        self.lone_modules = [_Module(text.replace("define linkonce_odr ", "define weak_odr ", 1))]
        self.use_cooperative = False
        self.referenced_objects: dict[int, Any] = {}
        self._linking_libraries = frozenset(calls)
        self._linking_files: frozenset[Any] = frozenset()
        self._setup_functions: tuple[Any, ...] = ()
        self._teardown_functions: tuple[Any, ...] = ()

    @property
    def linking_libraries(self) -> list[TextLibrary]:
        """All that it calls, each once."""
        found: dict[str, TextLibrary] = {}
        for each in self._linking_libraries:
            for one in (*each.linking_libraries, each):
                found.setdefault(one.name, one)
        return list(found.values())

    @property
    def llvm_strs(self) -> list[str]:
        """Its text, and that of all that it calls."""
        return [self.text, *(one.text for one in self.linking_libraries)]

    def _ensure_finalized(self) -> None:
        """It is as it was made."""


def self_contained(library: Any) -> bool:
    """Is the code of this library all that it needs: no files to link, no arrays of the host?"""
    return not (library._linking_files or library._setup_functions or library.referenced_objects)


def links_as_it_is(library: Any) -> bool:
    """Is a kernel made of its text alone, and does nobody want to read what the linker reads?"""
    return self_contained(library) and not (library._teardown_functions or config.DUMP_ASSEMBLY)


def machine_code(code: bytes, name: str) -> Any:
    """What a kernel's library keeps as the outcome of its link."""
    return driver.ObjectCode.from_cubin(code, name=name)


def result_of(
    name: str, returns: Any, arguments: tuple[Any, ...], function: Any, library: Any
) -> Any:
    """The result of compiling ``function`` for these types; its code is ``name`` in ``library``."""
    context = cuda_target.target_context
    describes = funcdesc.FunctionDescriptor(
        native=True, modname=function.__module__, qualname=function.__qualname__, unique_name=name,
        doc="", typemap=None, restype=returns, calltypes=None,
        args=[f"a{position}" for position in range(len(arguments))], kws=(), argtypes=arguments,
        call_conv=CUDACallConv(context), abi_info={"abi_name": name},
    )  # fmt: skip
    fields = dict.fromkeys(compiler.CR_FIELDS) | {
        "typing_context": cuda_target.typing_context,
        "target_context": context,
        "signature": signature(returns, *arguments),
        "objectmode": False,
        "lifted": (),
        "fndesc": describes,
        "library": library,
        "metadata": {},
    }
    return compiler.CUDACompileResult(**fields)


def choose_device_functions(choose: Chooser) -> None:
    """From now on ``choose`` is asked for each device function that Numba would compile."""
    compile_cuda = dispatcher.compile_cuda

    def compile_or_take(
        function: Any, returns: Any, arguments: tuple[Any, ...], **options: Any
    ) -> Any:
        def compile_it() -> Any:
            return compile_cuda(function, returns, arguments, **options)

        if returns is not None:  # a kernel
            return compile_it()
        return choose(function, arguments, options, compile_it)

    dispatcher.compile_cuda = compile_or_take


def add_to_links(add: Callable[[Any, Any, tuple[Any, ...]], None]) -> None:
    """``add`` is called with a kernel's library, its linker and the architecture, before each link."""

    def adding(link_all: Callable[..., None]) -> Callable[..., None]:
        def link_all_and_more(
            library: Any, linker: Any, cc: Any, ignore_nonlto: bool = False
        ) -> None:
            link_all(library, linker, cc, ignore_nonlto)
            if not ignore_nonlto:  # else only what link-time optimisation sees is asked for
                add(library, linker, cc)

        return link_all_and_more

    LINK_ALL.wrap(adding)


_making = threading.local()


def is_of_kernel(library: Any) -> bool:
    """Is it made, or was it, for a kernel that is launched? Else its text may go anywhere."""
    return bool(getattr(_making, "depth", 0) or getattr(library, "pyshmem_launched", False))


def look_at_own_ptx_alone(own_texts: Callable[[Any], list[str]]) -> None:
    """A kernel that is made looks for files to link in the PTX of ``own_texts(library)``.

    With link-time optimisation this PTX serves for nothing else, and takes NVVM as long as the code that
    is linked. Routines that are there as texts need no files, see ``self_contained``.
    """

    def telling(init: Callable[..., None]) -> Callable[..., None]:
        def make(kernel: Any, *args: Any, **options: Any) -> None:
            _making.depth = getattr(_making, "depth", 0) + 1
            try:
                init(kernel, *args, **options)
                kernel._codelibrary.pyshmem_launched = True
            finally:
                _making.depth -= 1

        return make

    def shortening(get: Callable[..., str]) -> Callable[..., str]:
        def asm(library: Any, cc: Any = None) -> str:
            if not getattr(_making, "depth", 0) or not library._lto:
                return get(library, cc)
            whole, library._llvm_strs = library._llvm_strs, own_texts(library)
            try:
                return get(library, cc)
            finally:
                library._llvm_strs = whole
                library._ptx_cache.clear()

        return asm

    KERNEL.wrap(telling)
    ASM.wrap(shortening)


@functools.cache
def dialect() -> str:
    """What texts are written in: NVVM's LLVM and layout, how pointers are written, Numba's calls.

    How functions are called and arrays are passed is one within a minor version of numba-cuda.
    """
    own = nvvm.NVVM()
    pointer = ir.PointerType(ir.IntType(8))
    series = ".".join(metadata.version("numba-cuda").split(".")[:2])
    return f"{own.get_ir_version()} {own.data_layout} {pointer} {series}"


def ir_version() -> tuple[int, ...]:
    """What a module for NVVM says that it is written in."""
    return tuple(nvvm.NVVM().get_ir_version())


def linker_version() -> tuple[int, int]:
    """Of nvJitLink."""
    major, minor = nvjitlink.version()
    return int(major), int(minor)


def root_name(result: Any) -> str:
    """The name that a compiled function has in its library."""
    return str(result.fndesc.llvm_func_name)


def texts_of(library: Any) -> list[str]:
    """LLVM text of a library's modules, and of all that it calls."""
    return list(library.llvm_strs)


def relocatable(ptx: str, arch: str, registers: int) -> bytes:
    """PTX as machine code that can be linked to a kernel with this limit of registers.

    Raises: what nvJitLink's bindings raise, with its log.
    """
    code, options = ptx.encode(), [f"-arch={arch}", "-r", f"-maxrregcount={registers}"]
    handle = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "routine")
        nvjitlink.complete(handle)
        made = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, made)
    except Exception as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise RuntimeError(f"{error}: {log.decode(errors='replace')}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(made)
