# SPDX-License-Identifier: BSD-3-Clause
"""Compiles every public device routine for every dtype to sm_90 and prints what the PTX shows.

A script of its own, because numba must be imported without its simulator. One JSON line a routine
and dtype; ``test_sm90.py`` reads them. No GPU is needed: NVVM makes the PTX, nvJitLink the cubin.
"""

from __future__ import annotations

import json
import re
import sys
import types as python_types

import pyshmem

# isort: split
import numba.cuda.dispatcher as dispatcher
from numba.cuda import compiler, types

from pyshmem import device as shmem

# Numba asks the driver for the GPU of device functions even when told the architecture.
dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=(9, 0))

ALL = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "boolean", "bfloat16",
)  # fmt: skip
STANDARD = ("int32", "int64", "uint32", "uint64")
EXTENDED = (*STANDARD, "float32", "float64")
SCOPES = ("", "_warp", "_work_group")
GROUPS = (*SCOPES, "_grid")
I32, U64 = types.int32, types.uint64[::1]


def transfer(routine):
    def kernel(dest, source, pe):
        routine(dest, source, pe)
        routine(dest[1:], source[2:], pe, nelems=3)

    return kernel, lambda t: (t[::1], t[::1], I32)


def put_signal(routine):
    def kernel(dest, source, sig, pe):
        routine(dest, source, sig, 1, shmem.SIGNAL_SET, pe)
        routine(dest, source, sig, 1, shmem.SIGNAL_ADD, pe, nelems=3)

    return kernel, lambda t: (t[::1], t[::1], U64, I32)


def p(routine):
    def kernel(dest, value, pe):
        routine(dest, value, pe)

    return kernel, lambda t: (t[::1], t, I32)


def g(routine):
    def kernel(dest, source, pe):
        dest[0] = routine(source, pe)

    return kernel, lambda t: (t[::1], t[::1], I32)


def ptr(routine):
    def kernel(array, pe):
        array[0] = routine(array, pe)[1]

    return kernel, lambda t: (t[::1], I32)


def fetching(routine):
    def kernel(dest, value, pe, old):
        old[0] = routine(dest, value, pe)

    return kernel, lambda t: (t[::1], t, I32, t[::1])


def updating(routine):
    def kernel(dest, value, pe):
        routine(dest, value, pe)

    return kernel, lambda t: (t[::1], t, I32)


def fetch(routine):
    def kernel(dest, pe, old):
        old[0] = routine(dest, pe)

    return kernel, lambda t: (t[::1], I32, t[::1])


def inc(routine):
    def kernel(dest, pe):
        routine(dest, pe)

    return kernel, lambda t: (t[::1], I32)


def compare_swap(routine):
    def kernel(dest, cond, value, pe, old):
        old[0] = routine(dest, cond, value, pe)

    return kernel, lambda t: (t[::1], t, t, I32, t[::1])


def wait(routine):
    def kernel(ivar, cmp, value, seen):
        seen[0] = routine(ivar, cmp, value)

    return kernel, lambda t: (t[::1], I32, t, t[::1])


def signal(routine):
    def kernel(sig, pe):
        routine(sig, 1, shmem.SIGNAL_SET, pe)
        routine(sig, 1, shmem.SIGNAL_ADD, pe)

    return kernel, lambda t: (U64, I32)


def signal_value(routine):
    def kernel(sig, pe):
        routine(sig, 1, pe)

    return kernel, lambda t: (U64, I32)


def signal_fetch(routine):
    def kernel(sig, seen):
        seen[0] = routine(sig)

    return kernel, lambda t: (U64, U64)


def bare(routine):
    def kernel():
        routine()

    return kernel, lambda t: ()


def query(routine):
    def kernel(out):
        out[0] = routine()

    return kernel, lambda t: (types.int32[::1],)


def leave(routine):
    def kernel(code):
        routine(code, "a label")

    return kernel, lambda t: (I32,)


def say(routine):
    def kernel(value):
        routine("a label", value)
        routine("a label")

    return kernel, lambda t: (t,)


def handled(routine):
    def kernel(handler, value):
        routine(handler, value, 2, 3, 4)

    return kernel, lambda t: (types.int64, I32)


def collective(routine):
    def kernel(team, dest, source, nelems):
        routine(team, dest, source, nelems)

    return kernel, lambda t: (I32, t[::1], t[::1], types.int64)


