# SPDX-License-Identifier: BSD-3-Clause
"""Compiles kernels that call collectives as machine code, for sm_90; ``test_objects.py`` reads the rows.

A script of its own, because numba must be imported without its simulator.
"""

from __future__ import annotations

import json
import pickle
import re
from types import SimpleNamespace

import pyshmem  # noqa: F401  (before numba)

# isort: split
from numba import cuda
from numba.cuda import codegen, dispatcher, types

from pyshmem import device as shmem
from pyshmem.device.jit import linked_collectives
from pyshmem.device.jit.cubin import Cubin, stack_need
from pyshmem.device.jit.linking import libraries_of
from pyshmem.device.state import SYMBOL

CC = (9, 0)
DATA = types.float32[::1]
device = SimpleNamespace(compute_capability=CC)
dispatcher.get_current_device = lambda: device
codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))


def sums(dest, source):
    shmem.sum_reduce_work_group(shmem.TEAM_WORLD, dest, source, 8)


def several(dest, source):
    shmem.put_work_group(dest, source, 1)
    shmem.sum_reduce_work_group(shmem.TEAM_WORLD, dest, source, 8)
    shmem.barrier_all_work_group()


def of_a_warp(dest, source):
    shmem.barrier_all_warp()


def of_a_grid(dest, source):
    shmem.broadcast_grid(shmem.TEAM_WORLD, dest, source, 8, 0)


def by_threads(dest, source):
    shmem.no_bulk_copies()
    shmem.broadcast(shmem.TEAM_WORLD, dest, source, 8, 0)


def helped(dest, source):
    helper(dest, source)


@cuda.jit(device=True)
def helper(dest, source):
    shmem.barrier_all_work_group()
    dest[0] = source[0]


def signature_of(text):
    """The types of a function's result and parameters, in PTX."""
    return re.findall(r"\.param (?:\.align \d+ )?(\.\w+) \w+(\[\d+\])?", text)


def abi_of(kernel, root):
    """How the kernel declares the routine, and how the routine is defined."""
    pattern = rf"\.func\s*(\([^)]*\))?\s*{root.name}\s*\(([^)]*)\)"
    ptx = linked_collectives.ptx_of(root, (*CC, "a"), False, False)
    declared = re.search(r"\.extern " + pattern, kernel.get_asm_str())
    defined = re.search(r"\.visible " + pattern, ptx)
    return [list(map(signature_of, (found[1] or "", found[2]))) for found in (declared, defined)]


def row_of(function, **options):
    given = {"lto": True} | options
    made = dispatcher._Kernel(function, (DATA, DATA), **given)
    kernel = made._codelibrary
    image = bytes(kernel.get_cubin().code)
    called = linked_collectives.called_by(kernel)
    kept = pickle.dumps({k: v for k, v in kernel._reduce_states().items() if k != "codegen"})
    return {
        "kernel": function.__name__,
        "called": sorted(root.routine for root in called),
        "abi": [abi_of(kernel, root) for root in called],
        "below": [len(libraries_of(root)) for root in called],
        "registers": kernel._max_registers,
        "most": max(Cubin(image).registers().values()),
        "state": image.count(SYMBOL.encode()) > 0,
        "stack": stack_need(image),
        "cooperative": made.cooperative,
        "pickled": len(kept),
        "bulk": b"pyshmem_bulk_buffer" in image,
        "size": len(image),
    }


if __name__ == "__main__":
    rows = [
        row_of(sums),
        row_of(sums, lto=False, debug=True, opt=False),
        row_of(sums, max_registers=48),
        row_of(sums, fastmath=True),
        row_of(several),
        row_of(of_a_warp),
        row_of(of_a_grid),
        row_of(by_threads),
        row_of(helped),
    ]
    print(json.dumps(rows))
