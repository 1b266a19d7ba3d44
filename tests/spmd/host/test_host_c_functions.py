# SPDX-License-Identifier: BSD-3-Clause
"""Each typed C function of OpenSHMEM 1.6, by its own name: does what its routine does, for its type.

Those without a type are called by the programs of tests/native, but for the signals' at the end.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyshmem

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "coverage.py"
_spec = importlib.util.spec_from_file_location("coverage_page", TOOL)
coverage = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = coverage
_spec.loader.exec_module(coverage)

LIBRARY = ctypes.CDLL("libpyshmem.so.0", os.RTLD_NOLOAD | os.RTLD_LAZY)  # pyshmem has loaded it

C_TYPES = {
    "float": ctypes.c_float, "double": ctypes.c_double, "longdouble": ctypes.c_longdouble,
    "char": ctypes.c_byte, "schar": ctypes.c_byte, "short": ctypes.c_short, "int": ctypes.c_int,
    "long": ctypes.c_long, "longlong": ctypes.c_longlong, "uchar": ctypes.c_ubyte,
    "ushort": ctypes.c_ushort, "uint": ctypes.c_uint, "ulong": ctypes.c_ulong,
    "ulonglong": ctypes.c_ulonglong, "size": ctypes.c_size_t, "ptrdiff": ctypes.c_ssize_t,
    **{f"{sign}int{8 * n}": getattr(ctypes, f"c_{sign}int{8 * n}")
       for sign in ("", "u") for n in (1, 2, 4, 8)},
}  # fmt: skip
COMPLEX = {"complexf": np.complex64, "complexd": np.complex128}


class Typed(NamedTuple):
    """A function, and what it is called with."""

    name: str
    family: str
    ctype: Any  # None: a function of bytes, or complex
    dest: Any  # four elements on the heap, 9 each
    source: Any  # 1, 2, 3, 4 and the like, on the heap
    job: Any

    def call(self, *arguments: Any, result: Any = None) -> Any:
        function = getattr(LIBRARY, self.name)
        function.restype = result
        first = []
        if self.name.startswith("shmem_ctx_"):
            first = [ctypes.c_void_p(pyshmem.CTX_DEFAULT.handle)]
        return function(*first, *map(as_argument, arguments))

    def expect(self, array: Any, *values: Any) -> None:
        pyshmem.quiet()
        assert np.asarray(array).tolist() == np.array(values, array.dtype).tolist(), self.name


def as_argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, pyshmem.Team):
        return ctypes.c_void_p(value.handle)
    return ctypes.c_size_t(value) if isinstance(value, int) else value


def int_(value: int) -> Any:
    return ctypes.c_int(value)


def rma(f: Typed) -> None:
    me, (a, b, c, _), nine = int_(f.job.my_pe), f.source, f.dest[0]
    if f.family in ("p", "g"):
        if f.family == "p":
            f.call(f.dest, f.ctype(3), me)
            f.expect(f.dest, f.ctype(3).value, nine, nine, nine)
        else:
            assert f.call(f.source[2:], me, result=f.ctype) == c
    elif f.family[:2] == "ib":
        f.call(f.dest, f.source, 2, 3, 1, 2, me)
        f.expect(f.dest, a, nine, f.source[3], nine)
    elif f.family[0] == "i":
        f.call(f.dest, f.source, 3, 2, 2, me)
        f.expect(f.dest, a, nine, nine, c)
    elif "signal" in f.family:
        word = pyshmem.new_signal()
        f.call(f.dest, f.source, 2, word, 7, int_(pyshmem.SIGNAL_SET), me)
        pyshmem.signal_wait_until(word, pyshmem.CMP_EQ, 7)
        f.expect(f.dest, a, b, nine, nine)
    else:
        f.call(f.dest, f.source, 3, me)
        f.expect(f.dest, a, b, c, nine)


#: The element after each operation with 6 on a 9 (compare_swap: from 9 to 6).
AFTER = {"set": 6, "swap": 6, "compare_swap": 6, "inc": 10, "add": 15, "and": 9 & 6, "or": 15,
         "xor": 15, "fetch": 9}  # fmt: skip


def atomic(f: Typed) -> None:
    words = f.family.removeprefix("atomic_").removesuffix("_nbi")
    op = words if words == "fetch" else words.removeprefix("fetch_")
    values = {"compare_swap": [f.ctype(9), f.ctype(6)], "inc": [], "fetch": []}
    arguments = [f.dest, *values.get(op, [f.ctype(6)]), int_(f.job.my_pe)]
    if f.family.endswith("_nbi"):
        fetched = np.zeros(1, f.dest.dtype)
        f.call(fetched, *arguments)
        f.expect(fetched, 9)
    else:
        old = f.call(*arguments, result=f.ctype)
        assert ("fetch" not in words and "swap" not in words) or old == 9
    f.expect(f.dest, AFTER[op], 9, 9, 9)


def wait(f: Typed) -> None:
    """The set forms on 9, 9, 9, 9 and, in vectors, their own values."""
    result = {"any": ctypes.c_size_t, "some": ctypes.c_size_t}
    kind = (
        f.family.removeprefix("wait_until").removeprefix("test").removesuffix("_vector").strip("_")
    )
    if kind == "":
        found = f.call(f.dest, int_(pyshmem.CMP_GE), f.ctype(9), result=ctypes.c_int)
        assert f.family == "wait_until" or found == 1
        return
    right: Any = f.dest.copy() if f.family.endswith("_vector") else f.ctype(9)
    status, indices = np.array([1, 0, 1, 1], np.intc), np.zeros(4, np.uintp)
    before = [f.dest, 4, *([indices] if kind == "some" else []), status]
    found = f.call(*before, int_(pyshmem.CMP_EQ), right, result=result.get(kind, ctypes.c_int))
    assert kind == "all" or found == 1
    assert kind != "some" or indices[0] == 1


def collective(f: Typed) -> None:
    n, me, team = f.job.n_pes, f.job.my_pe, pyshmem.TEAM_WORLD
    every = pyshmem.zeros(4 * n, f.dest.dtype)
    source = pyshmem.zeros(4 * n, f.dest.dtype)
    source[:] = np.resize(np.asarray(f.source), 4 * n)
    if f.family == "broadcast":
        f.call(team, f.dest, source, 3, int_(n - 1))
        f.expect(f.dest, *f.source[:3], f.dest[3])
        return
    strides = [1, 1] if f.family == "alltoalls" else []
    status = f.call(team, every, source, *strides, 2, result=ctypes.c_int)
    assert status == 0
    given = np.asarray(source[:2])
    if "all" in f.family:
        given = np.asarray(source[2 * me : 2 * me + 2])
    f.expect(every[: 2 * n], *np.resize(given, 2 * n).tolist())


def reduction(f: Typed) -> None:
    n, me = f.job.n_pes, f.job.my_pe
    status = f.call(pyshmem.TEAM_WORLD, f.dest, f.source, 2, result=ctypes.c_int)
    assert status == 0
    a, b = np.asarray(f.source)[:2]
    many = {"sum_reduce": n, "sum_inscan": me + 1, "sum_exscan": me}
    if f.family == "prod_reduce":
        expected = [a**n, b**n]
    else:
        times = many.get(f.family, 1)
        expected = [a * times, b * times]
        if f.family == "xor_reduce" and n % 2 == 0:
            expected = [0, 0]
    f.expect(f.dest, *expected, *f.dest[2:])


def handler_of(family: str) -> Callable[[Typed], None]:
    if family.startswith("atomic_"):
        return atomic
    if family.startswith(("wait_until", "test")):
        return wait
    if family.endswith(("_reduce", "scan")):
        return reduction
    if family in ("broadcast", "collect", "fcollect", "alltoall", "alltoalls"):
        return collective
    return rma


def typed_functions() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name in coverage.NAMES.read_text(encoding="utf-8").split():
        family, typename = coverage.family_of(name)
        if typename:
            found.setdefault(family, []).append((name, typename))
    return found


FUNCTIONS = typed_functions()


def test_the_list_of_typed_functions_is_whole():
    assert sum(map(len, FUNCTIONS.values())) > 1600


@pytest.mark.parametrize("family", FUNCTIONS)
def test_each_typed_function_does_what_its_routine_does(job, family):
    for name, typename in FUNCTIONS[family]:
        ctype = C_TYPES.get(typename)
        dtype = np.dtype(ctype or COMPLEX.get(typename) or np.uint8)
        if typename.isdigit():
            dtype = np.dtype((np.void, int(typename) // 8))
        size = dtype.itemsize
        dest, source = pyshmem.empty(4, dtype), pyshmem.empty(4, dtype)
        if dtype.kind == "V":
            dest.view(np.uint8)[:] = 9
            source.view(np.uint8)[:] = np.arange(4 * size)
        else:
            dest[:], source[:] = 9, [1, 2, 3, 4]
        handler_of(family)(Typed(name, family, ctype, dest, source, job))
        pyshmem.free(dest)
        pyshmem.free(source)


def test_signals_by_their_c_names(job):
    word = pyshmem.new_signal()
    ctx, me = ctypes.c_void_p(pyshmem.CTX_DEFAULT.handle), int_(job.my_pe)
    for first, prefix in (((), "shmem_"), ((ctx,), "shmem_ctx_")):
        for verb, operand, value in (("signal_set", 5, 5), ("signal_add", 3, 8)):
            getattr(LIBRARY, prefix + verb)(*first, *map(as_argument, (word, operand, me)))
            pyshmem.quiet()
            assert pyshmem.signal_fetch(word) == value


def test_each_other_function_is_called_by_a_c_program():
    programs = [
        path for path in (ROOT / "tests" / "native").iterdir() if path.suffix in (".c", ".cpp")
    ]
    called = set(re.findall(r"\w+", "".join(path.read_text() for path in programs)))
    typed = {name for functions in FUNCTIONS.values() for name, _ in functions}
    here = {"shmem_ctx_signal_set", "shmem_ctx_signal_add", "shmem_signal_set", "shmem_signal_add"}
    names = set(coverage.NAMES.read_text(encoding="utf-8").split())
    assert names - typed - here - called == set()