def rooted(routine):
    def kernel(team, dest, source, nelems, root):
        routine(team, dest, source, nelems, root)

    return kernel, lambda t: (I32, t[::1], t[::1], types.int64, I32)


def strided_collective(routine):
    def kernel(team, dest, source, nelems):
        routine(team, dest, source, 2, 3, nelems)

    return kernel, lambda t: (I32, t[::1], t[::1], types.int64)


def of_team(routine):
    def kernel(team):
        routine(team)

    return kernel, lambda t: (I32,)


def about_team(routine):
    def kernel(team, out):
        out[0] = routine(team)

    return kernel, lambda t: (I32, types.int32[::1])


def translation(routine):
    def kernel(team, pe, out):
        out[0] = routine(team, pe, 0)

    return kernel, lambda t: (I32, I32, types.int32[::1])


#: Routine, without its scope -> kernel that calls it, dtypes, scopes.
CASES = {
    "put": (transfer, ALL, SCOPES), "put_nbi": (transfer, ALL, SCOPES),
    "get": (transfer, ALL, SCOPES), "get_nbi": (transfer, ALL, SCOPES),
    "put_signal": (put_signal, ALL, SCOPES), "put_signal_nbi": (put_signal, ALL, SCOPES),
    "p": (p, ALL, SCOPES[:1]), "g": (g, ALL, SCOPES[:1]), "ptr": (ptr, ALL, SCOPES[:1]),
    "atomic_fetch": (fetch, EXTENDED, SCOPES[:1]), "atomic_set": (updating, EXTENDED, SCOPES[:1]),
    "atomic_swap": (fetching, EXTENDED, SCOPES[:1]),
    "atomic_compare_swap": (compare_swap, STANDARD, SCOPES[:1]),
    "atomic_inc": (inc, STANDARD, SCOPES[:1]), "atomic_fetch_inc": (fetch, STANDARD, SCOPES[:1]),
    "atomic_add": (updating, EXTENDED, SCOPES[:1]),
    "atomic_fetch_add": (fetching, EXTENDED, SCOPES[:1]),
    "atomic_and": (updating, STANDARD, SCOPES[:1]),
    "atomic_fetch_and": (fetching, STANDARD, SCOPES[:1]),
    "atomic_or": (updating, STANDARD, SCOPES[:1]),
    "atomic_fetch_or": (fetching, STANDARD, SCOPES[:1]),
    "atomic_xor": (updating, STANDARD, SCOPES[:1]),
    "atomic_fetch_xor": (fetching, STANDARD, SCOPES[:1]),
    "wait_until": (wait, STANDARD, SCOPES), "test": (wait, STANDARD, SCOPES[:1]),
    "signal_op": (signal, ("uint64",), SCOPES[:1]),
    "signal_set": (signal_value, ("uint64",), SCOPES[:1]),
    "signal_add": (signal_value, ("uint64",), SCOPES[:1]),
    "signal_fetch": (signal_fetch, ("uint64",), SCOPES[:1]),
    "signal_wait_until": (wait, ("uint64",), SCOPES),
    "fence": (bare, ("none",), SCOPES), "quiet": (bare, ("none",), SCOPES),
    "sync_all": (bare, ("none",), SCOPES), "barrier_all": (bare, ("none",), SCOPES),
    "abort": (leave, ("none",), SCOPES[:1]), "call": (handled, ("none",), SCOPES[:1]),
    "post": (handled, ("none",), SCOPES[:1]),
    "print": (say, ("boolean", "int8", "uint64", "float16", "float64"), SCOPES[:1]),
    "my_pe": (query, ("none",), SCOPES[:1]), "n_pes": (query, ("none",), SCOPES[:1]),
    "team_my_pe": (about_team, ("none",), SCOPES[:1]),
    "team_n_pes": (about_team, ("none",), SCOPES[:1]),
    "team_translate_pe": (translation, ("none",), SCOPES[:1]),
    "team_sync": (of_team, ("none",), GROUPS), "broadcast": (rooted, ("int8", "complex128"), GROUPS),
    "fcollect": (collective, ("int8", "complex128"), GROUPS),
    "collect": (collective, ("int8", "complex128"), GROUPS),
    "alltoall": (collective, ("int8", "complex128"), GROUPS),
    "alltoalls": (strided_collective, ("int8", "complex128"), GROUPS),
    **{f"{op}_reduce": (collective, ("uint32",), GROUPS) for op in ("and", "or", "xor")},
    **{f"{op}_reduce": (collective, ("float32",), GROUPS) for op in ("max", "min", "sum", "prod")},
    **dict.fromkeys(("sum_inscan", "sum_exscan"), (collective, ("float32",), GROUPS)),
}  # fmt: skip

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_REALS = (*_INTEGERS, "float16", "bfloat16", "float64")
#: The dtypes of reductions, whose parts are many, at one scope.
ONE_SCOPE = {
    "xor_reduce": (collective, (*_INTEGERS, "boolean"), SCOPES[2:]),
    "max_reduce": (collective, (*_REALS, "boolean"), SCOPES[2:]),
    "sum_reduce": (collective, (*_REALS, "complex64", "complex128"), SCOPES[2:]),
    "prod_reduce": (collective, (*_REALS, "complex64", "complex128"), SCOPES[2:]),
    "sum_exscan": (collective, (*_REALS, "complex64", "complex128"), SCOPES[2:]),
}


