# SPDX-License-Identifier: BSD-3-Clause
"""Collectives as relocatable machine code, which kernels call and nvJitLink links.

Of a routine whose LLVM text is in the store (``routine_texts.py``), all that it calls included, made for
one architecture and one limit of registers, and kept in a file beside the text. A kernel that calls it
costs its own compilation and a link. The collectives of a thread, a block and a grid: behind a call the
assembler takes a warp for converged, so those of a warp are inlined, as all else is.

The assembler gives functions that are linked registers by the usual convention: what a block of 1,024
threads saves at each call is 4 bytes a register and thread, and collectives of few bytes take four times
as long. So kernels inline them unless they are compiled for debugging, or the user chooses objects.
"""

from __future__ import annotations

import re
from typing import Any

from numba.cuda.cudadrv import nvrtc, nvvm

from ..._core import kept_files, library
from ..._core.errors import ShmemError
from ..._foreign import numba_cuda_texts as texts
from ..._foreign.numba_cuda_texts import TextLibrary
from ..leaf.ptx import MANY_REGISTERS, NO_BULK_COPIES, without_bulk_copies
from . import shipped
from .linking import libraries_of

_NAME = re.compile(
    r"(?:(?:and|or|xor|max|min|sum|prod)_reduce(?:_scatter)?|sum_(?:in|ex)scan|broadcast|f?collect"
    r"|alltoalls?|team_sync|sync_all|barrier_all)(?:_work_group|_grid)?"
)
#: As the choices of PYSHMEM_KERNEL_STORE.
_TEXT, _OBJECTS = 1, 2


def can_be_called(routine: str) -> bool:
    """Is it one of those that kernels call?"""
    return bool(_NAME.fullmatch(routine))


def registers_of(kernel: Any) -> int:
    """The limit of registers that a kernel has or gets; 0: none."""
    if kernel._max_registers:
        return int(kernel._max_registers)
    return library.setting_number("KERNEL_REGISTERS")


def called_by(kernel: Any) -> tuple[TextLibrary, ...]:
    """The routines that a kernel calls as machine code: its own code does not have their text.

    None of what is compiled without a launch, as by ``cuda.compile``: it must be whole. None when the
    kernel has no limit of registers, to which its callees would have to keep.
    """
    known = getattr(kernel, "pyshmem_called", None)
    if known is None:
        known = ()
        if not texts.is_of_kernel(kernel):
            return known
        # Called, collectives of few bytes take four times as long; what is debugged compiles at once.
        choice, debug = library.setting_number("KERNEL_STORE"), "g" in kernel._nvvm_options
        if (choice == _OBJECTS or (choice == _TEXT and debug)) and registers_of(kernel):
            roots = {one for one in libraries_of(kernel) if getattr(one, "called", False)}
            # What an inlined routine calls is there already, as text.
            inlined = set(map(id, libraries_of(kernel, roots)))
            outside = (one for one in roots if id(one) not in inlined)
            known = tuple(sorted(outside, key=lambda one: one.name))
        kernel.pyshmem_called = known
    return known


def texts_below(root: TextLibrary) -> list[str]:
    """Of an object, callers first."""
    return [one.text for one in libraries_of(root)]


def needs_many_registers(kernel: Any) -> bool:
    """Has the kernel, or what it calls, functions for which the number of registers is limited?"""
    own = any(MANY_REGISTERS in text for text in kernel.llvm_strs)
    return own or any(
        MANY_REGISTERS in text for one in called_by(kernel) for text in texts_below(one)
    )


def ptx_of(root: TextLibrary, cc: tuple[Any, ...], fastmath: bool, declines: bool) -> str:
    """PTX of an object, with the routine as a ``.visible .func``."""
    given = texts_below(root)
    given[0] = given[0].replace("define linkonce_odr ", "define ", 1)
    if declines:
        given = [without_bulk_copies(text) for text in given]
    made = nvvm.compile_ir(given, arch=nvrtc.get_arch_option(*cc), opt=3, fastmath=fastmath)
    return bytes(made).decode().strip("\x00").strip()


def object_of(root: TextLibrary, kernel: Any, cc: tuple[Any, ...]) -> bytes:
    """The machine code of a routine for a kernel: the package's, else made once on a host.

    Raises: ShmemError (nvJitLink refuses it).
    """
    fastmath = bool(kernel._nvvm_options.get("fastmath"))
    declines = any(NO_BULK_COPIES in text for text in kernel.llvm_strs)
    registers = registers_of(kernel)
    arch = "".join(map(str, cc))
    how = f"{'-fast' if fastmath else ''}{'-threads' if declines else ''}"
    came = shipped.object_of(f"{root.name}-sm{arch}-r{registers}{how}.cubin")
    if came is not None:
        return came
    name = f"{root.name}-{kept_files.origin()}-sm{arch}-r{registers}{how}.cubin"

    def make() -> kept_files.File:
        text = ptx_of(root, cc, fastmath, declines)
        try:
            code = texts.relocatable(text, f"sm_{arch}", registers)
        except Exception as error:
            raise ShmemError(f"assembling {root.routine} for sm_{arch}: {error}") from error
        return {"name": name}, code

    def use(file: kept_files.File) -> bytes | None:
        return file[1] if file[0].get("name") == name else None

    code = kept_files.kept(kept_files.folder() / "routines" / name, make, use)
    assert code is not None
    return code


def add_objects(kernel: Any, linker: Any, cc: tuple[Any, ...]) -> None:
    """Give the linker what the kernel calls."""
    for root in called_by(kernel):
        linker.add_cubin(object_of(root, kernel, cc), root.routine)
