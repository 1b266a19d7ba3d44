# SPDX-License-Identifier: BSD-3-Clause
"""Compiles every public device routine for every dtype to sm_90 and prints what the PTX shows.

A script of its own, because numba must be imported without its simulator. One JSON line a routine
and dtype; ``test_sm90.py`` reads them. No GPU is needed: NVVM makes the PTX, nvJitLink the cubin.
"""

from __future__ import annotations

import json
import os
import re
import sys
import types as python_types
from itertools import product

import numpy as np

import pyshmem

# isort: split
import numba.cuda.dispatcher as dispatcher
from numba import cuda
from numba.core import errors
from numba.cuda import compiler, types
from sm90_cases import CASES, ONE_SCOPE, U64, WHOLE

from pyshmem import device as shmem
from pyshmem.device.jit import numba_cuda
from pyshmem.device.jit.cubin import Cubin, stack_need
from pyshmem.device.state import SYMBOL
from pyshmem.host.observe import stages

#: A process compiles for one: Numba keeps device functions without asking what they were made for.
CC = tuple(map(int, os.environ.get("COMPILE_FOR", "9.0").split(".")))
# Numba asks the driver for the GPU of device functions even when told the architecture.
dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=CC)


def compile_kernel(function, arguments, *, lto, debug=False):
    """The library that a launch makes, without launching."""
    library, _ = compiler._compile_pyfunc_with_fixup(
        function, types.void(*arguments), device=False, cc=CC, lto=lto, abi="numba",
        abi_info=None, debug=debug, lineinfo=False, fastmath=False, opt=not debug, forceinline=False,
        launch_bounds=None,
    )  # fmt: skip
    library._lto = lto
    return library


COLD = (
    "record_fault", "given_up", "wait_word", "await_from", "sync_by_proxy", "quotient64", "exchange",
    "_round", "spread", "scatter", "combine_stage", "combine_share", "reach_slowly",
    "requests3ask", "requests4tell", "raise_for_team", "await_quiet", "ring_chunks",
    "cudaCG", "take_cell", "requests5_skip", "requests8_expired", "team2ll", "receive_small",
    "combine_chunks", "4rows6_claim",
)  # fmt: skip


ASIDE = "6device4ring|6device6faults|6device5peers"


