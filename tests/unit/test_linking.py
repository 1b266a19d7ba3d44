# SPDX-License-Identifier: BSD-3-Clause
"""Modules of a kernel go to NVVM once each, callers first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="NVVM is not installed")

PROGRAM = """
import sys
from types import SimpleNamespace

import pyshmem
import numba.cuda.dispatcher as dispatcher
from numba.cuda import codegen, compiler, types
from pyshmem import device as shmem
from pyshmem.device.jit import linking

dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
array = types.Array(types.float32, 1, "C")

def kernel(dest, source):
    shmem.put_work_group(dest, source, 0)

library, _ = compiler._compile_pyfunc_with_fixup(
    kernel, types.void(array, array), device=False, cc=(9, 0), lto=False, abi="numba", abi_info=None,
    debug=DEBUG, lineinfo=False, fastmath=False, opt=not DEBUG, forceinline=False, launch_bounds=None,
)
modules = library.modules
assert len(modules) == len(set(map(id, modules))) > 20, len(modules)
order = linking.libraries_of(library)
assert order[0] is library
for place, one in enumerate(order):
    for other in one._linking_libraries:
        assert order.index(other) > place, (one.name, other.name)
assert len(library.get_cubin(cc=(9, 0)).code) > 10_000
print("ok", len(modules))
"""


@pytest.mark.slow
@pytest.mark.parametrize("debug", [False, True], ids=["release", "debug"])
def test_each_module_is_compiled_once_and_behind_those_that_call_it(debug: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("DEBUG", str(debug))],
        env=dict(
            os.environ, NUMBA_ENABLE_CUDASIM="0", PYSHMEM_DEVICE="cuda", PYSHMEM_KERNEL_STORE="none"
        ),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("ok ")
