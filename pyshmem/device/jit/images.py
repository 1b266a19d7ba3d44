# SPDX-License-Identifier: BSD-3-Clause
"""Machine code of a kernel, made by Numba without a launch.

It is compiled as a launch would, for one architecture. The native library loads it, fills its state
block and launches it: the kernels for streams, which ``stream_kernels/table.py`` describes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba.cuda import types

from ..._foreign.numba_cuda import compile_function
from .cubin import stack_need

#: Of a block at most: the assembler keeps to the registers that such a block may have.
MAX_THREADS = 512
_BOUNDS = (MAX_THREADS, 1)


class Image(NamedTuple):
    """``stack``: bytes of it that a thread needs, calls by address included."""

    code: bytes
    entry: str
    stack: int


def image_of(kernel: Any, capability: int) -> Image:
    """Compile a ``StreamKernel`` for an architecture, 90 for 9.0."""
    return linked(*library_of(kernel, capability))


def linked(library: Any, cc: tuple[int, int]) -> Image:
    """The machine code of what ``library_of`` gave."""
    cubin = library.get_cubin(cc=cc)
    code = bytes(getattr(cubin, "code", cubin))
    return Image(code, library._entry_name, stack_need(code))


def library_of(kernel: Any, capability: int) -> tuple[Any, tuple[int, int]]:
    """Numba's library of the kernel, before it is linked, and the architecture as Numba has it."""
    element = types.boolean if kernel.dtype == "bool" else getattr(types, kernel.dtype)
    kinds = {"i": types.int64, "x": element[::1], "n": types.int64[::1]}
    arguments = types.void(*(kinds[letter] for letter in kernel.arguments))
    cc = divmod(capability, 10)
    library, _ = compile_function(
        kernel.function, arguments, device=False, cc=cc, lto=False, abi="numba", abi_info=None,
        debug=False, lineinfo=False, fastmath=False, opt=True, forceinline=False,
        launch_bounds=_BOUNDS,
    )  # fmt: skip
    library._lto, library.needs_cudadevrt = False, kernel.cooperative
    return library, cc