def functions(ptx):
    """Name and text of every function that has a body."""
    for text in re.split(r"(?m)^(?=(?:\.\w+ )?\.(?:entry|func)\b)", ptx)[1:]:
        head, brace, body = text.partition("{")
        if brace and ";" not in head:
            name = re.search(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(\w+)", head)
            yield name[1], body


def hot_calls(ptx):
    """Calls of anything but the routines that are kept out of line on purpose."""
    targets = re.findall(r"\bcall(?:\.uni)?\s+(?:\(\w+\),)?\s*(\w+)", ptx)
    return sum(1 for target in targets if not any(name in target for name in COLD))


def facts(name, dtype, make):
    numba_type = getattr(types, dtype, None)
    kernel, arguments = make(getattr(shmem, name))
    arguments = arguments(numba_type)
    ptx = compile_kernel(kernel, arguments, lto=False).get_asm_str(cc=(9, 0))
    bodies = dict(functions(ptx))
    # Without the ring's functions, which draw tickets on the own GPU, and what hardly ever runs.
    body = "\n".join(text for name, text in bodies.items() if not re.search(ASIDE, name))
    local = [re.findall(r"\.local .*__local_depot\d+\[(\d+)\]", v) for v in bodies.values()]
    return {
        "routine": name,
        "dtype": dtype,
        "calls": hot_calls(ptx),
        "local_bytes": max(sum(map(int, depots)) for depots in local),
        "state": SYMBOL in ptx,
        "orders": sorted(
            set(
                re.findall(
                    r"\b(?:ld|st|atom|red|fence)\.(?:relaxed|acquire|release|acq_rel)\.\w+", body
                )
            )
        ),
        "fence_is_last": body.rfind("fence.acq_rel.sys")
        > max(
            (call.start() for call in re.finditer(r"(?m)^\s+_ZN\w+await_quiet", body)), default=0
        ),
        "gpu_scope": len(re.findall(r"\b(?:atom|red)\.(?!relaxed\.sys|release\.sys)", body)),
        "v4_loads": len(re.findall(r"\bld\.(?:relaxed\.sys\.global\.)?v4\.", body)),
        "v4_stores": len(re.findall(r"\bst\.(?:global\.)?v4\.", body)),
    }


FIRST = 6  # what the first case of a routine costs more than the others: Numba sees its callees


def pairs(dtypes, scopes):
    """Each dtype and each scope; with COMPILE_ALL each with each."""
    if WHOLE:
        return list(product(dtypes, scopes))
    most = max(len(dtypes), len(scopes))
    return [(dtypes[k % len(dtypes)], scopes[k % len(scopes)]) for k in range(most)]


def shares(wanted, of):
    """The cases of the routines named, or of all, in ``of`` lists; those of one routine together."""
    lists, costs = [[] for _ in range(of)], [0] * of
    routines = [
        [(base + scope, dtype, make) for dtype, scope in pairs(dtypes, scopes)]
        for base, (make, dtypes, scopes) in (*CASES.items(), *ONE_SCOPE.items())
    ]
    for cases in sorted(routines, key=len, reverse=True):
        cheapest = costs.index(min(costs))
        lists[cheapest] += [case for case in cases if not wanted or case[0] in wanted]
        costs[cheapest] += FIRST + len(cases)
    return lists


def main(share, of, wanted):
    """Compile and print one of ``of`` shares."""
    for case in shares(wanted, of)[share]:
        print(json.dumps(facts(*case)), flush=True)
    if share == 0:
        others = {"as_argument", "prepare", "stage_begin", "stage_end"}
        public = sorted(name for name in set(shmem.__all__) - others if name.islower())
        print(json.dumps({"public": public}))
        cubins()
        staged()
    if share == of - 1:
        architectures()


def cubins():
    # As a launch makes it: link-time optimisation on, down to machine code.
    for base in ("put_signal", "get", "barrier_all"):
        make, dtypes, _ = CASES[base]
        kernel, arguments = make(getattr(shmem, base + "_work_group"))
        library = compile_kernel(kernel, arguments(getattr(types, dtypes[-1], None)), lto=True)
        cubin = library.get_cubin(cc=(9, 0, "a"))
        code = bytes(getattr(cubin, "code", cubin))
        print(json.dumps({"cubin": base, "state": SYMBOL.encode() in code}), flush=True)


def collectives(team, dest, source, nelems, sig, lock):
    """A kernel with the library's deepest calls."""
    shmem.sum_reduce_work_group(team, dest, source, nelems)
    shmem.sum_exscan_work_group(team, dest, source, nelems)
    shmem.collect_work_group(team, dest, source, nelems)
    shmem.alltoalls_work_group(team, dest, source, 2, 2, nelems)
    shmem.put_signal_work_group(dest, source, sig, 1, shmem.SIGNAL_SET, 1)
    shmem.barrier_all_work_group()
    shmem.set_lock(lock)


def stacks():
    # Without link-time optimisation, which leaves no sizes of single functions to be read.
    array = {
        name: types.Array(getattr(types, name), 1, "C") for name in ("float32", "uint64", "int64")
    }
    data = array["float32"]
    arguments = types.int64, data, data, types.int64, array["uint64"], array["int64"]
    for registers in (32, 64, None):
        library = compile_kernel(collectives, arguments, lto=False)
        library._max_registers = registers
        cubin = library.get_cubin(cc=CC)
        image = bytes(getattr(cubin, "code", cubin))
        code = Cubin(image)
        (kernel,) = (name for name in code.frames if "collectivesB" in name)
        calls = code.deepest(kernel)[1:]
        row = {"stack": code.stack_of(calls), "depth": len(calls), "reserved": stack_need(image)}
        # Each function has a section of its own here: what its instructions take is its frame.
        misread = [name for name, nbytes in code.taken.items() if code.frames[name] != nbytes]
        print(json.dumps(row | {"frame": code.frames[kernel], "misread": misread}), flush=True)


def labelled(data, out):
    shmem.stage_begin("load", priority=2)
    value = data[cuda.threadIdx.x]
    shmem.stage_end("load")
    for turn in range(3):
        shmem.stage_begin("add")
        value = value * value + turn
        shmem.stage_end("add")
    out[cuda.threadIdx.x] = value


def unlabelled(data, out):
    value = data[cuda.threadIdx.x]
    for turn in range(3):
        value = value * value + turn
    out[cuda.threadIdx.x] = value


def unbegun(data, out):
    shmem.stage_end("load")


def body_of(kernel):
    """The PTX of a kernel's body, without its name."""
    array = types.Array(types.float32, 1, "C")
    library = compile_kernel(kernel, (array, array), lto=False)
    assert library.get_cubin(cc=(9, 0))
    text = library.get_asm_str(cc=(9, 0))
    return re.sub(
        r"_ZN\w+?_param", "param", text[text.index(".visible .entry") :].partition("{")[2]
    )


def staged():
    """Labels of stages, compiled without them and with them, and one that is not begun."""
    plain, off = body_of(unlabelled), body_of(labelled)
    stages._compiled_in = True
    on = body_of(labelled)
    stages._compiled_in = False
    again = body_of(labelled)
    try:
        body_of(unbegun)
        refused = ""
    except errors.NumbaError as error:
        refused = str(error)
    row = {"staged": on, "off": off, "again": again, "plain": plain, "refused": refused}
    print(json.dumps(row | {"kept": kept_of(labelled, unlabelled)}))


def kept_of(*kernels):
    """Which of these still have their compiled code when a timeline has begun."""
    array = types.Array(types.float32, 1, "C")
    dispatchers = [cuda.jit(kernel) for kernel in kernels]
    for one in dispatchers:
        library = compile_kernel(one.py_func, (array, array), lto=False)
        one.overloads[array, array] = python_types.SimpleNamespace(_codelibrary=library)
    numba_cuda.forget_labelled()
    return [one.py_func.__name__ for one in dispatchers if one.overloads]


def image_of(library):
    """The cubin that a launch on this architecture makes, with what is done to Numba there."""
    numba_cuda.prepare_link(library)
    cubin = library.get_cubin(cc=CC)
    return bytes(getattr(cubin, "code", cubin))


def architectures():
    """Copies by threads, assembled: with bulk copies where the architecture has them; and the rest."""
    for name in ("put", "get", "put_nbi", "get_nbi", "put_signal"):
        make, _, _ = CASES[name]
        kernel, arguments = make(getattr(shmem, name))
        library = compile_kernel(kernel, arguments(types.float32), lto=True)
        image = image_of(library)
        text = library.get_lto_ptx(cc=CC)
        row = {"assembled": name, "bytes": len(image), "bulk": "cp.async.bulk" in text}
        print(json.dumps(row | {"buffer": "pyshmem_bulk_buffer" in text}), flush=True)
    stacks()
    declined()
    units()
    constants()
    unsigned_counts()
    litmus()


def declined():
    def kernel(dest, source):
        shmem.no_bulk_copies()
        shmem.put(dest, source, 1)

    library = compile_kernel(kernel, (types.float32[::1], types.float32[::1]), lto=True)
    image_of(library)
    text = library.get_lto_ptx(cc=CC)
    bulk = "cp.async.bulk" in text or "pyshmem_bulk_buffer" in text
    print(json.dumps({"declined": True, "bulk": bulk}), flush=True)


def units():
    """Collectives with flags in their data, assembled, by how often they access 16 bytes at once."""
    for base, scope in (("sum_reduce", "_work_group"), ("broadcast", "_warp"), ("collect", "")):
        kernel, arguments = CASES[base][0](getattr(shmem, base + scope))
        library = compile_kernel(kernel, arguments(types.float32), lto=True)
        row = {"units": base + scope, "bytes": len(image_of(library))}
        text = library.get_lto_ptx(cc=CC)
        for access in ("ld", "st"):
            row[access] = len(re.findall(rf"\b{access}\.relaxed\.sys\.global\.b128", text))
        print(json.dumps(row), flush=True)


def unsigned_counts():
    """Numba makes float64 of uint64 + int64: counts are int64 from the door on."""

    def kernel(dest, source, ivars, counts):
        n = counts[0]
        shmem.broadcast(0, dest, source, n, n)
        shmem.fcollect(0, dest, source, n)
        shmem.collect(0, dest, source, n)
        shmem.alltoall(0, dest, source, n)
        shmem.alltoalls(0, dest, source, n, n, n)
        shmem.sum_reduce(0, dest, source, n)
        shmem.sum_inscan(0, dest, source, n)
        shmem.sum_reduce_scatter(0, dest, source, n)
        shmem.ibput(dest, source, n, n, n, n, 0)
        shmem.iget(dest, source, n, n, n, 0)
        shmem.wait_until_all(ivars, n, None, shmem.CMP_EQ, 0)
        shmem.test_any(ivars, n, None, shmem.CMP_EQ, 0, n)

    data = types.float32[::1]
    library = compile_kernel(kernel, (data, data, types.int64[::1], U64), lto=False)
    text = "\n".join(
        body for name, body in functions(library.get_asm_str(cc=CC)) if "reductions" not in name
    )
    print(json.dumps({"unsigned_counts": len(re.findall(r"\bcvt\.\w+\.f64", text))}), flush=True)


def litmus():
    """The texts of the functions in which somebody waits, for ``test_sm90`` to look at their orders."""

    def warp_wait(sig, out):
        out[cuda.grid(1)] = shmem.signal_wait_until_warp(sig, shmem.CMP_EQ, 1)

    def wait_any(ivars, out):
        out[0] = shmem.wait_until_any(ivars, 4, None, shmem.CMP_EQ, 1)

    def lock(word):
        shmem.set_lock(word)

    def request(dest, source):
        shmem.get(dest, source, 1)

    i64, f32 = types.int64[::1], types.float32[::1]
    for kernel, arguments in (
        (warp_wait, (U64, U64)), (wait_any, (i64, i64)), (lock, (i64,)), (request, (f32, f32)),
    ):  # fmt: skip
        text = compile_kernel(kernel, arguments, lto=False).get_asm_str(cc=CC)
        bodies = {"ask": "", "entry": ""}
        for name, body in functions(text):
            bodies["ask" if "requests3ask" in name else "entry"] += body
        print(json.dumps({"litmus": kernel.__name__} | bodies), flush=True)


TABLE = np.arange(100, dtype=np.float32)


def constants():
    """Numba gives arrays in constant memory no itemsize: a copy of 0 bytes would leave no loop."""

    def kernel(dest):
        shmem.put_work_group(dest, TABLE, 1)

    text = compile_kernel(kernel, (types.float32[::1],), lto=False).get_asm_str(cc=CC)
    (entry,) = re.findall(r"\.entry[^{]*\{(.*?)\n\}", text, re.S)
    copies = "st.global.v4" in entry
    print(json.dumps({"constant_source": copies}), flush=True)


if __name__ == "__main__":
    assert pyshmem.__version__
    if sys.argv[1:] == ["architectures"]:
        architectures()
        sys.exit()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
