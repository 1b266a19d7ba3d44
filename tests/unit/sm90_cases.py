# SPDX-License-Identifier: BSD-3-Clause
"""A kernel for every public device routine, and what to compile it for; see ``sm90.py``."""

from __future__ import annotations

import os

from numba.cuda import types

from pyshmem import device as shmem

ALL = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "boolean", "bfloat16",
)  # fmt: skip
#: One of each width, for routines whose scopes differ in nothing that a dtype could touch.
WIDTHS = ("int8", "bfloat16", "float32", "uint64", "complex128")
WHOLE = bool(os.environ.get("COMPILE_ALL"))
#: Dtypes of atomics and waits; without COMPILE_ALL a signed and an unsigned one of the two widths.
STANDARD = ("int32", "int64", "uint32", "uint64") if WHOLE else ("int32", "uint64")
EXTENDED = (*STANDARD, "float32", "float64") if WHOLE else (*STANDARD, "float64")
#: Of a single element; and of routines that differ from another only in how they complete.
SINGLE = ALL if WHOLE else WIDTHS
ALIKE = WIDTHS if WHOLE else WIDTHS[1::2]
SCOPES = ("", "_warp", "_work_group")
GROUPS = (*SCOPES, "_grid")
I32, U64 = types.int32, types.uint64[::1]


def transfer(routine):
    def kernel(dest, source, pe, nelems):
        routine(dest[1:], source[2:], pe, nelems=nelems)

    return kernel, lambda t: (t[::1], t[::1], I32, types.int64)


def whole(routine):
    def kernel(dest, source, pe):
        routine(dest, source, pe)

    return kernel, lambda t: (t[::1], t[::1], I32)


def put_signal(routine):
    def kernel(dest, source, sig, sig_op, pe, nelems):
        routine(dest, source, sig, 1, sig_op, pe, nelems=nelems)

    return kernel, lambda t: (t[::1], t[::1], U64, I32, I32, types.int64)


def strided(routine):
    def kernel(dest, source, stride, nelems, pe):
        routine(dest, source, stride, 2, nelems, pe)

    return kernel, lambda t: (t[::1], t[::1], types.int64, I32, I32)


def blocked(routine):
    def kernel(dest, source, stride, bsize, pe):
        routine(dest, source, stride, 9, bsize, 3, pe)

    return kernel, lambda t: (t[::1], t[::1], types.int64, I32, I32)


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


def fetching_later(routine):
    def kernel(dest, value, pe, old):
        routine(old, dest, value, pe)

    return kernel, lambda t: (t[::1], t, I32, t[::1])


def fetch_later(routine):
    def kernel(dest, pe, old):
        routine(old, dest, pe)

    return kernel, lambda t: (t[::1], I32, t[::1])


def compare_swap_later(routine):
    def kernel(dest, cond, value, pe, old):
        routine(old, dest, cond, value, pe)

    return kernel, lambda t: (t[::1], t, t, I32, t[::1])


def compare_swap(routine):
    def kernel(dest, cond, value, pe, old):
        old[0] = routine(dest, cond, value, pe)

    return kernel, lambda t: (t[::1], t, t, I32, t[::1])


def wait(routine):
    def kernel(ivar, cmp, value, seen):
        seen[0] = routine(ivar, cmp, value)

    return kernel, lambda t: (t[::1], I32, t, t[::1])


def look(routine):
    def kernel(ivars, status, cmp, value, out):
        out[0] = routine(ivars, ivars.size, status, cmp, value)

    return kernel, lambda t: (t[::1], types.int32[::1], I32, t, types.int64[::1])


def look_vector(routine):
    def kernel(ivars, status, cmp, values, out):
        out[0] = routine(ivars, ivars.size, status, cmp, values)

    return kernel, lambda t: (t[::1], types.int32[::1], I32, t[::1], types.int64[::1])


def gather(routine):
    def kernel(ivars, out, cmp, value):
        out[0] = routine(ivars, ivars.size, out, None, cmp, value)

    return kernel, lambda t: (t[::1], types.int64[::1], I32, t)


def gather_vector(routine):
    def kernel(ivars, out, cmp, values):
        out[0] = routine(ivars, ivars.size, out, None, cmp, values)

    return kernel, lambda t: (t[::1], types.int64[::1], I32, t[::1])


def lock(routine):
    def kernel(word):
        routine(word)

    return kernel, lambda t: (t[::1],)


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


def listed(routine):
    def kernel(pes, npes):
        routine(pes, npes)

    return kernel, lambda t: (types.int32[::1], I32)


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


def scopes(turn):
    """Sums have all scopes; operations that differ from them in an instruction take one in turn."""
    return GROUPS if WHOLE else GROUPS[turn % len(GROUPS) :][:1]