def compile_kernel(function, arguments, *, lto):
    """The library that a launch makes, without launching."""
    library, _ = compiler._compile_pyfunc_with_fixup(
        function, types.void(*arguments), device=False, cc=(9, 0), lto=lto, abi="numba",
        abi_info=None, debug=False, lineinfo=False, fastmath=False, opt=True, forceinline=False,
        launch_bounds=None,
    )  # fmt: skip
    library._lto = lto
    return library


COLD = (
    "record_fault", "given_up", "exchange", "spread", "scatter", "combine_stage", "combine_share",
    "store_prefixes", "reach_slowly", "cutover10_threshold", "ring3ask", "ring4tell", "await_quiet",
    "cudaCG",
)  # fmt: skip


def hot_calls(ptx):
    """Calls of anything but the routines that are kept out of line on purpose."""
    targets = re.findall(r"\bcall(?:\.uni)?\s+(?:\(\w+\),)?\s*(\w+)", ptx)
    return sum(1 for target in targets if not any(name in target for name in COLD))


def facts(name, dtype, make):
    numba_type = getattr(types, dtype, None)
    kernel, arguments = make(getattr(shmem, name))
    arguments = arguments(numba_type)
    ptx = compile_kernel(kernel, arguments, lto=False).get_asm_str(cc=(9, 0))
    body = ptx[ptx.index(".entry") :]
    return {
        "routine": name,
        "dtype": dtype,
        "calls": hot_calls(ptx),
        "local_bytes": sum(map(int, re.findall(r"\.local .*__local_depot\d+\[(\d+)\]", ptx))),
        "state": "pyshmem_state_v2" in ptx,
        "orders": sorted(
            set(
                re.findall(
                    r"\b(?:ld|st|atom|red|fence)\.(?:relaxed|acquire|release|acq_rel)\.\w+", body
                )
            )
        ),
        "gpu_scope": len(re.findall(r"\b(?:atom|red)\.(?!relaxed\.sys|release\.sys)", body)),
        "v4_loads": len(re.findall(r"\bld\.(?:relaxed\.sys\.global\.)?v4\.", body)),
        "v4_stores": len(re.findall(r"\bst\.(?:global\.)?v4\.", body)),
    }


def main(wanted):
    for base, (make, dtypes, scopes) in (*CASES.items(), *ONE_SCOPE.items()):
        for scope in scopes:
            for dtype in dtypes:
                if not wanted or base + scope in wanted:
                    print(json.dumps(facts(base + scope, dtype, make)), flush=True)
    # As a launch makes it: link-time optimisation on, down to machine code.
    for base in ("put_signal", "get", "barrier_all"):
        make, dtypes, _ = CASES[base]
        kernel, arguments = make(getattr(shmem, base + "_work_group"))
        library = compile_kernel(kernel, arguments(getattr(types, dtypes[-1], None)), lto=True)
        cubin = library.get_cubin(cc=(9, 0, "a"))
        code = bytes(getattr(cubin, "code", cubin))
        print(json.dumps({"cubin": base, "state": b"pyshmem_state_v2" in code}), flush=True)


if __name__ == "__main__":
    assert pyshmem.__version__
    main(sys.argv[1:])
