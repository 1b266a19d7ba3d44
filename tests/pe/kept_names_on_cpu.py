# SPDX-License-Identifier: BSD-3-Clause
"""Do kernels that differ have different names of machine code? Prints those that are not told apart."""

from __future__ import annotations

import types
from typing import Any

import pyshmem.device  # noqa: F401  (before numba)

# isort: split
import numba
from numba import typeof

from pyshmem._core import kept_files
from pyshmem.device.leaf.cpu import kept_code

#: What stands for HERE in two programs, and the program, of a line or several.
PROGRAMS: list[tuple[str, str, list[str]]] = [
    ("1", "2", ["N = HERE", "def kernel(out): out[0] = N"]),
    ("0.0", "-0.0", ["N = HERE", "def kernel(out): out[0] = N"]),
    ("1", "2", ["kernel = (lambda n: lambda out: out + n)(HERE)"]),
    ("1", "2", ["def kernel(out, n=HERE): out[0] = n"]),
    ("1", "2", ["def kernel(out, *, n=HERE): out[0] = n"]),
    ("1", "2", ["f = cuda.jit(device=True)(lambda: HERE)", "def kernel(out): out[0] = f()"]),
    ("1", "2", ["f = njit(lambda: HERE)", "g = lambda: f()", "def kernel(out): out[0] = g()"]),
    ("", "fastmath=True", ["f = cuda.jit(HERE)(lambda: 1)", "def kernel(out): out[0] = f()"]),
    ("", "fastmath=True", ["f = njit(HERE)(lambda: 1)", "def kernel(out): out[0] = f()"]),
    ("", "'int32(int32)',", ["f = cuda.jit(HERE device=True)(abs_)", "def kernel(out): f(out)"]),
    # A module of which the kernel names one thing, and what it calls another.
    ("1", "2", ["m.N, m.M = HERE, 1", "f = lambda: m.M", "def kernel(out): out[0] = m.N + f()"]),
    ("1", "2", ["m.N, m.M = 1, HERE", "f = lambda: m.M", "def kernel(out): out[0] = m.N + f()"]),
    ("1", "2", ["m.N = HERE", "m.f = lambda: m.N", "def kernel(out): out[0] = m.f()"]),
    ("1", "2", ["class Kind(IntEnum): A = HERE", "def kernel(out): out[0] = Kind.A"]),
    ("1", "2", ["A = IntEnum('K', {'A': HERE, '__repr__': str}).A", "def kernel(out): out[0] = A"]),
    ("1", "2", ["N = type('N', (int,), {'__repr__': len})(HERE)", "def kernel(out): out[0] = N"]),
    ("a b", "b a", ["p = namedtuple('P', 'HERE')(1, 2)", "def kernel(out): out[0] = p.a"]),
    ("1", "2", ["P = namedtuple('P', 'a', defaults=[HERE])", "def kernel(out): out[0] = P().a"]),
    ("a b", "b a", ["given = [namedtuple('P', 'HERE')(1, 2)]", "def kernel(p): p.a"]),
    ("a b", "b a", ["given = [(1, namedtuple('P', 'HERE')(1, 2))]", "def kernel(p): p[1].a"]),
    ("1", "1.0", ["given = [HERE]", "def kernel(p): p"]),
    ("b", "*b", ["f = lambda HERE: len(b)", "def kernel(out): out[0] = f(out)"]),
    ("1", "2", ["table = np.array([HERE])", "def kernel(out): out[0] = table[0]"]),
    ("i4", "u4", ["table = np.ones(1, 'HERE')", "def kernel(out): out[0] = table[0]"]),
]
BEFORE = """
from collections import namedtuple
from enum import IntEnum
from types import ModuleType
import numpy as np
from numba import cuda, njit
abs_ = lambda x: abs(x)
m = ModuleType("m")
"""


def name_of(text: str) -> str:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(BEFORE + text, "/program.py", "exec"), names)
    return kept_code.digest_of(names["kernel"], typeof(tuple(names.get("given", [1]))), "")


def main() -> None:
    for one, other, lines in PROGRAMS:
        text = "\n".join(lines)
        first, again, second = (name_of(text.replace("HERE", word)) for word in (one, one, other))
        if not first:
            print("not kept:", text)
        elif first != again:
            print("has two names:", text)
        elif first == second:
            print(f"not told apart, with {one} and {other}: {text}")
    if name_of("m.__getattr__ = len\ndef kernel(out): out[0] = m.N"):
        print("kept, though nobody can know what the module gives")
    made = {kept_code.made_by()}
    numba.config.LOOP_VECTORIZE = 1 - numba.config.LOOP_VECTORIZE
    made.add(kept_code.made_by())
    other_version: Any = types.SimpleNamespace(
        version=lambda _name: "another", PackageNotFoundError=LookupError
    )
    kept_files.metadata = other_version
    kept_files.origin.cache_clear()
    made.add(kept_code.made_by())
    print(f"{len(PROGRAMS)} pairs, {len(made)} compilers")


main()