WAITS, LOOKS = ("wait_until", "test"), ("all", "any")
#: Routine, without its scope -> kernel that calls it, dtypes, scopes.
CASES = {
    "put": (transfer, WIDTHS, SCOPES), "put_nbi": (whole, ALIKE, SCOPES),
    "get": (transfer, WIDTHS, SCOPES), "get_nbi": (whole, ALIKE, SCOPES),
    "put_signal": (put_signal, WIDTHS, SCOPES), "put_signal_nbi": (put_signal, ALIKE, SCOPES),
    **dict.fromkeys(("iput", "iget"), (strided, WIDTHS, SCOPES)),
    **dict.fromkeys(("ibput", "ibget"), (blocked, ALIKE, SCOPES)),
    "p": (p, SINGLE, SCOPES[:1]), "g": (g, SINGLE, SCOPES[:1]), "ptr": (ptr, SINGLE, SCOPES[:1]),
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
    "atomic_fetch_nbi": (fetch_later, EXTENDED, SCOPES[:1]),
    "atomic_fetch_inc_nbi": (fetch_later, STANDARD, SCOPES[:1]),
    "atomic_swap_nbi": (fetching_later, EXTENDED, SCOPES[:1]),
    "atomic_compare_swap_nbi": (compare_swap_later, STANDARD, SCOPES[:1]),
    **{
        f"atomic_fetch_{op}_nbi": (fetching_later, STANDARD, SCOPES[:1])
        for op in ("add", "and", "or", "xor")
    },
    **{f"{verb}_{which}": (look, STANDARD[:2], SCOPES) for verb in WAITS for which in LOOKS},
    **{
        f"{verb}_{which}_vector": (look_vector, STANDARD[:2], SCOPES)
        for verb in WAITS
        for which in LOOKS
    },
    **{f"{verb}_some": (gather, STANDARD[:2], SCOPES) for verb in WAITS},
    **{f"{verb}_some_vector": (gather_vector, STANDARD[:2], SCOPES) for verb in WAITS},
    **dict.fromkeys(("set_lock", "test_lock", "clear_lock"), (lock, ("int64",), SCOPES[:1])),
    "pe_quiet": (listed, ("none",), SCOPES),
    "wait_until": (wait, STANDARD, SCOPES), "test": (wait, STANDARD, SCOPES[:1]),
    "signal_op": (signal, ("uint64",), SCOPES[:1]),
    "signal_set": (signal_value, ("uint64",), SCOPES[:1]),
    "signal_add": (signal_value, ("uint64",), SCOPES[:1]),
    "signal_fetch": (signal_fetch, ("uint64",), SCOPES[:1]),
    "signal_wait_until": (wait, ("uint64",), SCOPES),
    "fence": (bare, ("none",), SCOPES), "quiet": (bare, ("none",), SCOPES),
    "no_bulk_copies": (bare, ("none",), SCOPES[:1]),
    "sync_all": (bare, ("none",), SCOPES), "barrier_all": (bare, ("none",), SCOPES),
    "abort": (leave, ("none",), SCOPES[:1]), "call": (handled, ("none",), SCOPES[:1]),
    "post": (handled, ("none",), SCOPES[:1]),
    "print": (say, ("boolean", "int8", "uint64", "float16", "float64"), SCOPES[:1]),
    "my_pe": (query, ("none",), SCOPES[:1]), "n_pes": (query, ("none",), SCOPES[:1]),
    "team_my_pe": (about_team, ("none",), SCOPES[:1]),
    "team_n_pes": (about_team, ("none",), SCOPES[:1]),
    "team_translate_pe": (translation, ("none",), SCOPES[:1]),
    "team_sync": (of_team, ("none",), GROUPS), "broadcast": (rooted, ("int8",), GROUPS),
    "fcollect": (collective, ("int8",), GROUPS), "collect": (collective, ("complex128",), GROUPS),
    "alltoall": (collective, ("int8",), GROUPS),
    "alltoalls": (strided_collective, ("complex128",), GROUPS),
    "sum_reduce": (collective, ("float32",), GROUPS),
    "sum_exscan": (collective, ("float32",), GROUPS),
    "sum_reduce_scatter": (collective, ("uint32",), GROUPS),
    **{
        f"{op}_reduce{kind}": (collective, ("uint32",), scopes(k + at))
        for at, kind in enumerate(("", "_scatter"))
        for k, op in enumerate(("and", "or", "xor", "max", "min", "prod"))
    },
    "sum_inscan": (collective, ("float32",), scopes(2)),
}  # fmt: skip

#: The dtypes of reductions that the type table treats differently, at one scope; sums have all kinds.
_KINDS = ("int64", "bfloat16", "complex64") if WHOLE else ("bfloat16",)
_ALL_KINDS = (
    "int8", "uint16", "int64", "float16", "bfloat16", "float64", "complex64", "complex128",
)  # fmt: skip
#: And those that WIDTHS leaves out, for one routine of each kind of transfer.
ONE_SCOPE = {
    **{
        name: (CASES[name][0], sorted(set(ALL) - set(WIDTHS)), SCOPES[:1])
        for name in (("put", "get", "put_signal", "iput") if WHOLE else ("put",))
    },
    "xor_reduce": (collective, ("int8", "uint64", "boolean"), SCOPES[2:]),
    "max_reduce": (collective, ("int8", "bfloat16", "float64", "boolean"), SCOPES[2:]),
    "sum_reduce": (collective, _ALL_KINDS, SCOPES[2:]),
    "prod_reduce": (collective, _KINDS, SCOPES[2:]),
    "sum_exscan": (collective, _KINDS, SCOPES[2:]),
}
