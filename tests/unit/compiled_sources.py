# SPDX-License-Identifier: BSD-3-Clause
"""Prints, as JSON, the names of the kernels in ``kernel_sources.py`` that Numba compiles for a GPU."""

from __future__ import annotations

import json
import types as python_types

import kernel_sources


def compiled() -> list[str]:
    """Names of those that Numba compiles for sm_90. Not in a process with its simulator."""
    import numba.cuda.dispatcher as dispatcher
    from numba.cuda import compiler, types

    gpu = python_types.SimpleNamespace(compute_capability=(9, 0))
    dispatcher.get_current_device = lambda: gpu
    array, found = types.float64[::1], []
    options = dict.fromkeys(("debug", "lineinfo", "fastmath", "opt", "forceinline", "lto"), False)
    for name, kernel in kernel_sources.KERNELS.items():
        try:  # as a launch does: with exceptions, which functions for C have not
            library, _ = compiler._compile_pyfunc_with_fixup(
                kernel, types.void(array, array), device=False, cc=(9, 0), abi="numba", abi_info=None,
                launch_bounds=None, **options,
            )  # fmt: skip
            library._lto = False
            library.get_asm_str(cc=(9, 0))
        except Exception:  # each mistake has another class
            continue
        found.append(name)
    return found


if __name__ == "__main__":
    print(json.dumps(compiled()))
