# SPDX-License-Identifier: BSD-3-Clause
"""Modules of a kernel go to NVVM once each, callers first."""

from __future__ import annotations

import json
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


def told_by(program: str, **settings: str) -> str:
    """What a process with Numba for GPUs prints that runs the program."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "PYSHMEM_DEVICE": "cuda"} | settings,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("debug", [False, True], ids=["release", "debug"])
def test_each_module_is_compiled_once_and_behind_those_that_call_it(debug: bool) -> None:
    told = told_by(PROGRAM.replace("DEBUG", str(debug)), PYSHMEM_KERNEL_STORE="none")
    assert told.startswith("ok ")


GRIDS = """
import json
from types import SimpleNamespace

import pyshmem
import numba.cuda.dispatcher as dispatcher
from numba import cuda
from numba.cuda import codegen, types
from pyshmem import device as shmem
from pyshmem.device.jit.cubin import Cubin

def sections(code):
    return sum(name.startswith(".text.") for name in Cubin(code)._sections)

device = SimpleNamespace(compute_capability=(9, 0))
dispatcher.get_current_device = lambda: device
codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))

def routine(dest):
    shmem.team_sync_grid(shmem.TEAM_WORLD)

def own(dest):
    cuda.cg.this_grid().sync()
    dest[0] = 1

for kernel, options in ((routine, {}), (own, {}), (own, {"debug": True, "opt": False, "lto": False})):
    made = dispatcher._Kernel(kernel, (types.float32[::1],), **({"lto": True} | options))
    library = made._codelibrary
    code = bytes(library.get_cubin().code)
    print(json.dumps([made.cooperative, library.needs_cudadevrt, sections(code),
                      code.count(b"cudaCGSynchronize") > 0, library.get_asm_str().count("%envreg1")]))
"""


@pytest.mark.slow
def test_a_kernel_with_a_grids_barrier_is_one_program(tmp_path) -> None:
    """A library that is linked makes it relocatable: each of its functions is a section then."""
    told = told_by(GRIDS, PYSHMEM_CACHE_DIR=str(tmp_path), PYSHMEM_KERNEL_STORE="text")
    routine, own, debug = (json.loads(line) for line in told.splitlines())
    assert routine[:2] == own[:2] == [True, False]
    assert not routine[3]
    assert not own[3]
    assert own[4] == 1, "its barrier is not in the kernel"
    assert debug[:2] == [True, True], "a kernel for debugging links the library"
    assert routine[2] == own[2] == 1, "functions of the kernel are sections of their own"


LINKS = """
import json
from types import SimpleNamespace

import pyshmem
import numba.cuda.dispatcher as dispatcher
from numba import cuda
from numba.cuda import codegen, types
from pyshmem import device as shmem
from pyshmem.device.jit import numba_cuda
from pyshmem.device.state import P2P, WORDS

device = SimpleNamespace(compute_capability=(9, 0))
dispatcher.get_current_device = lambda: device
codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
signature = (types.float32[::1],)

@cuda.jit
def meets(dest):
    shmem.team_sync(shmem.TEAM_WORLD)

@cuda.jit
def calls_nothing(dest):
    dest[0] = 1

for links in JOBS:
    numba_cuda.integration.push([links if word == P2P else 0 for word in range(WORDS)], 0)
    kept = [len(one.overloads) for one in (meets, calls_nothing)]
    for one in (meets, calls_nothing):
        if not one.overloads:
            one.overloads[signature] = dispatcher._Kernel(one.py_func, signature, lto=True)
        code = bytes(one.overloads[signature]._codelibrary.get_cubin().code)
        if one is meets:
            print(json.dumps([links, kept, b"_sync_by_proxy" in code, len(code),
                              numba_cuda._with_ours(lambda _: ())(None)[-1]]))
    numba_cuda.integration.forget()
"""


@pytest.mark.slow
def test_a_kernel_is_compiled_for_the_links_of_its_job(tmp_path) -> None:
    """Without the functions for PEs out of reach where there are none, and anew for a job with some."""
    jobs, seen = [2, 2, 0, 1, 2, 0], []
    for given in (jobs, [2]):
        program = LINKS.replace("JOBS", str(given))
        told = told_by(program, PYSHMEM_CACHE_DIR=str(tmp_path), PYSHMEM_KERNEL_STORE="text")
        seen.append([json.loads(line) for line in told.splitlines()])
    rows, again = seen
    assert [links for links, *_ in rows] == [key for *_, key in rows] == jobs
    # What was compiled for some PEs out of reach is right in every job.
    assert [kept for _, kept, *_ in rows] == [[0, 0], [1, 1], [0, 1], [1, 1], [0, 1], [0, 1]]
    asks = [asking for _, _, asking, *_ in rows]
    assert asks == [False, False, True, True, False, True]
    assert rows[0][3] == rows[1][3] == again[0][3] < rows[2][3]
    assert len(list(tmp_path.glob("kernel-*.cubin"))) == 2, (
        "a job takes the kernel of another's links"
    )
